//! The run of a called script: from its arguments to its result.

use super::{
    arguments::{self, Given},
    ended,
    result::ResultMaker,
    script::MOST_OUTPUT,
    tool::ScriptTool,
};
use crate::{
    call_files::CallFolder,
    compat::mcp_bash,
    content::{Files, Printed},
    host::secrets,
    manifest::secret_reference::is_reference,
    redact,
    run::{
        self, Ceilings, Complaints, Job, Recipe,
        concurrency::Slot,
        sandbox::{self, Needs, Rules},
    },
};
use serde_json::{Map, Value};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};
use zcp::{CallError, Ctx, Output, Result};
use zcp_policy::{Redact, Stderr};

/// Environment variables of a script, and the secrets among them.
struct Variables {
    all: Vec<(OsString, OsString)>,
    secrets: Vec<String>,
}

impl ScriptTool {
    /// Runs the script, and makes a result of what it gives.
    pub(super) async fn run(&self, args: Map<String, Value>, ctx: &Ctx) -> Result<Output> {
        let script = &self.script;
        if let Err(wait) = self.limiter.take_token() {
            let seconds = wait.as_secs() + 1;
            let why = format!("`{}` is called too often: try again in {seconds} s", script.name);
            return Err(CallError::new(why));
        }
        if let Err(why) = &script.launch {
            return Err(CallError::new(format!("`{}` cannot be run: {why}", script.name)));
        }
        // As text for as long as the call waits: values take many times the memory.
        let text = zcp::wire::json::text(&args);
        drop(args);
        let _call = self.limiter.acquire(ctx).await?;
        let slot = self.host.concurrency.slot(Some(ctx)).await?;
        let args: Map<String, Value> = serde_json::from_str(&text)?;
        let given = arguments::give(&script.form, &args).map_err(CallError::Invalid)?;
        let variables = self.variables(ctx).await?;
        let secrets = variables.secrets.clone();
        ctx.note(Redact::new(move |value| redact::hide_value(value, &secrets)));
        let mut job = self.job(given, variables, slot, ctx)?;
        let contract = match &script.contract {
            Some(contract) => {
                let tool = script.context(self.project.context());
                let call = contract.begin(&tool, &args, &self.host, ctx).await?;
                call.prepare(&mut job);
                Some(call)
            }
            None => None,
        };
        drop((args, text));
        // Held until the result is made, which may be of files in there.
        let _own = self.own_folder(&mut job, contract.as_ref())?;
        let ran = run::run(&self.host.nursery, &job, Some(ctx)).await?;
        ctx.note(ended(&ran.end));
        self.tell_complaints(&ran.complaints, &job.secrets, ctx);
        if let Some(contract) = &contract {
            contract.error(&job.secrets).await?;
        }
        let maker = ResultMaker {
            script,
            files: &job.files,
            secrets: &job.secrets,
            max_timeout: job.allowed.with_progress,
            environment: &self.host.environment,
        };
        let keep = |output: &run::Output, mime: &str| {
            self.host.keep_output(output, mime, ctx, &job.secrets)
        };
        let mut output = maker.result(ran, keep).await;
        if let Some(contract) = &contract {
            output.content.extend(contract.embedded(&job.files).await);
            mcp_bash::link_page(&mut output, &script.manifest, ctx);
        }
        redact::hide(&mut output, &job.secrets);
        self.schemas.check_output(script, &output)?;
        Ok(output)
    }

    /// What is run, before its contract and its sandbox change it.
    fn job(&self, given: Given, variables: Variables, slot: Slot, ctx: &Ctx) -> Result<Job> {
        let script = &self.script;
        let runs = script.runs(&self.project.root);
        if runs.iter().any(|path| self.host.may_be_written(path)) {
            let why = "a script in a sandbox may have written it";
            return Err(CallError::new(format!("`{}` is not run: {why}", script.name)));
        }
        if script.unsafe_folder(&self.project, &self.host).is_some() {
            let why = "a script in a sandbox may write the folder it is to run in";
            return Err(CallError::new(format!("`{}` is not run: {why}", script.name)));
        }
        let (program, words) = script.launch.clone().map_err(CallError::new)?;
        let Variables { all: mut env, secrets } = variables;
        env.extend(given.env);
        let mut args: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        args.extend(given.argv);
        Ok(Job {
            name: script.name.clone(),
            recipe: Recipe {
                program,
                args,
                cwd: script.cwd(&self.project.root),
                env,
                out_names: vec!["ZCP_OUT"],
                stdin: given.stdin,
                ceilings: script.ceilings(),
                begins_session: false,
                share: script.share(),
            },
            allowed: script.allowed(ctx),
            shown: script.shown(),
            most: MOST_OUTPUT,
            spill: self.host.output_file(),
            questions: None,
            secrets,
            files: self.files(),
            slot,
        })
    }

    /// Shows what the script wrote to standard error last to those who look on, and logs it.
    fn tell_complaints(&self, complaints: &Complaints, secrets: &[String], ctx: &Ctx) {
        let mut text = complaints.text();
        if text.is_empty() {
            return;
        }
        redact::hide_text(&mut text, secrets);
        for line in text.lines() {
            tracing::debug!("`{}` on standard error: {}", self.script.name, line.escape_debug());
        }
        ctx.note(Stderr(text));
    }

    /// Files the script may name for its result.
    fn files(&self) -> Files {
        let cwd = self.script.cwd(&self.project.root);
        let mut files = Files::of(&cwd);
        if self.script.prints_files() {
            let folders = vec![cwd, self.project.root.clone()];
            files.printed = Printed { folders, never: self.project.policy.own_files() };
        }
        files
    }

    /// The script's variables, and which secrets are among them.
    async fn variables(&self, ctx: &Ctx) -> Result<Variables> {
        let said = &self.script.manifest;
        let mut all = self.host.script_env(&said.env_allow);
        all.push(("ZCP_TOOL".into(), self.script.name.clone().into()));
        all.push(("ZCP_PROJECT".into(), self.project.root.clone().into()));
        if let Some(trace) = ctx.trace() {
            all.push(("TRACEPARENT".into(), trace.parent.clone().into()));
            all.extend(trace.state.iter().map(|state| ("TRACESTATE".into(), state.into())));
        }
        let mut found = self.host.environment.proxy_secrets();
        for (name, value) in &said.env {
            if !is_reference(value) {
                all.push((name.into(), value.into()));
                continue;
            }
            let secret = secrets::fetch(value, &self.host, &self.project.root).await;
            let secret = secret.map_err(|why| {
                CallError::new(format!("`{}` is not run: {why}", self.script.name))
            })?;
            found.extend(redact::forms(&secret));
            all.push((name.into(), secret.into()));
        }
        Ok(Variables { all, secrets: found })
    }

    /// A temporary folder of this call alone, where a script needs one, and its sandbox.
    fn own_folder(
        &self,
        job: &mut Job,
        contract: Option<&mcp_bash::Call>,
    ) -> Result<Option<CallFolder>> {
        if self.script.manifest.sandbox.is_none() && !self.script.prints_files() {
            self.limit(&mut job.recipe);
            return Ok(None);
        }
        let own = self.host.call_folder()?;
        for name in ["TMPDIR", "TMP", "TEMP"] {
            job.recipe.env.push((name.into(), own.path().into()));
        }
        if self.script.prints_files() {
            job.files.printed.folders.push(own.path().to_path_buf());
        }
        self.confine(job, own.path(), contract)?;
        Ok(Some(own))
    }

    /// Puts a run without a sandbox under its limits. Without the `zcp` command they are set right
    /// after the start.
    fn limit(&self, recipe: &mut Recipe) {
        if let Some(command) = &self.host.environment.command
            && recipe.ceilings != Ceilings::default()
        {
            let ceilings = std::mem::take(&mut recipe.ceilings);
            run_by_command(recipe, command, &Rules::limits(ceilings));
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
        let Some(sandbox) = &self.script.manifest.sandbox else {
            self.limit(recipe);
            return Ok(());
        };
        let Some(command) = &self.host.environment.command else {
            let why = "it is to run in a sandbox, which needs the `zcp` command";
            return Err(CallError::new(format!("`{}` is not run: {why}", self.script.name)));
        };
        if let Some(why) = self.host.refuses(sandbox) {
            return Err(CallError::new(format!("`{}` is not run: {why}", self.script.name)));
        }
        let rules = Rules::new(
            sandbox,
            &Needs {
                project: &self.project.root,
                program: &recipe.program,
                path: self.host.environment.path(),
                sdk: &self.host.sdk(),
                temporary,
                contract: contract.map(mcp_bash::Call::folder),
                writable: self.host.writable(),
            },
            std::mem::take(&mut recipe.ceilings),
        );
        self.host.environment.warn_of_root();
        job.files.read = rules.files().map(<[PathBuf]>::to_vec);
        run_by_command(recipe, command, &rules);
        recipe.begins_session = true;
        Ok(())
    }
}

/// Has the `zcp` command start the program, under rules it sets for itself first. The program's
/// variables mean nothing to the command: a loader reads some of them before any rule holds.
pub(super) fn run_by_command(recipe: &mut Recipe, command: &Path, rules: &Rules) {
    for (name, _) in &mut recipe.env {
        *name = sandbox::set_aside(name);
    }
    let program = std::mem::replace(&mut recipe.program, command.to_path_buf());
    let words = rules.words().into_iter().map(OsString::from).chain([program.into()]);
    recipe.args = words.chain(std::mem::take(&mut recipe.args)).collect();
}
