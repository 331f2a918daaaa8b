//! The log of calls: a line of JSON for each, in a file only its owner can read.

use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, VecDeque},
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// How large a log grows before it begins anew. The one before is kept.
const LARGEST: u64 = 64 * 1024 * 1024;
/// Lines that wait for a log that must be written and cannot.
const WAITING: usize = 10_000;

/// Where calls are written down, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) path: PathBuf,
    pub(super) arguments: Arguments,
    /// What cannot be written down does not happen.
    pub(crate) is_required: bool,
}

/// What is written down of arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Arguments {
    /// All of them.
    Whole,
    /// Their names, and a digest.
    #[default]
    Digest,
    Nothing,
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        match Value::deserialize(value)? {
            Value::Bool(true) => Ok(Self::Whole),
            Value::Bool(false) => Ok(Self::Nothing),
            Value::String(text) if text == "hash" => Ok(Self::Digest),
            other => {
                let why = format!("`audit_arguments` is true, false or \"hash\", not {other}");
                Err(D::Error::custom(why))
            }
        }
    }
}

/// What is written down of a call.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line<'a> {
    pub(crate) time: String,
    pub(crate) client: &'a str,
    pub(crate) principal: &'a str,
    pub(crate) tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arguments: Option<Value>,
    pub(crate) decision: &'static str,
    pub(crate) rule: &'a str,
    /// None if nothing was run.
    pub(crate) outcome: Option<&'static str>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) milliseconds: u64,
}

/// What all logs of a server share.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Lines that could not be written yet.
    waiting: VecDeque<(PathBuf, Vec<u8>)>,
    has_warned: bool,
}

impl Audit {
    /// What is written down of these arguments.
    pub(crate) fn shown(&self, args: &Map<String, Value>) -> Option<Value> {
        match self.arguments {
            Arguments::Whole => Some(Value::Object(args.clone())),
            Arguments::Nothing => None,
            Arguments::Digest => {
                let mut sorted = Value::Object(args.clone());
                sorted.sort_all_objects();
                let digest: String = Sha256::digest(sorted.to_string())
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                let names: Vec<&String> = args.keys().collect();
                Some(json!({ "names": names, "sha256": digest }))
            }
        }
    }

    /// What an old log is called.
    pub(super) fn older(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".1");
        name.into()
    }

    /// Whether calls can be written down now.
    pub(crate) fn ready(&self, log: &Log) -> io::Result<()> {
        log.state().write(&self.path)?;
        open(&self.path).map(drop)
    }

    /// Writes a call down. What cannot be written waits if it must be, and is lost otherwise.
    pub(crate) fn append(&self, log: &Log, line: &Line<'_>) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let mut state = log.state();
        state.waiting.push_back((self.path.clone(), text));
        let Err(error) = state.write(&self.path) else {
            state.has_warned = false;
            return;
        };
        if !std::mem::replace(&mut state.has_warned, true) {
            tracing::warn!("calls are not written down: {}: {error}", self.path.display());
        }
        if !self.is_required {
            state.waiting.pop_back();
        }
        while state.waiting.len() > WAITING {
            state.waiting.pop_front();
        }
    }
}

impl Log {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes what waits, in order, and says how one log fared.
    fn write(&mut self, log: &Path) -> io::Result<()> {
        let mut failed: BTreeMap<PathBuf, io::Error> = BTreeMap::new();
        self.waiting.retain(|(path, line)| {
            failed.contains_key(path)
                || write(path, line, LARGEST)
                    .map_err(|error| failed.insert(path.clone(), error))
                    .is_err()
        });
        failed.remove(log).map_or(Ok(()), Err)
    }
}

/// One line, whole: others may append to the same file.
fn write(path: &Path, line: &[u8], largest: u64) -> io::Result<()> {
    let length = fs::metadata(path).map_or(0, |about| about.len());
    if length > 0 && length + line.len() as u64 > largest {
        let mut older = path.to_path_buf().into_os_string();
        older.push(".1");
        fs::rename(path, older)?;
    }
    let mut file = open(path)?;
    let before = file.metadata()?.len();
    file.write_all(line).inspect_err(|_| {
        // Half a line is no line.
        let _ = file.set_len(before);
    })
}

fn open(path: &Path) -> io::Result<fs::File> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_full_begins_anew_and_the_last_one_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("logs/audit.jsonl");
        for line in ["one\n", "two\n", "three\n"] {
            write(&path, line.as_bytes(), 10).expect("it is written");
        }
        let text = |path: &Path| fs::read_to_string(path).expect("a log");
        assert_eq!(text(&path), "three\n");
        assert_eq!(text(&folder.path().join("logs/audit.jsonl.1")), "one\ntwo\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("a log").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn the_order_of_arguments_does_not_change_their_digest() {
        let audit = Audit { path: "a".into(), arguments: Arguments::Digest, is_required: false };
        let shown = |text: &str| {
            let args = serde_json::from_str(text).expect("arguments");
            audit.shown(&args).expect("a digest")["sha256"].clone()
        };
        assert_eq!(shown(r#"{"a":{"x":1,"y":2},"b":2}"#), shown(r#"{"b":2,"a":{"y":2,"x":1}}"#));
        assert_ne!(shown(r#"{"a":1}"#), shown(r#"{"a":2}"#));
    }
}
