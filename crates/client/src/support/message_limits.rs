//! Limits on what a server can make a client hold.

use crate::error::Failure;
use serde::de::DeserializeOwned;
use serde_json::Value;
use zcp_wire::json::has_more_values;

/// Maximum number of JSON values in a message. In memory each takes many times the bytes it has as
/// text.
pub(crate) const VALUES: usize = 1_000_000;
/// Maximum number of JSON values in a question or a log message.
pub(crate) const QUESTION_VALUES: usize = 20_000;
/// Maximum length of a question, in bytes.
pub(crate) const QUESTION: usize = 4 * 1024 * 1024;
/// Maximum length of all questions that are open on one stream, in bytes.
pub(crate) const QUESTIONS: usize = 8 * 1024 * 1024;
/// Maximum number of questions in one answer, and of the questions of one task.
pub(crate) const ASKED_AT_ONCE: usize = 64;
pub(crate) const ASKED_BY_TASK: usize = 1000;
/// Maximum length of an id of a task or a question, in bytes.
pub(crate) const ID: usize = 1024;
/// Maximum length of a session id, in bytes.
pub(crate) const SESSION_ID: usize = 4096;
/// Maximum length of the URI of a resource that changed, in bytes.
pub(crate) const URI: usize = 8 * 1024;
/// Maximum size of a list, of all its pages together, in bytes of memory.
pub(crate) const LIST: usize = 64 * 1024 * 1024;
/// Maximum size of what is remembered of tools, in bytes of memory.
pub(crate) const TOOLS: usize = 32 * 1024 * 1024;

/// Texts that are too short to hold too much.
const SHORT: usize = 16 * 1024;

/// Whether a message has too many values to be read; says so.
pub(crate) fn too_many(message: &[u8]) -> Option<String> {
    let is_too_much = message.len() > VALUES && has_more_values(message, VALUES);
    is_too_much.then(|| format!("a message of the server has more than {VALUES} JSON values"))
}

/// Says that an answer has more bytes than allowed.
pub(crate) fn too_long(most: usize) -> Failure {
    Failure::TooLong(format!("the answer has more than {most} bytes"))
}

/// Reads JSON text that has at most so many values.
pub(crate) fn read<T: DeserializeOwned>(text: &str, values: usize) -> Result<T, String> {
    if text.len() > SHORT && has_more_values(text.as_bytes(), values) {
        return Err(format!("it has more than {values} JSON values"));
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}

/// About how many bytes of memory a value takes.
pub(crate) fn weight(value: &Value) -> usize {
    const OWN: usize = 32;
    const MEMBER: usize = 80;
    OWN + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| MEMBER + name.len() + weight(value)).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        for (text, count) in [
            (r#"[1,2,3]"#, 3),
            (r#"{"a":[],"b":{}}"#, 4),
            (r#"[",,[[",{"\",\\":1}]"#, 3),
            (r#"["a\\",1]"#, 2),
            (r#"["unfinished,,,\"#, 1),
            ("7", 0),
        ] {
            assert!(!has_more_values(text.as_bytes(), count), "{text}");
            assert!(count == 0 || has_more_values(text.as_bytes(), count - 1), "{text}");
        }
    }

    #[test]
    fn a_text_with_too_many_values_is_not_read() {
        let text = format!("[{}0]", "0,".repeat(SHORT));
        assert!(read::<Value>(&text, SHORT).unwrap_err().contains("more than"));
        assert!(read::<Value>(&text, 2 * SHORT).is_ok());
    }
}
