//! A script as a tool.

use crate::{
    answer::About,
    arguments,
    call::{self, Noted},
    call_files::CallFolder,
    catalog::Program,
    confine::{Needs, Rules},
    content::{Files, Printed},
    convert,
    host::Host,
    icons::icons,
    interpreter::{self, Start},
    manifest::{AsTask, Form, Manifest},
    mcp_bash,
    program::PROCESSES,
    project::Project,
    run::{self, Allowed, Ceilings, Job, Recipe, Share},
    scan::Found,
    secrets,
    turns::Turns,
};
use serde_json::{Map, Value};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use zcp::{CallError, Ctx, Output, Result, Signature, Tool};
use zcp_schema::Lazy;

/// How long a script may take unless it says otherwise.
pub(crate) const TIME: Duration = Duration::from_secs(5 * 60);
/// The same, however much progress it makes.
pub(crate) const MOST_TIME: Duration = Duration::from_secs(60 * 60);
/// How much of its output is shown.
pub(crate) const SHOWN: u64 = 256 * 1024;
/// The same in projects written for mcp-bash.
const SHOWN_THERE: u64 = 10 * 1024 * 1024;
/// How much it may write.
const MOST: u64 = 100 * 1024 * 1024;

/// The word of a command that does without the script.
const NO_FILE: &str = "{no-file}";

/// A script, and all that is known of it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) manifest: Manifest,
    pub(crate) form: Form,
    /// It is a request: what it answers is somebody else's.
    is_request: bool,
    /// What its text mentions decides what it is given.
    pub(crate) text: String,
    pub(crate) schema: Value,
    /// Nothing where a schema was never held against anybody.
    check_input: Option<Lazy>,
    check_output: Option<Lazy>,
    launch: Result<(PathBuf, Vec<String>), String>,
    turns: Arc<Turns>,
    pub(crate) project: Arc<Project>,
    pub(crate) host: Arc<Host>,
}

impl Script {
    /// What a file is as a tool, and what is wrong with it.
    pub(crate) fn new(
        found: Found,
        said: Manifest,
        project: &Arc<Project>,
        host: &Arc<Host>,
    ) -> Result<Self, String> {
        let name = said.name.clone().filter(|name| !name.is_empty()).unwrap_or(found.name);
        let schema = said.schema()?;
        let is_request = said.command.is_none() && found.start == Start::Request;
        let launch = match &said.command {
            Some(words) => command(words, &found.path, host),
            None => {
                let command = host.command.as_deref();
                interpreter::resolve(&found.start, &found.path, host.path(), command)
            }
        };
        let launch = launch.map(|(program, mut words)| {
            if let Some(time) = said.timeout.filter(|_| is_request) {
                words.push(format!("--timeout={}", time.as_secs().max(1)));
            }
            (program, words)
        });
        let form = match &said.args {
            // There is no other way for them.
            _ if is_request => Form::Stdin,
            Some(form) => form.clone(),
            None if project.is_mcp_bash || mcp_bash::is_meant(&found.head) => Form::McpBash,
            None => Form::Both,
        };
        said.sandbox.iter().for_each(|sandbox| host.note_writable(sandbox, &project.root));
        // One that cannot be compiled is told of when the tool is added.
        let check_input = Lazy::new(&schema).ok().filter(|_| form != Form::McpBash);
        let check_output = said.output_schema.as_ref().and_then(|schema| Lazy::new(schema).ok());
        Ok(Self {
            name,
            schema,
            check_input,
            check_output,
            launch,
            form,
            is_request,
            turns: host.places.turns(&found.path, &said.limits),
            path: found.path,
            text: found.head,
            manifest: said,
            project: project.clone(),
            host: host.clone(),
        })
    }

    /// The tool it is.
    pub(crate) fn tool(self: Arc<Self>) -> Tool {
        let said = &self.manifest;
        let script = self.clone();
        let mut tool = Tool::from_parts(&self.name, Signature::default(), move |input| {
            let script = script.clone();
            Box::pin(async move { call::call(&script, &input).await })
        })
        .input_schema(self.schema.clone())
        // They are checked on the way, so that whoever looks on sees what was wrong, too.
        .unchecked_input();
        tool = said.description.iter().fold(tool, |tool, text| tool.description(text));
        tool = said.title.iter().fold(tool, |tool, text| tool.title(text));
        tool =
            said.output_schema.iter().fold(tool, |tool, schema| tool.output_schema(schema.clone()));
        tool = said.annotations.iter().fold(tool, |tool, hints| tool.annotations(hints.clone()));
        let folder = self.path.parent().unwrap_or(Path::new("."));
        tool = icons(&said.icons, folder, &self.project.places("tools"))
            .into_iter()
            .fold(tool, Tool::icon);
        tool = said
            .meta
            .iter()
            .flatten()
            .fold(tool, |tool, (key, value)| tool.meta(key, value.clone()));
        match said.task {
            Some(AsTask::Allowed) => tool.long_running(),
            Some(AsTask::Only) => tool.only_as_task(),
            None => tool,
        }
    }

    /// What it is run by.
    pub(crate) fn program(&self) -> Program {
        Program {
            tool: self.name.clone(),
            script: self.path.clone(),
            by: self.launch.clone().map(|(program, _)| program),
            is_confined: self.manifest.sandbox.is_some(),
            warnings: self.warnings(),
            changed: self.path.metadata().and_then(|file| file.modified()).ok(),
        }
    }

    /// What its author should know.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = match &self.form {
            Form::Argv(template) => arguments::rejecting(template, &self.schema),
            _ => vec![],
        };
        let reads_little = self.manifest.sandbox.as_ref().is_some_and(|one| one.read.is_some());
        let audit = self.project.policy.audit.as_ref().map(|audit| &audit.path);
        if let Some(path) =
            audit.filter(|path| reads_little && path.starts_with(&self.project.root))
        {
            let path = path.display();
            let why = format!(
                "its sandbox can read the audit log {path}, as all of the project: set `audit` to a \
                 file outside of the project"
            );
            tracing::warn!("`{}`: {why}", self.name);
            warnings.push(why);
        }
        warnings
    }

    /// What will keep it from running, and is not said by anything else.
    pub(crate) fn mistake(&self) -> Option<String> {
        let cwd = self.cwd();
        (!cwd.is_dir()).then(|| format!("it is to run in {}, which is no folder", cwd.display()))
    }

    /// Whether it says that it changes nothing.
    pub(crate) fn reads_only(&self) -> bool {
        let hints = self.manifest.annotations.as_ref();
        hints.is_some_and(|hints| hints.read_only_hint == Some(true))
    }

    /// Arguments as they fit, and what is wrong with them, in words a model can act on. Those that
    /// do not fit as they came, and do as what their texts say, are taken as that.
    pub(crate) fn check(&self, args: Map<String, Value>) -> (Map<String, Value>, Result<()>) {
        let Some(check) = &self.check_input else { return (args, Ok(())) };
        let args = Value::Object(args);
        let fits = check.check(&self.schema, &args);
        let Value::Object(args) = args else { return (Map::new(), Ok(())) };
        let Err(why) = fits else { return (args, Ok(())) };
        if let Some(converted) = convert::converted(&args, &self.schema).map(Value::Object)
            && check.check(&self.schema, &converted).is_ok()
            && let Value::Object(converted) = converted
        {
            return (converted, Ok(()));
        }
        (args, Err(CallError::new(format!("bad arguments: {why}"))))
    }

    /// Whether an answer is what it promises.
    pub(crate) fn gave(&self, output: &Output) -> bool {
        match (&self.manifest.output_schema, &self.check_output, &output.structured) {
            (Some(schema), Some(check), Some(value)) => check.check(schema, value).is_ok(),
            (Some(_), ..) => false,
            (None, ..) => true,
        }
    }

    /// Runs it.
    pub(crate) async fn run(
        &self,
        args: Map<String, Value>,
        ctx: &Ctx,
        noted: &Noted,
    ) -> Result<Output> {
        if let Some(wait) = self.turns.wait() {
            let why = format!(
                "`{}` is called too often: try again in {} s",
                self.name,
                wait.as_secs() + 1
            );
            return Err(CallError::new(why));
        }
        let (program, words) = self
            .launch
            .as_ref()
            .map_err(|why| CallError::new(format!("`{}` cannot be run: {why}", self.name)))?;
        let _turn = self.turns.next().await?;
        let place = self.host.places.place(Some(ctx)).await?;
        let given = arguments::give(&self.form, &args).map_err(CallError::Invalid)?;
        let (mut env, secrets) = self.env(ctx).await?;
        noted.secrets(&secrets);
        env.extend(given.env);
        let mut argv: Vec<OsString> = words.iter().map(OsString::from).collect();
        argv.extend(given.argv);
        let mut job = Job {
            recipe: Recipe {
                program: program.clone(),
                args: argv,
                cwd: self.cwd(),
                env,
                out_names: vec!["ZCP_OUT"],
                stdin: given.stdin,
                ceilings: self.ceilings(),
                begins_session: false,
                share: self.share(),
            },
            allowed: self.allowed(ctx),
            shown: self.shown(),
            most: MOST,
            spill: self.host.spill(),
            questions: None,
            secrets: secrets.clone(),
            files: self.files(),
            place,
        };
        let contract = match self.form {
            Form::McpBash => {
                let contract = mcp_bash::Call::new(self, &args, ctx).await?;
                contract.prepare(&mut job);
                Some(contract)
            }
            _ => None,
        };
        // Held until the answer is made, which may be of files in there.
        let _own = self.own_folder(&mut job, contract.as_ref())?;
        let ran = run::run(&self.host.nursery, &job, Some(ctx)).await?;
        noted.end(&ran.end);
        if let Some(contract) = &contract {
            contract.error(&secrets).await?;
        }
        let about = About {
            name: &self.name,
            returns: self.manifest.returns.as_deref(),
            has_schema: self.manifest.output_schema.is_some(),
            structures_anything: self.structures_anything(),
            hint: self.manifest.timeout_hint.as_deref(),
            most: job.allowed.with_progress,
            sandbox: self.manifest.sandbox.as_ref(),
            files: &job.files,
            prints_files: self.prints_files(),
            secrets: &secrets,
            verbatim: contract.is_some(),
            is_foreign: self.is_request,
            says_how: contract.is_some(),
        };
        let keep = |ran: &run::Ran, mime: &str| self.host.keep(ran, mime, ctx, &secrets);
        let mut output = about.answer(ran, keep).await;
        if let Some(contract) = &contract {
            output.content.extend(contract.embedded(&job.files).await);
        }
        secrets::hide(&mut output, &secrets);
        Ok(output)
    }

    fn structures_anything(&self) -> bool {
        let kind = self.manifest.output_schema.as_ref().map(|schema| &schema["type"]);
        kind.is_some_and(|kind| kind != "object")
    }

    /// Files it may name for its answer.
    fn files(&self) -> Files {
        let mut files = Files::of(&self.cwd());
        if self.prints_files() {
            let folders = vec![self.cwd(), self.project.root.clone()];
            files.printed = Printed { folders, never: self.project.policy.own_files() };
        }
        files
    }

    /// Whether what it prints may name files.
    fn prints_files(&self) -> bool {
        self.manifest.output_files == Some(true) && !self.is_request
    }

    /// A temporary folder of this call alone, where a script needs one, and its sandbox.
    fn own_folder(
        &self,
        job: &mut Job,
        contract: Option<&mcp_bash::Call>,
    ) -> Result<Option<CallFolder>> {
        if self.manifest.sandbox.is_none() && !self.prints_files() {
            self.limit(&mut job.recipe);
            return Ok(None);
        }
        let own = self.host.call_folder()?;
        for name in ["TMPDIR", "TMP", "TEMP"] {
            job.recipe.env.push((name.into(), own.path().into()));
        }
        if self.prints_files() {
            job.files.printed.folders.push(own.path().to_path_buf());
        }
        self.confine(job, own.path(), contract)?;
        Ok(Some(own))
    }

    /// Where it runs.
    fn cwd(&self) -> PathBuf {
        let said = self.manifest.cwd.as_deref().unwrap_or(Path::new("."));
        self.project.root.join(said)
    }

    /// Its variables, and which secrets are among them.
    async fn env(&self, ctx: &Ctx) -> Result<(Vec<(OsString, OsString)>, Vec<String>)> {
        let said = &self.manifest;
        let mut env = self.host.base_env(&said.env_allow);
        env.push(("ZCP_TOOL".into(), self.name.clone().into()));
        env.push(("ZCP_PROJECT".into(), self.project.root.clone().into()));
        if let Some(trace) = ctx.trace() {
            env.push(("TRACEPARENT".into(), trace.parent.clone().into()));
            env.extend(trace.state.iter().map(|state| ("TRACESTATE".into(), state.into())));
        }
        let mut secrets = vec![];
        for (name, value) in &said.env {
            if !secrets::is_reference(value) {
                env.push((name.into(), value.into()));
                continue;
            }
            let secret = secrets::fetch(value, &self.host, &self.project.root).await;
            let secret = secret
                .map_err(|why| CallError::new(format!("`{}` is not run: {why}", self.name)))?;
            secrets.extend(secrets::forms(&secret));
            env.push((name.into(), secret.into()));
        }
        Ok((env, secrets))
    }

    /// Puts a run without a sandbox under its limits. Without the `zcp` command they are set right
    /// after the start.
    fn limit(&self, recipe: &mut Recipe) {
        if let Some(command) = &self.host.command
            && recipe.ceilings != Ceilings::default()
        {
            let ceilings = std::mem::take(&mut recipe.ceilings);
            become_of(recipe, command, &Rules::limits(ceilings));
        }
    }

    /// Puts the run into its sandbox, which has a temporary folder of its own, and under its limits.
    fn confine(
        &self,
        job: &mut Job,
        temporary: &Path,
        contract: Option<&mcp_bash::Call>,
    ) -> Result<()> {
        let recipe = &mut job.recipe;
        let Some(sandbox) = &self.manifest.sandbox else {
            self.limit(recipe);
            return Ok(());
        };
        let Some(command) = &self.host.command else {
            let why = "it is to run in a sandbox, which needs the `zcp` command";
            return Err(CallError::new(format!("`{}` is not run: {why}", self.name)));
        };
        let rules = Rules::new(
            sandbox,
            &Needs {
                project: &self.project.root,
                program: &recipe.program,
                path: self.host.path(),
                sdk: &self.host.sdk(),
                temporary,
                contract: contract.map(mcp_bash::Call::folder),
                writable: self.host.writable(),
            },
            std::mem::take(&mut recipe.ceilings),
        );
        self.host.warn_of_root();
        job.files.read = rules.files().map(<[PathBuf]>::to_vec);
        become_of(recipe, command, &rules);
        recipe.begins_session = true;
        Ok(())
    }

    fn share(&self) -> Share {
        let limits = &self.manifest.limits;
        let processes = limits.processes.unwrap_or(PROCESSES);
        Share { processes, memory: limits.memory, cpu: limits.cpu }
    }

    fn ceilings(&self) -> Ceilings {
        let limits = &self.manifest.limits;
        Ceilings { memory: limits.memory, cpu: limits.cpu, open_files: limits.open_files }
    }

    fn allowed(&self, ctx: &Ctx) -> Allowed {
        let said = &self.manifest;
        let is_mcp_bash = self.form == Form::McpBash;
        let asked = mcp_bash::asked_time(ctx, MOST_TIME).filter(|_| is_mcp_bash);
        let time = asked.or(said.timeout).unwrap_or(match is_mcp_bash {
            true => mcp_bash::seconds(&self.host, "MCPBASH_DEFAULT_TOOL_TIMEOUT").unwrap_or(TIME),
            false => TIME,
        });
        let extends = said.progress_extends_timeout.unwrap_or_else(|| {
            !is_mcp_bash || mcp_bash::is_true(&self.host, "MCPBASH_PROGRESS_EXTENDS_TIMEOUT")
        });
        let most = said.max_timeout.or_else(|| match is_mcp_bash {
            true => mcp_bash::seconds(&self.host, "MCPBASH_MAX_TIMEOUT_SECS")
                .or(Some(Duration::from_secs(600))),
            false => None,
        });
        Allowed { time, with_progress: extends.then(|| most.unwrap_or(MOST_TIME.max(time))) }
    }

    fn shown(&self) -> usize {
        let shown = self.manifest.limits.output.unwrap_or_else(|| match self.form {
            Form::McpBash => {
                mcp_bash::number(&self.host, "MCPBASH_MAX_TOOL_OUTPUT_SIZE").unwrap_or(SHOWN_THERE)
            }
            _ => SHOWN,
        });
        usize::try_from(shown.min(MOST)).unwrap_or(usize::MAX)
    }
}

/// A command that was said: `{file}` is the script, which comes last otherwise, unless there is
/// `{no-file}`.
fn command(words: &[String], file: &Path, host: &Host) -> Result<(PathBuf, Vec<String>), String> {
    let (program, rest) = words.split_first().ok_or("its `command` is empty")?;
    let path = file.to_string_lossy();
    let kept = rest.iter().filter(|word| *word != NO_FILE);
    let mut args: Vec<String> = kept.map(|word| word.replace("{file}", &path)).collect();
    if !words.iter().any(|word| word.contains("{file}") || word == NO_FILE) {
        args.push(path.clone().into_owned());
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    let program = program.replace("{file}", &path);
    which::which_in(&program, Some(host.path()), folder)
        .map(|found| (found, args))
        .map_err(|_| format!("its command `{program}` is not in PATH"))
}

/// Has the command run the program, by rules it sets for itself first.
pub(crate) fn become_of(recipe: &mut Recipe, command: &Path, rules: &Rules) {
    let program = std::mem::replace(&mut recipe.program, command.to_path_buf());
    let words = rules.words().into_iter().map(OsString::from).chain([program.into()]);
    recipe.args = words.chain(std::mem::take(&mut recipe.args)).collect();
}
