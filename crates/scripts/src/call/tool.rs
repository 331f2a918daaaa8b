//! A script as a tool: what clients see of it, and what is called.

use super::{command_line, schemas::Schemas, script::Script};
use crate::{
    host::Host,
    manifest::{AsTask, Form, icons, interpreter},
    project::Project,
    run::concurrency::ToolLimiter,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};
use zcp::{Signature, Tool};

/// What a tool is run by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The tool's name.
    pub tool: String,
    /// Its script.
    pub script: PathBuf,
    /// The program that runs it, or why it cannot be run.
    pub by: Result<PathBuf, String>,
    /// Whether it is to run in a sandbox.
    pub is_confined: bool,
    /// What is wrong with what is said of it, though it is served. [`Scripts::mistakes`] has it, too.
    ///
    /// [`Scripts::mistakes`]: crate::Scripts::mistakes
    pub mistakes: Vec<String>,
    /// What its callers may stumble over.
    pub warnings: Vec<String>,
    /// When its script was last written.
    pub changed: Option<SystemTime>,
}

/// A script that can be called: its data, and what a call needs beside them.
#[derive(Debug)]
pub(crate) struct ScriptTool {
    pub(super) script: Script,
    pub(super) schemas: Schemas,
    pub(super) limiter: Arc<ToolLimiter>,
    pub(super) project: Arc<Project>,
    pub(super) host: Arc<Host>,
}

impl ScriptTool {
    /// The tool of a script, or what is wrong with its schemas.
    pub(crate) fn new(
        script: Script,
        project: &Arc<Project>,
        host: &Arc<Host>,
    ) -> Result<Self, Vec<String>> {
        Ok(Self {
            schemas: Schemas::compile(&script)?,
            limiter: host.concurrency.limiter(&script.path, &script.manifest.limits),
            script,
            project: project.clone(),
            host: host.clone(),
        })
    }

    /// What is offered to clients.
    pub(crate) fn offered(self) -> Tool {
        let script = Arc::new(self);
        let said = &script.script.manifest;
        let (called, prepared) = (script.clone(), script.clone());
        let mut tool = Tool::from_parts(&script.script.name, Signature::default(), move |input| {
            let called = called.clone();
            Box::pin(async move { super::call(&called, &input).await })
        })
        .input_schema(script.script.schema.clone())
        .checked_by_handler()
        .prepared_by(move |args| prepared.prepared(args));
        tool = said.description.iter().fold(tool, |tool, text| tool.description(text));
        tool = said.title.iter().fold(tool, |tool, text| tool.title(text));
        tool =
            said.output_schema.iter().fold(tool, |tool, schema| tool.output_schema(schema.clone()));
        tool = said.annotations.iter().fold(tool, |tool, hints| tool.annotations(hints.clone()));
        let folder = script.script.path.parent().unwrap_or(Path::new("."));
        // What is wrong with them is a mistake of the project.
        tool = icons::checked(&said.icons, folder, &script.project.places("tools"))
            .0
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
}

impl Program {
    /// What a script is run by.
    pub(crate) fn of(script: &Script, project: &Project) -> Self {
        Self {
            tool: script.name.clone(),
            script: script.path.clone(),
            by: script.launch.clone().map(|(program, _)| program),
            is_confined: script.manifest.sandbox.is_some(),
            mistakes: mistakes(script),
            warnings: warnings(script, project),
            changed: script.path.metadata().and_then(|file| file.modified()).ok(),
        }
    }
}

/// What is wrong with a script that can be called all the same.
fn mistakes(script: &Script) -> Vec<String> {
    let said = &script.manifest;
    let params =
        said.params.as_ref().filter(|params| said.input_schema.is_none() && !params.is_empty());
    match (&script.form, params) {
        (Form::Argv(template), Some(params)) => command_line::unknown(template, params)
            .into_iter()
            .map(|why| format!("{}: {why}", script.path.display()))
            .collect(),
        _ => vec![],
    }
}

/// What the author of a script should know.
fn warnings(script: &Script, project: &Project) -> Vec<String> {
    let mut warnings = match &script.form {
        Form::Argv(template) => command_line::rejecting(template, &script.schema),
        _ => vec![],
    };
    if let (None, Some(named), Ok((by, _))) =
        (&script.manifest.command, interpreter::missing(&script.head), &script.launch)
    {
        let by = by.display();
        warnings.push(format!("its first line names {named}, which is not there: {by} runs it"));
    }
    let reads_little = script.manifest.sandbox.as_ref().is_some_and(|one| one.read.is_some());
    let audit = project.policy.own_files().into_iter().next();
    if let Some(path) = audit.filter(|path| reads_little && path.starts_with(&project.root)) {
        let path = path.display();
        let why = format!(
            "its sandbox can read the audit log {path}, as all of the project: set `audit` to a \
             file outside of the project"
        );
        tracing::warn!("`{}`: {why}", script.name);
        warnings.push(why);
    }
    warnings
}
