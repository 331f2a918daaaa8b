//! What is said of a script: by the file beside it, by the comment at its top, or by nothing.

mod header;
pub(crate) mod icons;
pub(crate) mod interpreter;
mod members;
mod params;
mod sidecar;

pub(crate) use header::of_text;
pub(crate) use sidecar::{Beside, beside, is_sidecar, read_value};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
    time::Duration,
};
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

/// Whether a name is one of these, or none of them with a slip in it: which, otherwise.
fn no_slip(name: &str, known: &'static str) -> Result<(), &'static str> {
    let far = |one: &&str| strsim::damerau_levenshtein(&name.to_lowercase(), &one.to_lowercase());
    let bearable = |one: &&str| far(one) <= if one.len() > 4 { 2 } else { 1 };
    match known.split_whitespace().filter(bearable).min_by_key(far) {
        Some(meant) if meant != name => Err(meant),
        _ => Ok(()),
    }
}

/// How arguments reach a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// As an object on standard input, and each as a variable.
    Both,
    /// As an object on standard input.
    Stdin,
    /// Each as a variable.
    Env,
    /// As words of the command line, by a template.
    Argv(Vec<String>),
    /// As projects written for mcp-bash expect them.
    McpBash,
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

/// How much of the machine a script may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// Of its output, what is shown; the rest is kept and linked.
    #[serde(deserialize_with = "size")]
    pub(crate) output: Option<u64>,
    /// Of all its processes together.
    #[serde(deserialize_with = "size")]
    pub(crate) memory: Option<u64>,
    /// Time it may compute, all its processes together.
    #[serde(deserialize_with = "time")]
    pub(crate) cpu: Option<Duration>,
    #[serde(alias = "files")]
    pub(crate) open_files: Option<u64>,
    pub(crate) processes: Option<usize>,
    /// Calls at a time.
    #[serde(alias = "concurrent")]
    pub(crate) concurrency: Option<usize>,
    /// Calls a minute.
    pub(crate) rate: Option<u32>,
}

/// What a script may not do. Everything may that is not forbidden.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sandbox {
    /// Outside of the project and what programs need, only these are read.
    pub(crate) read: Option<Vec<PathBuf>>,
    /// Outside of a folder of its own, only these are written.
    pub(crate) write: Option<Vec<PathBuf>>,
    pub(crate) network: bool,
    /// Whether Unix sockets may be opened while files are restricted. Off by default: a service behind
    /// a socket could open files for the script that the sandbox denies.
    pub(crate) unix_sockets: bool,
    /// To processes that are not its own.
    pub(crate) signals: bool,
}

impl Sandbox {
    /// Nothing is forbidden.
    pub(crate) const OPEN: Self =
        Self { read: None, write: None, network: true, unix_sockets: false, signals: true };
    /// Everything is.
    pub(crate) const CLOSED: Self = Self {
        read: Some(vec![]),
        write: Some(vec![]),
        network: false,
        unix_sockets: false,
        signals: false,
    };

    /// Whether Unix sockets can be opened.
    pub(crate) fn allows_unix_sockets(&self) -> bool {
        let has_files = self.read.is_none() && self.write.is_none();
        self.network && (self.unix_sockets || has_files)
    }

    /// What both this and another allow.
    fn within(self, other: &Self) -> Self {
        let unix_sockets = self.allows_unix_sockets() && other.allows_unix_sockets();
        Self {
            read: both(self.read, other.read.as_ref()),
            write: both(self.write, other.write.as_ref()),
            network: self.network && other.network,
            unix_sockets,
            signals: self.signals && other.signals,
        }
    }

    /// One more rule, in words.
    pub(crate) fn forbid(&mut self, words: &str) -> Result<(), String> {
        let (rule, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let paths = || rest.split_whitespace().map(PathBuf::from);
        match (rule, rest) {
            ("read-only", "") => drop(self.write.get_or_insert_default()),
            ("no-network", "") => self.network = false,
            ("no-signals", "") => self.signals = false,
            ("unix-sockets", "") => self.unix_sockets = true,
            ("read", _) => self.read.get_or_insert_default().extend(paths()),
            ("write", _) => self.write.get_or_insert_default().extend(paths()),
            _ => {
                let known =
                    "read-only, no-network, no-signals, unix-sockets, read PATHS, write PATHS";
                return Err(format!("a sandbox knows {known}, and nothing said is all of it"));
            }
        }
        Ok(())
    }
}

impl<'a> Deserialize<'a> for Sandbox {
    fn deserialize<D: Deserializer<'a>>(sandbox: D) -> Result<Self, D::Error> {
        /// As it is written in a file.
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            All(bool),
            Rules {
                read: Option<Vec<PathBuf>>,
                write: Option<Vec<PathBuf>>,
                network: Option<bool>,
                #[serde(rename = "unixSockets", alias = "unix_sockets", alias = "unix-sockets")]
                unix_sockets: Option<bool>,
                signals: Option<bool>,
            },
        }
        Ok(match Said::deserialize(sandbox)? {
            Said::All(true) => Self::CLOSED,
            Said::All(false) => Self::OPEN,
            Said::Rules { read, write, network, unix_sockets, signals } => Self {
                read,
                write,
                network: network.unwrap_or(true),
                unix_sockets: unix_sockets.unwrap_or(false),
                signals: signals.unwrap_or(true),
            },
        })
    }
}

/// Paths that are in both lists, or below one of the other; without a list, all are. Paths that go
/// up are in none but their own.
fn both(own: Option<Vec<PathBuf>>, other: Option<&Vec<PathBuf>>) -> Option<Vec<PathBuf>> {
    let (Some(own), Some(other)) = (&own, other) else { return own.or_else(|| other.cloned()) };
    let below = |path: &PathBuf, all: &[PathBuf]| all.iter().any(|above| is_below(path, above));
    let mut all: Vec<PathBuf> = own.iter().filter(|path| below(path, other)).cloned().collect();
    let more = other.iter().filter(|path| below(path, own) && !own.contains(path));
    all.extend(more.cloned());
    Some(all)
}

fn is_below(path: &Path, above: &Path) -> bool {
    let goes_up = |path: &Path| path.components().any(|part| part == Component::ParentDir);
    let plain = |path: &Path| -> PathBuf {
        path.components().filter(|part| *part != Component::CurDir).collect()
    };
    let is_plain = path.is_absolute() == above.is_absolute() && !goes_up(path) && !goes_up(above);
    path == above || (is_plain && plain(path).starts_with(plain(above)))
}

impl Manifest {
    /// What a script says of itself, which does not go beyond a project's limits and sandbox.
    pub(crate) fn within(self, project: &Self) -> Self {
        let sandbox = match (self.sandbox, &project.sandbox) {
            (Some(own), Some(project)) => Some(own.within(project)),
            (own, project) => own.or_else(|| project.clone()),
        };
        Self { sandbox, limits: self.limits.within(project.limits), ..self }
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
            (None, Some(params)) => params::schema(params)?,
        };
        schema.entry("type").or_insert_with(|| json!("object"));
        schema.entry("properties").or_insert_with(|| json!({}));
        Ok(Value::Object(schema))
    }
}

impl Limits {
    /// A script that may have none of something could not run at all.
    fn check(&self) -> Result<(), String> {
        let none = [
            ("output", self.output == Some(0)),
            ("memory", self.memory == Some(0)),
            ("cpu", self.cpu == Some(Duration::ZERO)),
            ("files", self.open_files == Some(0)),
            ("processes", self.processes == Some(0)),
            ("concurrency", self.concurrency == Some(0)),
            ("rate", self.rate == Some(0)),
        ];
        match none.iter().find(|(_, is_none)| *is_none) {
            Some((name, _)) => Err(format!(
                "the limit `{name}` is 0: say more, or leave it out; `enabled` and `@hidden` say \
                 what is no tool"
            )),
            None => Ok(()),
        }
    }

    /// The lower of each.
    fn within(self, other: Self) -> Self {
        fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
            one.into_iter().chain(other).min()
        }
        Self {
            output: lower(self.output, other.output),
            memory: lower(self.memory, other.memory),
            cpu: lower(self.cpu, other.cpu),
            open_files: lower(self.open_files, other.open_files),
            processes: lower(self.processes, other.processes),
            concurrency: lower(self.concurrency, other.concurrency),
            rate: lower(self.rate, other.rate),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            output: self.output.or(other.output),
            memory: self.memory.or(other.memory),
            cpu: self.cpu.or(other.cpu),
            open_files: self.open_files.or(other.open_files),
            processes: self.processes.or(other.processes),
            concurrency: self.concurrency.or(other.concurrency),
            rate: self.rate.or(other.rate),
        }
    }
}

impl<'a> Deserialize<'a> for Form {
    fn deserialize<D: Deserializer<'a>>(form: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            Text(String),
            Words(Vec<String>),
        }
        match Said::deserialize(form)? {
            Said::Text(text) => Self::parse(&text).map_err(serde::de::Error::custom),
            Said::Words(words) => Ok(Self::Argv(words)),
        }
    }
}

impl Form {
    /// A form's name, or a template of the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text.trim() {
            "both" => Self::Both,
            "stdin" | "json" => Self::Stdin,
            "env" => Self::Env,
            "mcp-bash" => Self::McpBash,
            "none" => Self::Argv(vec![]),
            template => {
                let words = shell_words::split(template)
                    .map_err(|error| format!("`args` is not a command line: {error}"))?;
                if !words.iter().any(|word| word.contains('{')) {
                    return Err(format!(
                        "`args` is `{template}`: say stdin, env, both, none, mcp-bash, or a \
                         template such as `--name {{name}}`"
                    ));
                }
                Self::Argv(words)
            }
        })
    }
}

fn one_or_many<'a, D: Deserializer<'a>>(value: D) -> Result<Vec<Value>, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::Array(all) => all,
        Value::Null => vec![],
        one => vec![one],
    })
}

pub(crate) fn words<'a, D: Deserializer<'a>>(value: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Said {
        Text(String),
        Words(Vec<String>),
    }
    Ok(match Option::<Said>::deserialize(value)? {
        None => None,
        Some(Said::Words(words)) => Some(words),
        Some(Said::Text(text)) => {
            Some(shell_words::split(&text).map_err(serde::de::Error::custom)?)
        }
    })
}

/// Seconds, or words such as `2m 30s`. What is neither is as if it were not said.
pub(crate) fn time<'a, D: Deserializer<'a>>(value: D) -> Result<Option<Duration>, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::Number(seconds) => {
            seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        }
        Value::String(text) => Some(time_of(&text).map_err(serde::de::Error::custom)?),
        _ => None,
    })
}

pub(crate) fn time_of(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text.trim())
        .map_err(|error| format!("`{text}` is no time such as 30s or 2m: {error}"))
}

/// A time in which something can be done.
fn time_said(value: &Value) -> Result<Duration, String> {
    match time(value).map_err(|error| error.to_string())? {
        Some(Duration::ZERO) => Err("in no time nothing can be done".to_owned()),
        Some(time) => Ok(time),
        None => Err(format!("{value} is no time such as 30 or \"2m\"")),
    }
}

pub(crate) fn size<'a, D: Deserializer<'a>>(value: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::Number(bytes) => bytes.as_u64(),
        Value::String(text) => Some(size_of(&text).map_err(serde::de::Error::custom)?),
        _ => None,
    })
}

/// Bytes, or words such as `64 MiB` and `64M`.
pub(crate) fn size_of(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim().trim_end_matches(['b', 'B']).trim_end_matches('i') {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return Err(format!("`{text}` is no size such as 64MiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no size such as 64MiB"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        assert_eq!(size_of("64MiB"), Ok(64 << 20));
        assert_eq!(size_of("2 GB"), Ok(2 << 30));
        assert_eq!(size_of("100k"), Ok(100 << 10));
        assert_eq!(size_of("7"), Ok(7));
        assert!(size_of("lots").is_err());
        assert_eq!(time_of("90"), Ok(Duration::from_secs(90)));
        assert_eq!(time_of("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(time_of("soon").is_err());
    }

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
