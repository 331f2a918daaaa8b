//! A program that is no tool: one that reads a resource, fills a prompt, or completes an argument.

use super::execute::run_by_command;
use crate::{
    call_files::CallFolder,
    content::Files,
    host::{Host, environment::is_of_network},
    manifest::{defaults, interpreter},
    project::{Project, scan},
    run::{
        self, Allowed, Ceilings, End, Job, Recipe, Share, exit_status,
        sandbox::{Needs, Rules},
    },
};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use zcp::{CallError, Ctx, Result};

/// How long it may take unless something is said.
const TIME: Duration = Duration::from_secs(30);
/// How much it may write.
const MOST: u64 = 10 * 1024 * 1024;

/// A program, and where it runs.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    program: PathBuf,
    words: Vec<String>,
    pub(crate) path: PathBuf,
    time: Duration,
    /// A file of the project, for which the project's sandbox and limits hold.
    is_of_project: bool,
    host: Arc<Host>,
    project: Arc<Project>,
}

/// What is given to a program.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) stdin: Option<Vec<u8>>,
}

/// What it gave.
#[derive(Debug)]
pub(crate) struct Gave {
    pub(crate) bytes: Vec<u8>,
    /// None if it was ended by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) complaints: String,
    how: String,
}

impl Program {
    /// The program a file is.
    pub(crate) fn of(
        path: &Path,
        time: Option<Duration>,
        project: &Arc<Project>,
        host: &Arc<Host>,
    ) -> Result<Self, String> {
        let wrong = |why: String| format!("{}: {why}", path.display());
        let found = scan::program(path).ok_or_else(|| wrong("it is no program".into()))?;
        let (program, words) = interpreter::resolve(
            &project.interpreters.start(path, &found.head, &found.start),
            path,
            host.environment.path(),
            host.environment.command.as_deref(),
        )
        .map_err(wrong)?;
        let (path, time) = (path.to_path_buf(), time.unwrap_or(TIME));
        let (host, project) = (host.clone(), project.clone());
        Ok(Self { program, words, path, time, is_of_project: true, host, project })
    }

    /// A command of the machine.
    pub(crate) fn named(
        name: &str,
        time: Duration,
        project: &Arc<Project>,
        host: &Arc<Host>,
    ) -> Result<Self, String> {
        let program = which::which_in(name, Some(host.environment.path()), &project.root)
            .map_err(|_| format!("`{name}` is not in PATH: install it"))?;
        let (path, words) = (PathBuf::from(name), vec![]);
        let (host, project) = (host.clone(), project.clone());
        Ok(Self { program, words, path, time, is_of_project: false, host, project })
    }

    /// Runs it to its end.
    pub(crate) async fn run(&self, given: Given, ctx: Option<&Ctx>) -> Result<Gave> {
        let runs = [&self.path, &self.program];
        if self.is_of_project && runs.into_iter().any(|path| self.host.may_be_written(path)) {
            let name = self.path.file_name().unwrap_or_default().to_string_lossy();
            let why = "a script in a sandbox may have written it";
            return Err(CallError::new(format!("`{name}` is not run: {why}")));
        }
        let slot = self.host.concurrency.slot(ctx).await?;
        let mut args: Vec<OsString> = self.words.iter().map(OsString::from).collect();
        args.extend(given.argv);
        let mut env = self.host.script_env(&self.project.defaults.env_allow);
        if !self.is_of_project {
            // Where a command of the server's own goes, its settings say.
            env.retain(|(name, _)| !name.to_str().is_some_and(is_of_network));
        }
        env.push(("ZCP_PROJECT".into(), self.project.root.clone().into()));
        env.extend(given.env);
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut job = Job {
            name: name.to_string(),
            recipe: Recipe {
                program: self.program.clone(),
                args,
                cwd: self.project.root.clone(),
                env,
                out_names: vec!["ZCP_OUT"],
                stdin: given.stdin,
                ceilings: Ceilings::default(),
                begins_session: false,
                share: Share { processes: defaults::PROCESSES, memory: None, cpu: None },
            },
            allowed: Allowed { time: self.time, with_progress: None },
            shown: usize::try_from(MOST).unwrap_or(usize::MAX),
            most: MOST,
            spill: self.host.output_file(),
            questions: None,
            secrets: vec![],
            files: Files::of(&self.project.root),
            slot,
        };
        let _own = self.confine(&mut job)?;
        let ran = run::run(&self.host.nursery, &job, ctx).await?;
        match ran.end {
            End::Late(..) => {
                Err(CallError::new(format!("`{name}` took longer than {} s", self.time.as_secs())))
            }
            End::Exceeded(why) => Err(CallError::new(format!("`{name}` was stopped: {why}"))),
            End::TooMuch => Err(CallError::new(format!("`{name}` gave more than {MOST} bytes"))),
            End::Exited(status) => {
                let complaints = ran.complaints.text();
                let how = exit_status::words(status, &complaints);
                Ok(Gave { bytes: ran.output.held, code: status.code(), complaints, how })
            }
        }
    }

    /// Puts a run under the limits and into the sandbox of the project's `[defaults]`: the folder is
    /// its own, for as long as it runs.
    fn confine(&self, job: &mut Job) -> Result<Option<CallFolder>> {
        if !self.is_of_project {
            return Ok(None);
        }
        let (limits, recipe) = (&self.project.defaults.limits, &mut job.recipe);
        let ceilings = Ceilings::of(limits, self.project.defaults.sandbox.is_some());
        let processes = limits.processes.unwrap_or(defaults::PROCESSES);
        recipe.share = Share { processes, memory: limits.memory, cpu: limits.cpu };
        let Some(sandbox) = &self.project.defaults.sandbox else {
            match &self.host.environment.command {
                Some(command) if ceilings != Ceilings::default() => {
                    run_by_command(recipe, command, &Rules::limits(ceilings));
                }
                _ => recipe.ceilings = ceilings,
            }
            return Ok(None);
        };
        let Some(command) = &self.host.environment.command else {
            let name = self.path.file_name().unwrap_or_default().to_string_lossy();
            let why = "it is to run in a sandbox, which needs the `zcp` command";
            return Err(CallError::new(format!("`{name}` is not run: {why}")));
        };
        if let Some(why) = self.host.refuses(sandbox) {
            let name = self.path.file_name().unwrap_or_default().to_string_lossy();
            return Err(CallError::new(format!("`{name}` is not run: {why}")));
        }
        self.host.note_writable(sandbox, &self.project.root);
        let own = self.host.call_folder()?;
        for name in ["TMPDIR", "TMP", "TEMP"] {
            recipe.env.push((name.into(), own.path().into()));
        }
        let needs = Needs {
            project: &self.project.root,
            program: &recipe.program,
            path: self.host.environment.path(),
            sdk: &self.host.sdk(),
            temporary: own.path(),
            contract: None,
            writable: self.host.writable(),
        };
        let rules = Rules::new(sandbox, &needs, ceilings);
        self.host.environment.warn_of_root();
        job.files.read = rules.files().map(<[PathBuf]>::to_vec);
        run_by_command(recipe, command, &rules);
        recipe.begins_session = true;
        Ok(Some(own))
    }

    /// Runs it, and takes what it gives only if all went well.
    pub(crate) async fn output(&self, given: Given, ctx: Option<&Ctx>) -> Result<Vec<u8>> {
        let gave = self.run(given, ctx).await?;
        match gave.code {
            Some(0) => Ok(gave.bytes),
            _ => Err(CallError::new(self.failure(&gave))),
        }
    }

    /// How it failed, in words.
    pub(crate) fn failure(&self, gave: &Gave) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        match gave.complaints.as_str() {
            "" => format!("`{name}` failed: {}", gave.how),
            complaints => format!("`{name}` failed: {}\n{complaints}", gave.how),
        }
    }
}
