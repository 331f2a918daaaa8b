//! A project: where things are in its folder, and what it says of itself.

pub(crate) mod data_folders;
pub(crate) mod file_watch;
pub(crate) mod globs;
mod mount_entry;
mod policy_file;
pub(crate) mod scan;
pub(crate) mod setting_sources;

use crate::{
    call_files::read_text,
    compat::mcp_bash::{self, ProjectContext, policy_hook::Hook},
    manifest::{
        Manifest, Providers, Sandbox, ServerInfo,
        interpreters::{self, Interpreters},
        read_value,
    },
};
pub use mount_entry::Mount;
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use zcp_policy::Policy;

/// The folders a project may have.
const FOLDERS: [&str; 8] =
    ["tools", "resources", "prompts", "completions", "skills", "ui", "server.d", "providers"];

/// A folder of scripts, and what it says of itself.
#[derive(Debug, Clone)]
pub(crate) struct Project {
    pub(crate) root: PathBuf,
    /// Its scripts are written for mcp-bash.
    pub(crate) is_mcp_bash: bool,
    /// What its scripts share wants to know where the client works.
    pub(crate) wants_roots: bool,
    /// Its tools are the files of the folder itself.
    pub(crate) is_flat: bool,
    pub(crate) about: ServerInfo,
    pub(crate) defaults: Manifest,
    /// What it runs its scripts by.
    pub(crate) interpreters: Interpreters,
    pub(crate) tools: BTreeMap<String, Manifest>,
    pub(crate) mounts: BTreeMap<String, Mount>,
    /// Resources that are named in its file.
    pub(crate) resources: BTreeMap<String, Value>,
    /// What is said of providers that go elsewhere.
    pub(crate) providers: Providers,
    pub(crate) policy: Policy,
    /// A program of its own that decides about calls.
    pub(crate) policy_hook: Option<Hook>,
    /// Folders that are elsewhere.
    elsewhere: BTreeMap<&'static str, PathBuf>,
}

/// `zcp.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    server: ServerInfo,
    defaults: Manifest,
    interpreters: interpreters::Said,
    tools: BTreeMap<String, Manifest>,
    mounts: BTreeMap<String, Mount>,
    resources: BTreeMap<String, Value>,
    providers: Providers,
    /// For those who pack it.
    #[serde(rename = "bundle")]
    _bundle: Value,
    /// Read by itself.
    #[serde(rename = "policy")]
    _policy: Value,
}

impl File {
    /// What it says, and what it says that is not understood.
    fn read(said: Value, path: &Path) -> Result<(Self, Vec<String>), String> {
        if said.is_null() {
            return Ok((Self::default(), vec![]));
        }
        let mut strange = vec![];
        let path = path.display();
        let read = serde_ignored::deserialize(said, |member| {
            strange.push(format!("{path}: nothing is known of `{member}`"));
        });
        Ok((read.map_err(|error| format!("{path}: {error}"))?, strange))
    }
}

impl Project {
    /// What a folder says of itself now, and what is wrong with that.
    pub(crate) fn open(root: &Path, env: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut mistakes = vec![];
        let mut file = File::default();
        let path = root.join("zcp.toml");
        let said = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Value::Null),
            _ => read_value(&path).and_then(|said| match said.as_object() {
                // An editor may be about to write it.
                Some(all) if all.is_empty() => Err(format!(
                    "{}: it says nothing: write something, or remove it",
                    path.display()
                )),
                _ => Ok(said),
            }),
        };
        let policy = said.clone().map(|said| said.get("policy").cloned());
        let read = said.and_then(|said| File::read(said, &path));
        // What it forbids is not known if it cannot be read.
        let policy = read.as_ref().map_err(Clone::clone).and(policy);
        match read {
            Ok((read, strange)) => {
                file = read;
                mistakes.extend(strange);
            }
            Err(why) => {
                // It may say that everything runs in a sandbox.
                file.defaults.sandbox = Some(Sandbox::CLOSED);
                mistakes.push(why);
            }
        }
        let elsewhere = elsewhere(root, env);
        let server = place(root, &elsewhere, "server.d");
        let mut about = file.server;
        let meta = server.join("server.meta.json");
        if meta.is_file() {
            let read = read_value(&meta).and_then(|value| {
                serde_json::from_value(value)
                    .map_err(|error| format!("{}: {error}", meta.display()))
            });
            match read {
                Ok(said) => about = about.or(said),
                Err(why) => mistakes.push(why),
            }
        }
        let text = |path: PathBuf| Some(read_text(&path, LONGEST).ok()?.trim().to_owned());
        let full = |text: Option<String>| text.filter(|text| !text.is_empty());
        about.instructions = full(about.instructions)
            .or_else(|| full(text(server.join("server.instructions.md"))))
            .or_else(|| full(text(root.join("instructions.md"))));
        about.version = about.version.or_else(|| full(text(root.join("VERSION")))).or_else(|| {
            Some(read_value(&root.join("package.json")).ok()?["version"].as_str()?.to_owned())
        });
        let mut project = Self {
            is_mcp_bash: server.is_dir() || mcp_bash::names_project(root, env),
            wants_roots: shared(root).any(|text| mcp_bash::wants_roots(&text)),
            is_flat: !FOLDERS.iter().any(|name| place(root, &elsewhere, name).is_dir()),
            root: root.to_path_buf(),
            about,
            defaults: file.defaults,
            interpreters: Interpreters::of(root, file.interpreters),
            tools: file.tools,
            mounts: file.mounts,
            resources: file.resources,
            providers: file.providers,
            policy: Policy::default(),
            policy_hook: None,
            elsewhere,
        };
        match policy_file::read(&project, policy, env) {
            Ok((policy, hook)) => (project.policy, project.policy_hook) = (policy, hook),
            Err(why) => {
                project.policy = Policy::closed();
                mistakes.push(format!("{why}: until that is put right, no tool can be called"));
            }
        }
        (project, mistakes)
    }

    /// Where the files of one of its folders may be once links are followed.
    pub(crate) fn places(&self, name: &str) -> Vec<PathBuf> {
        vec![self.root.clone(), self.folder(name)]
    }

    /// One of its folders; it need not be there.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        match name {
            "tools" if self.is_flat => self.root.clone(),
            name => place(&self.root, &self.elsewhere, name),
        }
    }

    /// Where its tools are.
    pub(crate) fn layout(&self) -> scan::Layout {
        match (self.is_flat, self.is_mcp_bash) {
            (true, _) => scan::Layout::Flat,
            (false, true) => scan::Layout::McpBash,
            (false, false) => scan::Layout::Tools,
        }
    }

    /// What kind of project it is, in a few words.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.is_mcp_bash, self.is_flat) {
            (true, _) => "a project written for mcp-bash",
            (false, true) => "a folder whose files are its tools",
            (false, false) => "a project",
        }
    }

    /// Its folders whose files clients may see.
    pub(crate) fn served(&self) -> impl Iterator<Item = PathBuf> {
        let served = FOLDERS.iter().filter(|&&name| !(name == "tools" && self.is_flat));
        served.map(|name| self.folder(name))
    }

    /// Scripts that would be tools, were there none of the folders a project has.
    pub(crate) fn hidden_scripts(&self) -> Option<String> {
        // Mounts may run what is there.
        let may_be_meant = self.is_flat || self.is_mcp_bash || !self.mounts.is_empty();
        if may_be_meant || self.folder("tools").exists() {
            return None;
        }
        let beside = FOLDERS.iter().find(|name| self.folder(name).is_dir())?;
        let (found, _) = scan::tools(&self.root, scan::Layout::Flat);
        let (count, are, them) = match found.len() {
            0 => return None,
            1 => ("1 script".to_owned(), "is", "it"),
            many => (format!("{many} scripts"), "are", "them"),
        };
        Some(format!(
            "{count} beside `{beside}/` {are} not served: move {them} into `tools/`, or make an \
             empty folder `tools` if that is meant"
        ))
    }

    /// Scripts beside a folder of tools, in which they would be tools. If that folder is empty, it is
    /// meant.
    pub(crate) fn scripts_beside_tools(&self) -> Option<String> {
        let tools = self.folder("tools");
        let may_be_meant = self.is_flat || self.is_mcp_bash || !self.mounts.is_empty();
        let has_tools = fs::read_dir(&tools).is_ok_and(|mut entries| entries.next().is_some());
        if may_be_meant || !has_tools || tools.parent() != Some(&self.root) {
            return None;
        }
        let (found, _) = scan::tools(&self.root, scan::Layout::Flat);
        let first = found.first()?.path.file_name()?.to_string_lossy().into_owned();
        Some(match found.len() {
            1 => format!("`{first}` beside `tools/` is not served: move it into `tools/`"),
            many => format!(
                "{many} scripts beside `tools/` are not served ({first}, …): move them into `tools/`"
            ),
        })
    }

    /// What the contract of mcp-bash needs to know of it.
    pub(crate) fn context(&self) -> ProjectContext<'_> {
        ProjectContext {
            root: &self.root,
            name: self.name(),
            about: &self.about,
            tools: self.folder("tools"),
            wants_roots: self.wants_roots,
        }
    }

    /// What it is called.
    pub(crate) fn name(&self) -> String {
        let folder = self.root.file_name().map(|name| name.to_string_lossy().into_owned());
        self.about.name.clone().or(folder).unwrap_or_else(|| "scripts".to_owned())
    }
}

/// The folders of a project that variables move.
pub(crate) fn elsewhere(
    root: &Path,
    env: &BTreeMap<String, String>,
) -> BTreeMap<&'static str, PathBuf> {
    let moved = |&name: &&'static str| Some((name, mcp_bash::moved_folder(root, name, env)?));
    FOLDERS.iter().filter_map(moved).collect()
}

/// Where one of a project's folders is.
fn place(root: &Path, elsewhere: &BTreeMap<&'static str, PathBuf>, name: &str) -> PathBuf {
    elsewhere.get(name).cloned().unwrap_or_else(|| root.join(name))
}

/// The longest text of a project that is read.
const LONGEST: u64 = 1024 * 1024;

/// What the scripts of a project share, as text.
fn shared(root: &Path) -> impl Iterator<Item = String> {
    let files = scan::files(&root.join("lib")).into_iter();
    files.map(|file| read_text(&file, LONGEST).unwrap_or_default())
}
