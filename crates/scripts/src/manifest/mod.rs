//! What is said of a script: by the file beside it, by the comment at its top, or by nothing.

mod argument_form;
pub(crate) mod defaults;
mod docstring;
pub(crate) mod icons;
pub(crate) mod interpreter;
pub(crate) mod interpreters;
mod limits;
mod members;
pub(crate) mod provider_config;
mod sandbox_rules;
mod script_header;
pub(crate) mod secret_reference;
mod server_info;
mod short_params;
mod sidecar;
mod tags;
mod values;

pub(crate) use argument_form::Form;
pub(crate) use limits::Limits;
pub(crate) use provider_config::Providers;
pub(crate) use sandbox_rules::Sandbox;
pub(crate) use script_header::of_text;
pub(crate) use server_info::ServerInfo;
pub(crate) use sidecar::{Beside, beside, is_sidecar, read_value};
pub(crate) use values::{size, size_of, time, time_of, words};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};
use zcp::wire::mcp::tools::ToolAnnotations;

/// What is said of a script. Everything may be left out.
///
/// Members have the names of the protocol; where people write something else by habit, that is
/// understood too: see `members`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
pub(crate) struct Manifest {
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) description: Option<String>,
    /// JSON Schema of the arguments.
    pub(crate) input_schema: Option<Value>,
    /// The same, in short: a name and a few words for each.
    pub(crate) params: Option<Map<String, Value>>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) annotations: Option<ToolAnnotations>,
    #[serde(deserialize_with = "one_or_many")]
    pub(crate) icons: Vec<Value>,
    #[serde(rename = "_meta")]
    pub(crate) meta: Option<Map<String, Value>>,
    /// How arguments reach it.
    pub(crate) args: Option<Form>,
    /// What its output is: a MIME type.
    pub(crate) returns: Option<String>,
    /// Whether a result it prints may name files, which become part of the answer.
    pub(crate) output_files: Option<bool>,
    /// What starts it, instead of what its name or first line says.
    #[serde(deserialize_with = "words")]
    pub(crate) command: Option<Vec<String>>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) env: BTreeMap<String, String>,
    /// Variables of the server's environment it is shown.
    pub(crate) env_allow: Vec<String>,
    #[serde(deserialize_with = "time")]
    pub(crate) timeout: Option<Duration>,
    pub(crate) timeout_hint: Option<String>,
    /// A sign of progress begins the time anew.
    pub(crate) progress_extends_timeout: Option<bool>,
    #[serde(deserialize_with = "time")]
    pub(crate) max_timeout: Option<Duration>,
    /// Whether it goes on as a task.
    pub(crate) task: Option<AsTask>,
    pub(crate) limits: Limits,
    /// What it may not do.
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) enabled: Option<bool>,
    /// What was not understood, and is as if it were not said.
    #[serde(skip)]
    pub(crate) mistakes: Vec<String>,
}

/// Whether a script goes on as a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AsTask {
    /// Where the client follows tasks.
    #[serde(alias = "optional", alias = "yes")]
    Allowed,
    /// Or not at all.
    #[serde(alias = "required")]
    Only,
}

impl Manifest {
    /// What a script says of itself, which does not go beyond a project's limits and sandbox.
    pub(crate) fn within(self, project: &Self) -> Self {
        let sandbox = match (self.sandbox, &project.sandbox) {
            (Some(own), Some(project)) => Some(own.within(project)),
            (own, project) => own.or_else(|| project.clone()),
        };
        let limits = self.limits.within(project.limits);
        let said = Self { sandbox, limits, ..self };
        match project.sandbox {
            Some(_) => said.without_outside_secrets(),
            None => said,
        }
    }

    /// What the server would run or read for a script outside of its sandbox is not the script's to
    /// name, if the sandbox is its project's.
    pub(crate) fn without_outside_secrets(mut self) -> Self {
        let (outside, env) =
            self.env.into_iter().partition(|(_, value)| secret_reference::is_from_outside(value));
        self.env = env;
        let outside: BTreeMap<String, String> = outside;
        self.mistakes.extend(outside.into_keys().map(|name| {
            format!(
                "`{name}`: a script whose sandbox is set in zcp.toml cannot name a file, a command or \
                 a keychain for a secret. Write it in zcp.toml, below `[tools.NAME.env]`"
            )
        }));
        self
    }

    /// What an entry of a project still says of a script that the entry may not be meant for: no
    /// variables, and only what restricts it.
    pub(crate) fn only_restricting(self, said: &Self) -> Self {
        let said = self.within(said);
        Self { env: BTreeMap::new(), env_allow: vec![], command: None, cwd: None, ..said }
    }

    /// What this one leaves open is as `other` says.
    pub(crate) fn or(self, other: Self) -> Self {
        let mut env = other.env;
        env.extend(self.env);
        let mut env_allow = self.env_allow;
        env_allow.extend(other.env_allow);
        let mut mistakes = self.mistakes;
        mistakes.extend(other.mistakes);
        let many = |own: Vec<Value>, other| if own.is_empty() { other } else { own };
        Self {
            name: self.name.or(other.name),
            title: self.title.or(other.title),
            description: self.description.filter(|text| !text.is_empty()).or(other.description),
            input_schema: self.input_schema.or(other.input_schema),
            params: self.params.or(other.params),
            output_schema: self.output_schema.or(other.output_schema),
            annotations: self.annotations.or(other.annotations),
            icons: many(self.icons, other.icons),
            meta: self.meta.or(other.meta),
            args: self.args.or(other.args),
            returns: self.returns.or(other.returns),
            output_files: self.output_files.or(other.output_files),
            command: self.command.or(other.command),
            cwd: self.cwd.or(other.cwd),
            env,
            env_allow,
            timeout: self.timeout.or(other.timeout),
            timeout_hint: self.timeout_hint.or(other.timeout_hint),
            progress_extends_timeout: self
                .progress_extends_timeout
                .or(other.progress_extends_timeout),
            max_timeout: self.max_timeout.or(other.max_timeout),
            task: self.task.or(other.task),
            limits: self.limits.or(other.limits),
            sandbox: self.sandbox.or(other.sandbox),
            enabled: self.enabled.or(other.enabled),
            mistakes,
        }
    }

    /// The schema of the arguments: as it was given, or made of what was said in short.
    pub(crate) fn schema(&self) -> Result<Value, String> {
        let mut schema = match (&self.input_schema, &self.params) {
            (Some(Value::Object(schema)), _) => schema.clone(),
            (Some(_), _) | (None, None) => Map::new(),
            (None, Some(params)) => short_params::schema(params)?,
        };
        schema.entry("type").or_insert_with(|| json!("object"));
        schema.entry("properties").or_insert_with(|| json!({}));
        Ok(Value::Object(schema))
    }
}

fn one_or_many<'a, D: Deserializer<'a>>(value: D) -> Result<Vec<Value>, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::Array(all) => all,
        Value::Null => vec![],
        one => vec![one],
    })
}

/// Whether a name is one of these, or none of them with a slip in it: which, otherwise.
pub(crate) fn no_slip(name: &str, known: &'static str) -> Result<(), &'static str> {
    let far = |one: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &one.to_lowercase());
    let bearable = |one: &&str| far(one) <= if one.len() > 4 { 2 } else { 1 };
    match known.split_whitespace().filter(bearable).min_by_key(far) {
        Some(meant) if meant != name => Err(meant),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_twice_or_strangely_costs_nobody_the_tool() {
        let read = |said: Value| serde_json::from_value::<Manifest>(said).expect("a manifest");
        let twice = read(json!({
            "inputSchema": { "type": "object" }, "arguments": { "type": "array" },
            "meta": { "a": 1 }, "_meta": { "b": 2 },
            "timeoutSecs": null, "timeout": "2m", "timeout_secs": 5,
        }));
        assert_eq!(twice.input_schema, Some(json!({ "type": "object" })));
        assert_eq!(twice.meta.map(Value::Object), Some(json!({ "a": 1 })));
        assert_eq!((twice.timeout, twice.mistakes), (Some(Duration::from_secs(120)), vec![]));

        for time in [json!("abc"), json!(0), json!("0s"), json!(-1), json!([5])] {
            let said = read(json!({ "timeoutSecs": time, "maxTimeoutSecs": 9 }));
            assert_eq!((said.timeout, said.max_timeout), (None, Some(Duration::from_secs(9))));
            assert!(said.mistakes[0].starts_with("`timeoutSecs` is as if"), "{:?}", said.mistakes);
        }
        let extends = |text: &str| read(json!({ "progressExtendsTimeout": text }));
        assert_eq!(extends("true").progress_extends_timeout, Some(true));
        assert_eq!(extends("false").progress_extends_timeout, Some(false));
        assert_eq!(extends("often").mistakes.len(), 1);
    }

    #[test]
    fn a_limit_of_nothing_is_a_mistake() {
        for name in ["output", "memory", "cpu", "files", "processes", "concurrency", "rate"] {
            let said = serde_json::from_value::<Manifest>(json!({ "limits": { name: 0 } }));
            let why = said.expect_err("a mistake").to_string();
            assert!(why.contains(&format!("`{name}` is 0")), "{why}");
            assert!(of_text(&format!("# Does.\n# @limit {name} 0\n")).is_err(), "{name}");
        }
        for tag in ["timeout 0", "max-timeout 0s"] {
            assert!(of_text(&format!("# Does.\n# @{tag}\n")).is_err(), "{tag}");
        }
    }

    #[test]
    fn a_script_does_not_go_beyond_its_project() {
        let read = |said: Value| serde_json::from_value::<Manifest>(said).expect("a manifest");
        let project = read(json!({
            "limits": { "memory": "1G", "files": 10 },
            "sandbox": { "read": ["/data", "in"], "write": [], "network": false },
        }));
        let free = read(json!({ "sandbox": false, "limits": { "memory": "2G", "rate": 3 } }));
        let free = free.within(&project);
        assert_eq!(free.sandbox, project.sandbox);
        let limits = free.limits;
        assert_eq!(
            (limits.memory, limits.open_files, limits.rate),
            (Some(1 << 30), Some(10), Some(3))
        );
        let narrow = read(json!({ "sandbox": {
            "read": ["/data/mine", "./in/deep", "/database", "in/../..", "/"],
            "write": ["out"], "signals": false,
        } }));
        let sandbox = narrow.within(&project).sandbox.expect("a sandbox");
        let paths = ["/data/mine", "./in/deep", "/data"].map(PathBuf::from);
        assert_eq!((sandbox.read, sandbox.write), (Some(paths.into()), Some(vec![])));
        assert!(!sandbox.network && !sandbox.signals && !sandbox.unix_sockets);
    }

    #[test]
    fn habits_of_other_systems_are_understood() {
        let said: Manifest = serde_json::from_value(json!({
            "name": "x", "arguments": { "type": "object" }, "timeoutSecs": 8, "maxTimeoutSecs": "60",
            "icons": [{ "src": "a.svg" }], "unknown": true, "args": "--name {name}",
        }))
        .expect("a manifest");
        assert_eq!(said.timeout, Some(Duration::from_secs(8)));
        assert_eq!(said.max_timeout, Some(Duration::from_secs(60)));
        assert_eq!(said.input_schema, Some(json!({ "type": "object" })));
        assert_eq!(said.args, Some(Form::Argv(vec!["--name".into(), "{name}".into()])));
    }
}
