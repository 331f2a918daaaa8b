//! Folders of scripts, served to a client that does what a file says.

use crate::{folder::Folder, matching::differences, pipe::PipeClient};
use serde_json::{Map, Value, json};
use std::{
    collections::VecDeque,
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use zcp_scripts::Scripts;

/// A copy of a project, served over pipes to a client of 2025-11-25.
#[derive(Debug)]
pub struct Project {
    client: PipeClient,
    folder: Folder,
    answers: VecDeque<Value>,
    roots: Vec<Value>,
    last: u64,
}

/// What a request led to, beside its response.
#[derive(Debug, Default)]
struct Heard {
    progress: Vec<Value>,
    logs: Vec<Value>,
}

impl Project {
    /// Copies a project and serves it as its expectations say, with another `PATH` if one is given.
    pub async fn open(source: &Path, expected: &Value, path: Option<&str>) -> Self {
        let name = source.file_name().expect("a name").to_string_lossy().into_owned();
        let folder = Folder::new(&format!("project-{name}-{}", path.is_some()));
        let root = folder.0.join(&name);
        copy(source, &root).expect("the project can be copied");
        let mut scripts = Scripts::folder(&root).command(jq());
        for (name, value) in expected["env"].as_object().into_iter().flatten() {
            scripts = scripts.env(name, value.as_str().expect("a variable is text"));
        }
        scripts = path.iter().fold(scripts, |scripts, path| scripts.env("PATH", *path));
        let scripts = scripts.open().expect("the folder opens");
        assert_eq!(*scripts.mistakes().borrow(), Vec::<String>::new(), "{name}");
        let list = |name: &str| expected[name].as_array().cloned();
        let mut capabilities = json!({ "elicitation": { "form": {}, "url": {} } });
        if list("roots").is_some() {
            capabilities["roots"] = json!({});
        }
        let roots = list("roots").unwrap_or_default();
        let roots = roots.iter().map(|root| {
            let path = root.join(&folder.0.join(&name));
            json!({ "uri": format!("file://{}", path.display()), "name": root["name"] })
        });
        let mut project = Self {
            client: PipeClient::new(scripts.server()),
            roots: roots.collect(),
            answers: list("answers").unwrap_or_default().into(),
            folder,
            last: 0,
        };
        let open = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" } });
        project.ask("initialize", &open).await;
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        project.client.send(ready).await;
        project
    }

    /// Does one thing after the other, and tells what differs from what was expected.
    pub async fn follow(mut self, expected: &Value) -> Vec<String> {
        let mut all = vec![];
        for (number, step) in expected["steps"].as_array().into_iter().flatten().enumerate() {
            let method = step["method"].as_str().expect("a step has a method");
            let params = step.get("params").cloned().unwrap_or_else(|| json!({}));
            let (answer, heard) = self.ask(method, &params).await;
            let label = format!("step {number}, {method} {params}");
            let found = differ(step, answer, &heard);
            all.extend(found.into_iter().map(|what| format!("{label}: {what}")));
        }
        all.extend(self.answers.iter().map(|left| format!("nobody asked for {left}")));
        self.client.close().await;
        drop(self.folder);
        all
    }

    async fn ask(&mut self, method: &str, params: &Value) -> (Value, Heard) {
        self.last += 1;
        let id = json!(self.last);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.client.send(request).await;
        let mut heard = Heard::default();
        loop {
            let message = self.client.next().await;
            match message["method"].as_str() {
                None if message["id"] == id => return (message, heard),
                Some("notifications/progress") => {
                    heard.progress.push(message["params"]["progress"].clone());
                }
                Some("notifications/message") => {
                    heard.logs.push(message["params"]["level"].clone());
                }
                Some("roots/list") => {
                    let roots = json!({ "roots": self.roots });
                    self.answer(&message["id"], roots).await;
                }
                Some("elicitation/create") => {
                    let answer = self.answers.pop_front().expect("there is an answer left");
                    self.answer(&message["id"], answer).await;
                }
                _ => (),
            }
        }
    }

    async fn answer(&mut self, id: &Value, result: Value) {
        self.client.send(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }
}

fn differ(step: &Value, mut answer: Value, heard: &Heard) -> Vec<String> {
    let mut all = vec![];
    match step.get("error") {
        Some(error) => {
            let wanted = json!({ "error": { "code": error["code"],
                "message": format!("~{}", error["contains"].as_str().unwrap_or_default()) } });
            all.extend(differences(&wanted, &answer));
        }
        None => {
            let mut wanted = step["expect"].clone();
            // In which order things are listed is nobody's promise.
            sort(&mut wanted);
            sort(&mut answer["result"]);
            all.extend(differences(&json!({ "result": wanted }), &answer));
        }
    }
    let differ = step.get("logs").map(|wanted| differences(wanted, &json!(heard.logs)));
    all.extend(differ.into_iter().flatten().map(|differ| format!("logs {differ}")));
    match step.get("progress") {
        None => (),
        Some(Value::Array(wanted)) => {
            let numbers = |all: &[Value]| all.iter().map(Value::as_f64).collect::<Vec<_>>();
            let (wanted, heard) = (numbers(wanted), numbers(&heard.progress));
            let is_so = match step["close"] == true {
                true => is_most_of(&heard, &wanted),
                false => heard == wanted,
            };
            if !is_so {
                all.push(format!("progress: expected {wanted:?}, got {heard:?}"));
            }
        }
        Some(wanted) => all.extend(differences(wanted, &json!(heard.progress))),
    }
    all
}

/// Whether these are the others in their order, with the first of them: of reports that come close
/// to each other, those that follow may be left out.
fn is_most_of(heard: &[Option<f64>], wanted: &[Option<f64>]) -> bool {
    let mut left = wanted.iter();
    let in_order = heard.iter().all(|one| left.any(|next| next == one));
    in_order && heard.first() == wanted.first()
}

fn sort(result: &mut Value) {
    let members: Option<&mut Map<String, Value>> = result.as_object_mut();
    for (name, value) in members.into_iter().flatten() {
        if ["tools", "resources", "resourceTemplates", "prompts"].contains(&name.as_str())
            && let Value::Array(items) = value
        {
            items.sort_by_key(|item| item["name"].to_string());
        }
    }
}

/// A root's path, where it is in the copy.
trait Joined {
    fn join(&self, root: &Path) -> PathBuf;
}

impl Joined for Value {
    fn join(&self, root: &Path) -> PathBuf {
        let path = root.join(self["path"].as_str().expect("a root has a path"));
        path.canonicalize().unwrap_or(path)
    }
}

/// The command of this workspace, which does as jq does where there is none.
fn jq() -> PathBuf {
    crate::examples::zcp()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => {
                // With its permissions, but for others'.
                fs::copy(entry.path(), &target)?;
                let mode = fs::metadata(&target)?.permissions().mode() & 0o755;
                fs::set_permissions(&target, fs::Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}
