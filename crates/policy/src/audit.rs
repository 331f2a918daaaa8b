//! The log of calls: a line of JSON for each, in a file only its owner can read.

use crate::audit_queue::{Entry, Fate, Log};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::{io, path::PathBuf};

/// Names of arguments that a line has, and how much of each: nobody fills the log with them.
const MOST_NAMES: usize = 64;
const LONGEST_NAME: usize = 128;

/// Where calls are written down, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Arguments,
    /// What cannot be written down does not happen.
    pub(crate) is_required: bool,
}

/// What is written down of arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Arguments {
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
                let short = |name: &String| name.chars().take(LONGEST_NAME).collect::<String>();
                let names: Vec<String> = args.keys().take(MOST_NAMES).map(short).collect();
                let mut shown = json!({ "names": names, "sha256": digest });
                if args.len() > MOST_NAMES {
                    shown["more"] = json!(args.len() - MOST_NAMES);
                }
                Some(shown)
            }
        }
    }

    /// What an old log is called.
    pub(crate) fn older(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".1");
        name.into()
    }

    /// Waits until the calls so far are written down, and says whether more can be.
    pub(crate) async fn written(&self, log: &Log) -> io::Result<()> {
        log.written(&self.path).await
    }

    /// Writes a call down, soon. What cannot be written waits if it must be, and is lost otherwise.
    pub(crate) fn append(&self, log: &Log, line: &Line<'_>) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let fate = match (self.is_required, line.outcome) {
            (false, _) => Fate::Lost,
            (true, None) => Fate::Waits,
            (true, Some(_)) => Fate::Stays,
        };
        log.append(Entry { path: self.path.clone(), text, fate });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
