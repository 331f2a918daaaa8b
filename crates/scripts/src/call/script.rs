//! A script: its file, what is said of it, and how it is started. Plain data.

use crate::{
    compat::mcp_bash::{self, Contract, ProjectContext, ToolContext},
    host::{Environment, Host},
    manifest::{
        Form, Manifest,
        defaults::{self, Defaults},
        interpreter::{self, Start},
    },
    project::{Project, scan::Found},
    run::{Allowed, Ceilings, Share},
};
use serde_json::Value;
use std::path::{Path, PathBuf};
use zcp::{Ctx, Result};

/// How many bytes a script may print.
pub(super) const MOST_OUTPUT: u64 = 100 * 1024 * 1024;
/// The word of a command that does without the script.
const NO_FILE: &str = "{no-file}";

/// A script, and all that is known of it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    pub(crate) form: Form,
    /// It is a request: what it prints comes from another server.
    pub(crate) is_request: bool,
    /// How its text begins: what that mentions decides what it is given.
    pub(crate) head: String,
    pub(crate) schema: Value,
    /// The program that runs it and its first words, or why it cannot be run.
    pub(crate) launch: Result<(PathBuf, Vec<String>), String>,
    /// How it differs from others, if it is written for mcp-bash.
    pub(crate) contract: Option<Contract>,
    /// What holds where it says nothing.
    defaults: Defaults,
}

impl Script {
    /// A file as a script, or what is wrong with what is said of it.
    pub(crate) fn new(
        found: Found,
        said: Manifest,
        project: &Project,
        environment: &Environment,
    ) -> Result<Self, String> {
        let name = said.name.clone().filter(|name| !name.is_empty()).unwrap_or(found.name);
        let schema = said.schema()?;
        let is_request = said.command.is_none() && found.start == Start::Request;
        let launch = match &said.command {
            Some(words) => command(words, &found.path, &project.root, environment),
            None => {
                let command = environment.command.as_deref();
                let start = project.interpreters.start(&found.path, &found.head, &found.start);
                interpreter::resolve(&start, &found.path, environment.path(), command)
            }
        };
        let launch = launch.map(|(program, mut words)| {
            if let Some(time) = said.timeout.filter(|_| is_request) {
                words.push(format!("--timeout={}", time.as_secs().max(1)));
            }
            (program, words)
        });
        let contract = match is_request {
            true => None,
            false => {
                Contract::of(said.args.as_ref(), project.is_mcp_bash, &found.head, environment)
            }
        };
        let form = match &contract {
            // A request is given its arguments in no other way.
            _ if is_request => Form::Stdin,
            Some(_) => Form::McpBash,
            None => said.args.clone().unwrap_or(Form::Both),
        };
        Ok(Self {
            name,
            schema,
            launch,
            form,
            is_request,
            defaults: defaults(contract.as_ref(), environment),
            contract,
            path: found.path,
            head: found.head,
            manifest: said,
        })
    }

    /// Whether what it prints may name files.
    pub(crate) fn prints_files(&self) -> bool {
        self.manifest.output_files == Some(true) && !self.is_request
    }

    /// Whether it promises structure of a kind that is not an object.
    pub(super) fn structures_anything(&self) -> bool {
        let kind = self.manifest.output_schema.as_ref().map(|schema| &schema["type"]);
        kind.is_some_and(|kind| kind != "object")
    }

    /// Files that it is, that it is run by, and that its command names.
    pub(crate) fn runs(&self, root: &Path) -> Vec<PathBuf> {
        let mut all = vec![self.path.clone()];
        if let Ok((program, words)) = &self.launch {
            all.push(program.clone());
            let cwd = self.cwd(root);
            all.extend(words.iter().map(|word| cwd.join(word)).filter(|path| path.is_file()));
        }
        all
    }

    /// Where it runs.
    pub(crate) fn cwd(&self, root: &Path) -> PathBuf {
        root.join(self.manifest.cwd.as_deref().unwrap_or(Path::new(".")))
    }

    /// Where it runs, if it may write anything and a script in a sandbox may write there.
    pub(crate) fn unsafe_folder(&self, project: &Project, host: &Host) -> Option<PathBuf> {
        let is_free = self.manifest.sandbox.as_ref().is_none_or(|one| one.write.is_none());
        let cwd = self.cwd(&project.root);
        (is_free && host.may_be_written(&cwd)).then_some(cwd)
    }

    /// What all processes of a run may have together.
    pub(super) fn share(&self) -> Share {
        let limits = &self.manifest.limits;
        let processes = limits.processes.unwrap_or(defaults::PROCESSES);
        Share { processes, memory: limits.memory, cpu: limits.cpu }
    }

    /// What the system itself refuses each of its processes.
    pub(super) fn ceilings(&self) -> Ceilings {
        Ceilings::of(&self.manifest.limits, self.manifest.sandbox.is_some())
    }

    /// How long a call may take.
    pub(super) fn allowed(&self, ctx: &Ctx) -> Allowed {
        let (said, defaults) = (&self.manifest, self.defaults);
        let asked = self
            .contract
            .as_ref()
            .and_then(|contract| contract.asked_timeout(ctx, defaults::MAX_TIMEOUT));
        let time = asked.or(said.timeout).unwrap_or(defaults.timeout);
        let extends = said.progress_extends_timeout.unwrap_or(defaults.progress_extends_timeout);
        let most = said.max_timeout.or(defaults.max_timeout);
        let most = most.unwrap_or(defaults::MAX_TIMEOUT.max(time));
        Allowed { time, with_progress: extends.then_some(most) }
    }

    /// How many bytes of its output are shown.
    pub(super) fn shown(&self) -> usize {
        let shown = self.manifest.limits.output.unwrap_or(self.defaults.output);
        usize::try_from(shown.min(MOST_OUTPUT)).unwrap_or(usize::MAX)
    }

    /// What its contract needs to know of it.
    pub(crate) fn context<'a>(&'a self, project: ProjectContext<'a>) -> ToolContext<'a> {
        ToolContext {
            name: &self.name,
            path: &self.path,
            head: &self.head,
            schema: &self.schema,
            manifest: &self.manifest,
            project,
        }
    }
}

/// What holds for a script that says nothing: as its contract has it, or the server's variables.
fn defaults(contract: Option<&Contract>, environment: &Environment) -> Defaults {
    let usual = Defaults::default();
    contract.map_or_else(
        || Defaults {
            timeout: mcp_bash::seconds(environment, mcp_bash::TIMEOUT).unwrap_or(usual.timeout),
            output: environment.shown_output().unwrap_or(usual.output),
            ..usual
        },
        |contract| contract.defaults,
    )
}

/// A command that was said: `{file}` is the script, which comes last otherwise, unless there is
/// `{no-file}`. The path of a program begins at the script's folder, or else at the project's.
fn command(
    words: &[String],
    file: &Path,
    root: &Path,
    environment: &Environment,
) -> Result<(PathBuf, Vec<String>), String> {
    let (program, rest) = words.split_first().ok_or("its `command` is empty")?;
    let path = file.to_string_lossy();
    let kept = rest.iter().filter(|word| *word != NO_FILE);
    let mut args: Vec<String> = kept.map(|word| word.replace("{file}", &path)).collect();
    if !words.iter().any(|word| word.contains("{file}") || word == NO_FILE) {
        args.push(path.clone().into_owned());
    }
    let program = program.replace("{file}", &path);
    let folders = [file.parent().unwrap_or(root), root];
    let found = folders
        .into_iter()
        .find_map(|folder| which::which_in(&program, Some(environment.path()), folder).ok());
    found.map(|found| (found, args)).ok_or_else(|| match program.contains(['/', '\\']) {
        true => format!(
            "its command `{program}` is not there, or not executable: a path begins at the \
             script's folder, or else at the project's"
        ),
        false => format!("its command `{program}` is not in PATH"),
    })
}
