//! Texts and programs as prompts.

use crate::{
    call::{
        arguments,
        program::{Given, Program},
    },
    call_files,
    host::Host,
    manifest::{Form, beside, icons::icons, is_sidecar},
    offers::text_template::Template,
    project::{Project, scan},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use zcp::{
    CallError, Content, Input, Prompt, PromptMessage, Result, Role, Signature,
    wire::mcp::prompts::GetPromptResult,
};

/// The longest text of a prompt.
const LONGEST: u64 = 1024 * 1024;

/// What is said of a prompt.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    role: Option<String>,
    /// A JSON Schema, a list, or each in a few words.
    #[serde(alias = "params", alias = "inputSchema")]
    arguments: Option<Value>,
    icons: Vec<Value>,
    #[serde(rename = "_meta", alias = "meta")]
    meta: Option<Map<String, Value>>,
    path: Option<PathBuf>,
}

/// A prompt that was found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) prompt: Prompt,
    pub(crate) name: String,
    pub(crate) file: PathBuf,
    /// What is said of it.
    pub(crate) entry: Value,
}

/// What is needed to make prompts of what is found.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    pub(crate) project: Arc<Project>,
    pub(crate) host: Arc<Host>,
}

impl Maker {
    /// The prompts of a project's folder, and what is wrong with it.
    pub(crate) fn found(&self) -> (Vec<Found>, Vec<String>) {
        let files = scan::files(&self.project.folder("prompts"));
        collect(files.iter().filter(|file| is_prompt(file)).map(|file| {
            let value = beside(file)?.map(|beside| beside.value).unwrap_or_default();
            self.make(&value, file)
        }))
    }

    /// Prompts that are registered, and what is wrong with them.
    pub(crate) fn registered(&self, entries: &[Value]) -> (Vec<Found>, Vec<String>) {
        let folder = self.project.folder("prompts");
        collect(entries.iter().map(|entry| {
            let path = entry["path"].as_str().ok_or("a registered prompt needs a `path`")?;
            self.make(entry, &folder.join(path))
        }))
    }

    fn make(&self, value: &Value, file: &Path) -> Result<Found, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
        let mut said = match value {
            Value::Null => Said::default(),
            value => Said::deserialize(value).map_err(|error| wrong(&error))?,
        };
        let runs =
            !self.project.is_mcp_bash && scan::is_executable(file) && scan::program(file).is_some();
        let source = if runs {
            let head = call_files::head(file).unwrap_or_default();
            let header = crate::manifest::of_text(&String::from_utf8_lossy(&head))
                .map_err(|why| wrong(&why))?;
            said.description = said.description.or(header.description.clone());
            if said.arguments.is_none() && header.params.is_some() {
                said.arguments = Some(header.schema().map_err(|why| wrong(&why))?);
            }
            Source::Program(Program::of(file, None, &self.project, &self.host)?)
        } else {
            let folders = self.project.places("prompts");
            let text = call_files::text_inside(file, LONGEST, &folders);
            let text = text.map_err(|error| wrong(&error))?;
            let (front, text) = front_matter(&text);
            if let Some(front) = front {
                let front: Said = serde_saphyr::from_str(front).map_err(|error| wrong(&error))?;
                said.name = said.name.or(front.name);
                said.title = said.title.or(front.title);
                said.description = said.description.or(front.description);
                said.arguments = said.arguments.or(front.arguments);
                said.role = said.role.or(front.role);
                said.meta = said.meta.or(front.meta);
                if said.icons.is_empty() {
                    said.icons = front.icons;
                }
            }
            let folder = file.parent().unwrap_or(&self.project.root);
            Source::Text(Template::parse(text, folder).map_err(|why| wrong(&why))?)
        };
        let arguments = match (&said.arguments, &source) {
            (Some(said), _) => listed(said).map_err(|why| wrong(&why))?,
            (None, Source::Text(template)) => template.arguments(),
            (None, Source::Program(_)) => vec![],
        };
        let mut name = said.name.clone().unwrap_or_else(|| scan::stem(file));
        // `manual.prompt.txt` is called `manual.prompt` where mcp-bash had it.
        if said.name.is_none() && !self.project.is_mcp_bash {
            name = name.strip_suffix(".prompt").unwrap_or(&name).to_owned();
        }
        let entry = json!({
            "name": name,
            "description": said.description.as_deref().unwrap_or_default(),
            "path": file.strip_prefix(self.project.folder("prompts")).unwrap_or(file),
            "arguments": said.arguments.clone().unwrap_or_else(|| json!([])),
            "role": said.role.as_deref().unwrap_or("user"),
            "metadata": value.get("metadata"),
        });
        Ok(Found {
            prompt: self.prompt(&name, &said, &arguments, source, file),
            name,
            file: file.to_path_buf(),
            entry,
        })
    }

    fn prompt(
        &self,
        name: &str,
        said: &Said,
        arguments: &[Argument],
        source: Source,
        file: &Path,
    ) -> Prompt {
        let role = match said.role.as_deref() {
            Some("assistant") => Role::Assistant,
            _ => Role::User,
        };
        let filler = Arc::new(Filler { source, role, description: said.description.clone() });
        let mut prompt = Prompt::from_parts(name, Signature::default(), move |input| {
            let filler = filler.clone();
            Box::pin(async move { filler.fill(&input).await })
        });
        for argument in arguments {
            prompt =
                prompt.argument(&argument.name, argument.description.clone(), argument.required);
            if !argument.values.is_empty() {
                prompt = prompt.complete(&argument.name, argument.values.clone());
            }
        }
        prompt = said.title.iter().fold(prompt, |one, text| one.title(text));
        prompt = said.description.iter().fold(prompt, |one, text| one.description(text));
        let folder = file.parent().unwrap_or(&self.project.root);
        prompt = icons(&said.icons, folder, &self.project.places("prompts"))
            .into_iter()
            .fold(prompt, Prompt::icon);
        said.meta.iter().flatten().fold(prompt, |one, (key, value)| one.meta(key, value.clone()))
    }
}

/// What a prompt takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) required: bool,
    /// What it can be, if that is said.
    pub(crate) values: Vec<String>,
}

/// What a prompt comes from.
#[derive(Debug)]
enum Source {
    Text(Template),
    Program(Program),
}

#[derive(Debug)]
struct Filler {
    source: Source,
    role: Role,
    description: Option<String>,
}

impl Filler {
    async fn fill(&self, input: &Input) -> Result<GetPromptResult> {
        let args: Map<String, Value> = input.args()?;
        let messages = match &self.source {
            Source::Text(template) => template.fill(&args, self.role).map_err(CallError::new)?,
            Source::Program(program) => {
                let given = arguments::give(&Form::Both, &args).map_err(CallError::Invalid)?;
                let given = Given { env: given.env, stdin: given.stdin, argv: vec![] };
                let text = program.output(given, Some(&input.ctx)).await?;
                messages(&String::from_utf8_lossy(&text), self.role)
            }
        };
        Ok(GetPromptResult { description: self.description.clone(), messages })
    }
}

/// What a program printed: messages as JSON, or one in words.
fn messages(text: &str, role: Role) -> Vec<PromptMessage> {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let all = value.get("messages").unwrap_or(&value).as_array().cloned();
    let message = |one: &Value| match &one["content"] {
        Value::String(words) => {
            let role = if one["role"] == "assistant" { Role::Assistant } else { role };
            Some(PromptMessage { role, content: Content::text(words.as_str()) })
        }
        _ => serde_json::from_value(one.clone()).ok(),
    };
    let read: Option<Vec<_>> = all.and_then(|all| all.iter().map(message).collect());
    read.filter(|messages| !messages.is_empty()).unwrap_or_else(|| {
        vec![PromptMessage { role, content: Content::text(text.trim_end_matches('\n')) }]
    })
}

/// Arguments as a JSON Schema, as a list of the protocol's, or each in a few words.
fn listed(said: &Value) -> Result<Vec<Argument>, String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Value::Array(all) = said {
        return Ok(all
            .iter()
            .filter_map(|one| {
                Some(Argument {
                    name: text(&one["name"])?,
                    description: text(&one["description"]),
                    required: one["required"] == true,
                    values: vec![],
                })
            })
            .collect());
    }
    let Value::Object(members) = said else {
        return Err("`arguments` is no list and no schema".into());
    };
    let schema = match members.get("properties") {
        Some(_) => said.clone(),
        None if members.get("type") == Some(&json!("object")) => said.clone(),
        None => {
            let manifest =
                crate::manifest::Manifest { params: Some(members.clone()), ..Default::default() };
            manifest.schema()?
        }
    };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let argument = |(name, schema): (String, Value)| Argument {
        required: required.iter().any(|one| *one == name),
        description: text(&schema["description"]),
        values: schema["enum"].as_array().into_iter().flatten().filter_map(text).collect(),
        name,
    };
    Ok(properties.into_iter().map(argument).collect())
}

/// What a text says of itself before it begins, between two lines of `---`.
fn front_matter(text: &str) -> (Option<&str>, &str) {
    let Some(rest) = text.strip_prefix("---\n") else { return (None, text) };
    match rest.split_once("\n---\n") {
        Some((front, text)) => (Some(front), text.trim_start_matches('\n')),
        None => (None, text),
    }
}

/// Whether a file of the folder is offered: notes for people, and helpers, are not.
fn is_prompt(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_note = name.to_lowercase().starts_with("readme");
    let completes = name.ends_with(".completion") || name.ends_with(".completion.sh");
    !is_sidecar(name) && !is_note && !completes && !name.starts_with('_')
}

fn collect(all: impl Iterator<Item = Result<Found, String>>) -> (Vec<Found>, Vec<String>) {
    let (mut found, mut mistakes) = (vec![], vec![]);
    for one in all {
        match one {
            Ok(one) => found.push(one),
            Err(why) => mistakes.push(why),
        }
    }
    (found, mistakes)
}
