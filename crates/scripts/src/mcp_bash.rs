//! The contract of projects written for mcp-bash: variables, files of a call, and what they mean.

use crate::{
    call_files::{self, CallFiles, CallFolder},
    content::{self, Files},
    host::Host,
    icons::icons,
    remote,
    run::{Job, Questions},
    scan,
    script::Script,
    secrets,
};
use serde_json::{Map, Value, json};
use std::{
    ffi::OsString,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use zcp::{
    CallError, Content, Ctx, Result,
    wire::{RpcError, mcp::roots::Root},
};

/// What cannot be longer in a variable is in a file.
const LONGEST: u64 = 64 * 1024;
/// How much of the files it writes for the server is read.
const MOST: u64 = 1024 * 1024;
/// How long a client may take to say where it works.
const ROOTS_TIME: Duration = Duration::from_secs(5);
/// Files that become part of an answer: how many.
const MOST_EMBEDDED: usize = 100;
/// Words of scripts that are written for it.
const MENTIONED: [&str; 3] = ["MCP_SDK", "MCP_TOOL_", "MCPBASH_"];
/// Folders of a client that a script is told of.
const MOST_ROOTS: usize = 64;
/// Words of scripts that want to know where the client works.
const WANTS_ROOTS: [&str; 3] = ["MCP_ROOTS", "mcp_roots", "mcp_require_path"];
/// The version of the framework whose contract this is.
const VERSION: &str = "1.3.0";

/// Whether a script's text says that it is written for it.
pub(crate) fn is_meant(text: &str) -> bool {
    MENTIONED.iter().any(|word| text.contains(word))
}

/// Whether a script's text says that it wants to know where its client works.
pub(crate) fn wants_roots(text: &str) -> bool {
    WANTS_ROOTS.iter().any(|word| text.contains(word))
}

/// A setting that is a number.
pub(crate) fn number(host: &Host, name: &str) -> Option<u64> {
    host.env(name)?.trim().parse().ok()
}

/// A setting that is a time.
pub(crate) fn seconds(host: &Host, name: &str) -> Option<Duration> {
    number(host, name).map(Duration::from_secs)
}

/// A setting that is on.
pub(crate) fn is_true(host: &Host, name: &str) -> bool {
    means_yes(host.env(name))
}

pub(crate) fn means_yes(value: Option<impl AsRef<str>>) -> bool {
    value.is_some_and(|value| matches!(value.as_ref(), "true" | "1" | "yes" | "on"))
}

/// One call: its private folder and its variables.
#[derive(Debug)]
pub(crate) struct Call {
    folder: CallFolder,
    /// The same, for what its script writes there.
    files: CallFiles,
    env: Vec<(OsString, OsString)>,
    roots: Vec<PathBuf>,
    asks: bool,
}

impl Call {
    pub(crate) async fn new(script: &Script, args: &Map<String, Value>, ctx: &Ctx) -> Result<Self> {
        let (folder, files) = folder(&script.host).await?;
        let (env, asks) = (inherited(&script.host), ctx.client().form());
        let mut call = Self { folder, files, env, roots: vec![], asks };
        // Appended to without looking whether they are there.
        let mut written = vec![("error", vec![]), ("resources", vec![])];
        let mut payload = |name, value: &Value| {
            written.extend(call.payload(&script.host, name, value));
        };
        payload(("MCP_TOOL_ARGS", "MCP_TOOL_ARGS_FILE"), &json!(args));
        payload(("MCP_TOOL_METADATA", "MCP_TOOL_METADATA_FILE"), &metadata(script));
        let mut meta = meta(ctx);
        // What lets a client in is not for tools.
        if let Value::Object(members) = &mut meta {
            remote::keys(script.host.whole_env()).iter().for_each(|key| drop(members.remove(key)));
        }
        payload(("MCP_TOOL_META", "MCP_TOOL_META_FILE"), &meta);
        call.files.write(written).await?;
        let roots = match may_want_roots(script) {
            true => roots(script, ctx).await?,
            false => fallback_roots(script),
        };
        call.set_roots(&roots);
        let key = call.folder.path().file_name().unwrap_or_default().to_string_lossy();
        for (name, value) in [
            ("MCP_SDK", script.host.sdk().to_string_lossy().into_owned()),
            ("MCP_TOOL_NAME", script.name.clone()),
            ("MCP_TOOL_PATH", script.path.to_string_lossy().into_owned()),
            ("MCP_PROGRESS_TOKEN", "zcp".to_owned()),
            ("MCP_ELICIT_SUPPORTED", u8::from(call.asks).to_string()),
            ("MCPBASH_CLIENT_SUPPORTS_UI", u8::from(ctx.client().extension(crate::UI)).to_string()),
            ("MCPBASH_WORKER_KEY", key.into_owned()),
        ]
        .into_iter()
        .chain(about(script))
        {
            call.env.push((name.into(), value.into()));
        }
        for (name, file) in [
            ("MCP_TOOL_ERROR_FILE", "error"),
            ("MCP_TOOL_RESOURCES_FILE", "resources"),
            ("MCP_CANCEL_FILE", "cancelled"),
            ("MCP_ELICIT_REQUEST_FILE", "question"),
            ("MCP_ELICIT_RESPONSE_FILE", "answer"),
            ("MCPBASH_DEBUG_LOG", "debug.log"),
        ] {
            call.env.push((name.into(), call.folder.path().join(file).into()));
        }
        call.env.push(("MCP_CALL_DIR".into(), call.folder.path().into()));
        Ok(call)
    }

    /// Where its files are.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A value in a variable, or in a file that another names, which is to be written.
    fn payload(
        &mut self,
        host: &Host,
        (name, file): (&'static str, &'static str),
        value: &Value,
    ) -> Option<(&'static str, Vec<u8>)> {
        let text = value.to_string();
        let longest = number(host, "MCPBASH_ENV_PAYLOAD_THRESHOLD")
            .unwrap_or(LONGEST)
            .min(LONGEST * 2 - 1024);
        let json = format!("{name}_JSON");
        if text.len() as u64 <= longest {
            self.env.push((json.into(), text.into()));
            self.env.push((file.into(), "".into()));
            return None;
        }
        self.env.push((json.into(), "".into()));
        self.env.push((file.into(), self.folder.path().join(name).into()));
        Some((name, text.into_bytes()))
    }

    fn set_roots(&mut self, roots: &[Value]) {
        self.roots =
            roots.iter().filter_map(|root| root["path"].as_str().map(PathBuf::from)).collect();
        let paths: Vec<_> =
            self.roots.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        self.env.push(("MCP_ROOTS_JSON".into(), json!(roots).to_string().into()));
        self.env.push(("MCP_ROOTS_PATHS".into(), paths.join("\n").into()));
        self.env.push(("MCP_ROOTS_COUNT".into(), paths.len().to_string().into()));
    }

    /// Adds what the contract says to a run.
    pub(crate) fn prepare(&self, job: &mut Job) {
        job.recipe.env.extend(self.env.iter().cloned());
        job.recipe.out_names.extend(["MCP_PROGRESS_STREAM", "MCP_LOG_STREAM"]);
        job.recipe.stdin = None;
        job.questions = self.asks.then(|| Questions {
            files: self.files.clone(),
            asked: "question",
            answered: "answer",
        });
    }

    /// What the script wrote as its error: an error of the protocol, whatever else it did.
    pub(crate) async fn error(&self, secrets: &[String]) -> Result<()> {
        let mut text = self.text("error").await;
        secrets::hide_text(&mut text, secrets);
        if text.trim().is_empty() {
            return Ok(());
        }
        let error = serde_json::from_str::<RpcError>(text.trim())
            .unwrap_or_else(|_| RpcError::internal("Tool failed").with_data(json!(text.trim())));
        Err(CallError::Rpc(Box::new(error)))
    }

    /// A file of the contract, as far as it is read.
    async fn text(&self, name: &'static str) -> String {
        let bytes = self.files.read(name, MOST).await.unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The files the script wants to be part of its answer.
    pub(crate) async fn embedded(&self, files: &Files) -> Vec<Content> {
        let cwd = &files.folder;
        let text = self.text("resources").await;
        let mut from = self.roots.clone();
        from.push(cwd.clone());
        let mut all = vec![];
        for (path, mime, uri) in listed(&text).into_iter().take(MOST_EMBEDDED) {
            let path = cwd.join(path);
            let (whose, from) = (files.clone(), from.clone());
            let may_be = move |path: &Path| whose.may_read(path) && content::is_in(path, &from);
            let bytes = match files.read(&path, may_be).await {
                Ok(bytes) => bytes,
                Err(why) => {
                    tracing::warn!("a file is not embedded: {}: {why}", path.display());
                    continue;
                }
            };
            let mime = mime.unwrap_or_else(|| content::mime_of(Some(&path), &bytes));
            let uri = uri.unwrap_or_else(|| content::uri_of(&path));
            all.push(Content::embed(content::contents(bytes, mime, &uri)));
        }
        all
    }
}

/// A folder for one call, and the same as its script's files.
async fn folder(host: &Arc<Host>) -> Result<(CallFolder, CallFiles)> {
    let host = host.clone();
    let made = tokio::task::spawn_blocking(move || {
        let folder = host.call_folder()?;
        let files = CallFiles::open(folder.path())?;
        std::io::Result::Ok((folder, files))
    });
    Ok(made.await??)
}

/// A tool as the framework keeps it.
pub(crate) fn metadata(script: &Script) -> Value {
    let said = &script.manifest;
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
    let path = script.path.strip_prefix(script.project.folder("tools")).unwrap_or(&script.path);
    let mut all = json!({
        "name": script.name,
        "description": said.description.as_deref().unwrap_or_default(),
        "path": path,
        "inputSchema": script.schema,
        "timeoutSecs": seconds(said.timeout),
    });
    let icons = icons(
        &said.icons,
        script.path.parent().unwrap_or(Path::new(".")),
        &script.project.places("tools"),
    );
    for (name, value) in [
        ("title", json!(said.title)),
        ("timeoutHint", json!(said.timeout_hint)),
        ("progressExtendsTimeout", json!(said.progress_extends_timeout.filter(|extends| *extends))),
        ("maxTimeoutSecs", json!(seconds(said.max_timeout))),
        ("outputSchema", json!(said.output_schema)),
        ("icons", json!((!icons.is_empty()).then_some(icons))),
        ("annotations", json!(said.annotations)),
        ("_meta", json!(said.meta)),
    ] {
        if !value.is_null() {
            all[name] = value;
        }
    }
    all
}

/// What a tool is told of the server and the project it belongs to.
fn about(script: &Script) -> Vec<(&'static str, String)> {
    let (host, project) = (&script.host, &script.project);
    let about = &project.about;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let icons = (!about.icons.is_empty()).then(|| json!(about.icons).to_string());
    let mut all = vec![
        ("MCPBASH_PROJECT_ROOT", project.root.to_string_lossy().into_owned()),
        ("MCPBASH_MODE", "full".to_owned()),
        ("MCPBASH_TRANSPORT", "stdio".to_owned()),
        ("MCPBASH_JSON_TOOL", "jq".to_owned()),
        ("MCPBASH_JSON_TOOL_BIN", host.jq.to_string_lossy().into_owned()),
        ("MCPBASH_FRAMEWORK_VERSION", VERSION.to_owned()),
        ("MCPBASH_SERVER_NAME", project.name()),
        ("MCPBASH_SERVER_TITLE", about.title.clone().unwrap_or_else(|| titled(&project.root))),
        ("MCPBASH_SERVER_VERSION", about.version.clone().unwrap_or_else(|| "0.0.0".to_owned())),
        ("MCPBASH_SERVER_DESCRIPTION", text(&about.description)),
        ("MCPBASH_SERVER_WEBSITE_URL", text(&about.website_url)),
        ("MCPBASH_SERVER_ICONS", text(&icons)),
        ("MCPBASH_SERVER_INSTRUCTIONS", text(&about.instructions)),
    ];
    // Nothing is forbidden where nobody says what is allowed.
    if host.env("MCPBASH_TOOL_ALLOWLIST").is_none() {
        all.push(("MCPBASH_TOOL_ALLOWLIST", "*".to_owned()));
    }
    // No program could be started with a longer one.
    all.iter_mut().filter(|(_, value)| value.len() as u64 > LONGEST).for_each(|(_, value)| {
        value.clear();
    });
    all
}

/// A folder's name as a title: `my-server` is `My Server`.
fn titled(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let words = name.split(['-', '_', ' ']).filter(|word| !word.is_empty()).map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_uppercase().to_string());
        first.unwrap_or_default() + letters.as_str()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// How a script begins, as far as it is looked at.
fn beginning(path: &Path) -> String {
    let mut text = vec![];
    let read =
        call_files::open_regular(path).and_then(|file| file.take(MOST).read_to_end(&mut text));
    read.map_or(String::new(), |_| String::from_utf8_lossy(&text).into_owned())
}

/// What the client says about its request.
fn meta(ctx: &Ctx) -> Value {
    let params: Value =
        ctx.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    params.get("_meta").cloned().unwrap_or_else(|| json!({}))
}

/// The time a client asks for: no more than `most`.
pub(crate) fn asked_time(ctx: &Ctx, most: Duration) -> Option<Duration> {
    let params: Value = serde_json::from_str(ctx.params()?).ok()?;
    let seconds = params.get("timeoutSecs")?.as_f64()?;
    Duration::try_from_secs_f64(seconds).ok().map(|time| time.min(most))
}

/// Variables of the framework's own that the server was given; not the secret among them.
fn inherited(host: &Host) -> Vec<(OsString, OsString)> {
    let allowed = host.env("MCPBASH_TOOL_ENV_ALLOWLIST").unwrap_or_default();
    let allowed: Vec<&str> = allowed.split([' ', ',']).collect();
    let mode = host.env("MCPBASH_TOOL_ENV_MODE").unwrap_or("minimal");
    let whole = mode == "inherit" && is_true(host, "MCPBASH_TOOL_ENV_INHERIT_ALLOW");
    let is_secret = |name: &str| name.starts_with("MCPBASH_REMOTE_TOKEN");
    let seen = |name: &str| {
        let own = name.starts_with("MCP_") || name.starts_with("MCPBASH_") || host.sets(name);
        !is_secret(name) && (own || whole || (mode != "minimal" && allowed.contains(&name)))
    };
    let own = host.whole_env().iter().filter(|(name, _)| seen(name) && *name != "PATH");
    own.map(|(name, value)| (name.into(), value.into())).collect()
}

/// Whether a script, or what it shares with others, mentions where the client works.
fn may_want_roots(script: &Script) -> bool {
    // Of a long script only the beginning is at hand.
    let is_cut = script.text.len() as u64 >= scan::HEAD;
    script.project.wants_roots
        || wants_roots(&script.text)
        || (is_cut && wants_roots(&beginning(&script.path)))
}

/// Where the client works; or what else is said of that, if the client says nothing in time.
async fn roots(script: &Script, ctx: &Ctx) -> Result<Vec<Value>> {
    if !ctx.client().roots() {
        return Ok(fallback_roots(script));
    }
    let time = seconds(&script.host, "MCPBASH_ROOTS_REQUEST_TIMEOUT").unwrap_or(ROOTS_TIME);
    let told = match tokio::time::timeout(time, ctx.roots("roots")).await {
        Ok(Err(CallError::Paused)) => return Err(CallError::Paused),
        Ok(Ok(told)) => told,
        Ok(Err(why)) => {
            tracing::debug!("the client does not say where it works: {why}");
            vec![]
        }
        Err(_) => {
            tracing::debug!("the client does not say where it works in {} s", time.as_secs());
            vec![]
        }
    };
    let there = |root: Root| {
        let path = url::Url::parse(&root.uri).ok()?.to_file_path().ok()?.canonicalize().ok()?;
        Some(named_root(&path, root.name.as_deref()))
    };
    // Any path, which may be on a slow disk or in a network.
    let found = move || told.into_iter().take(MOST_ROOTS).filter_map(there).collect();
    let all: Vec<Value> = tokio::task::spawn_blocking(found).await.unwrap_or_default();
    Ok(if all.is_empty() { fallback_roots(script) } else { all })
}

fn named_root(path: &Path, name: Option<&str>) -> Value {
    let last = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.map(str::to_owned).or(last).unwrap_or_default();
    json!({ "uri": content::uri_of(path), "name": name, "path": path })
}

/// Where the server, the project, or nobody says that the client works.
fn fallback_roots(script: &Script) -> Vec<Value> {
    let mut all = vec![];
    let root = &script.project.root;
    let there = |path: &str| root.join(path).canonicalize().ok();
    if let Some(said) = script.host.env("MCPBASH_ROOTS").filter(|said| !said.is_empty()) {
        all.extend(said.split(':').filter_map(there).map(|path| named_root(&path, None)));
    } else if let Ok(file) = crate::manifest::read_value(&root.join("config/roots.json")) {
        for one in file["roots"].as_array().into_iter().flatten() {
            let path = one["path"].as_str().and_then(there);
            all.extend(path.map(|path| named_root(&path, one["name"].as_str())));
        }
    }
    if all.is_empty() {
        all.push(named_root(root, None));
    }
    all
}

/// A list of files: as JSON, or a line each with tabs between path, type and address.
fn listed(text: &str) -> Vec<(PathBuf, Option<String>, Option<String>)> {
    let full =
        |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    if let Ok(value) = serde_json::from_str::<Value>(text.trim()) {
        let all = match value {
            Value::Array(all) => all,
            one => vec![one],
        };
        return all
            .iter()
            .filter_map(|one| {
                let path = one.as_str().or_else(|| one["path"].as_str())?;
                Some((path.into(), full(one["mimeType"].as_str()), full(one["uri"].as_str())))
            })
            .collect();
    }
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let mut parts = line.split('\t');
            let path = parts.next().unwrap_or_default().into();
            (path, full(parts.next()), full(parts.next()))
        })
        .collect()
}
