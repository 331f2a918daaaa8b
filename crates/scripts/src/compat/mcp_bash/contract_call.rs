//! One call by the contract: the variables a tool is given, and the files it reads and writes.

use super::{
    ENV_ALLOWLIST, ENV_MODE, ToolContext, is_remote_token, is_true, number, remote_token, roots,
    tool_metadata::{about, metadata},
};
use crate::{
    call_files::{CallFiles, CallFolder},
    content::{self, Files},
    host::Host,
    redact,
    run::{Job, Questions},
};
use serde_json::{Map, Value, json};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};
use zcp::{CallError, Content, Ctx, Result, wire::RpcError};

/// What cannot be longer in a variable is in a file.
pub(super) const LONGEST: u64 = 64 * 1024;
/// How much of the files it writes for the server is read.
const MOST: u64 = 1024 * 1024;
/// Files that become part of an answer: how many.
const MOST_EMBEDDED: usize = 100;

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
    pub(super) async fn new(
        tool: &ToolContext<'_>,
        args: &Map<String, Value>,
        host: &Arc<Host>,
        ctx: &Ctx,
    ) -> Result<Self> {
        let (folder, files) = folder(host).await?;
        let (env, asks) = (inherited(host), ctx.client().form());
        let mut call = Self { folder, files, env, roots: vec![], asks };
        // Appended to without looking whether they are there.
        let mut written = vec![("error", vec![]), ("resources", vec![])];
        let mut payload = |name, value: &Value| {
            written.extend(call.payload(host, name, value));
        };
        payload(("MCP_TOOL_ARGS", "MCP_TOOL_ARGS_FILE"), &json!(args));
        payload(("MCP_TOOL_METADATA", "MCP_TOOL_METADATA_FILE"), &metadata(tool));
        let mut meta = meta(ctx);
        // What lets a client in is not for tools.
        if let Value::Object(members) = &mut meta {
            remote_token::keys(host.environment.variables())
                .iter()
                .for_each(|key| drop(members.remove(key)));
        }
        payload(("MCP_TOOL_META", "MCP_TOOL_META_FILE"), &meta);
        call.files.write(written).await?;
        let roots = roots::roots(tool, host, ctx).await?;
        call.set_roots(&roots);
        let key = call.folder.path().file_name().unwrap_or_default().to_string_lossy();
        for (name, value) in [
            ("MCP_SDK", host.sdk().to_string_lossy().into_owned()),
            ("MCP_TOOL_NAME", tool.name.to_owned()),
            ("MCP_TOOL_PATH", tool.path.to_string_lossy().into_owned()),
            ("MCP_PROGRESS_TOKEN", "zcp".to_owned()),
            ("MCP_ELICIT_SUPPORTED", u8::from(call.asks).to_string()),
            (
                "MCPBASH_CLIENT_SUPPORTS_UI",
                u8::from(ctx.client().extension(content::UI_EXTENSION)).to_string(),
            ),
            ("MCPBASH_WORKER_KEY", key.into_owned()),
        ]
        .into_iter()
        .chain(about(tool, host))
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
        let longest = number(&host.environment, "MCPBASH_ENV_PAYLOAD_THRESHOLD")
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
        redact::hide_text(&mut text, secrets);
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

/// What the client says about its request.
fn meta(ctx: &Ctx) -> Value {
    let params: Value =
        ctx.params().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    params.get("_meta").cloned().unwrap_or_else(|| json!({}))
}

/// Variables of the framework's own that the server was given; not the secret among them.
fn inherited(host: &Host) -> Vec<(OsString, OsString)> {
    let allowed = host.environment.get(ENV_ALLOWLIST).unwrap_or_default();
    let allowed: Vec<&str> = allowed.split([' ', ',']).collect();
    let mode = host.environment.get(ENV_MODE).unwrap_or("minimal");
    let whole = mode == "inherit" && is_true(&host.environment, "MCPBASH_TOOL_ENV_INHERIT_ALLOW");
    let seen = |name: &str| {
        let own = name.starts_with("MCP_")
            || name.starts_with("MCPBASH_")
            || host.environment.is_set_by_project(name);
        !is_remote_token(name) && (own || whole || (mode != "minimal" && allowed.contains(&name)))
    };
    let own = host.environment.variables().iter().filter(|(name, _)| seen(name) && *name != "PATH");
    own.map(|(name, value)| (name.into(), value.into())).collect()
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
