//! Whether an answer is right: a quick look at each, a whole comparison now and then.

use crate::options::{Operation, Work};
use memchr::memmem::Finder;
use serde_json::Value;

/// The first answer is compared as a whole, then one in so many.
const ONE_IN: u64 = 997;
/// How much of an answer's start and end the quick look sees.
const GLANCE: usize = 400;

/// Checks the answers of one connection.
pub struct Checker {
    work: Work,
    text: String,
    result: Finder<'static>,
    error: Finder<'static>,
    answers: u64,
    /// How many were compared as a whole.
    pub compared: u64,
}

impl Checker {
    pub fn new(work: &Work) -> Self {
        Self {
            work: work.clone(),
            text: work.operation.text(),
            result: Finder::new("\"result\""),
            error: Finder::new("\"isError\":true"),
            answers: 0,
            compared: 0,
        }
    }

    /// Whether this answer will be compared as a whole.
    pub fn wants_whole(&self) -> bool {
        self.answers.is_multiple_of(ONE_IN)
    }

    /// Looks for a result that is no error.
    pub fn glance(&mut self, body: &[u8]) -> Result<(), String> {
        self.answers += 1;
        let start = &body[..body.len().min(GLANCE)];
        let end = &body[body.len().saturating_sub(GLANCE)..];
        let has = |what: &Finder<'_>| what.find(start).is_some() || what.find(end).is_some();
        if has(&self.result) && !has(&self.error) {
            return Ok(());
        }
        Err(format!("no good result: {}", crate::answer::start(body)))
    }

    /// Compares every part that is known in advance.
    pub fn compare(&mut self, body: &[u8], id: Option<u64>) -> Result<(), String> {
        self.compared += 1;
        let answer = message(body).ok_or("the body is no JSON-RPC message")?;
        let expected = id.filter(|_| !self.work.any_id);
        if expected.is_some_and(|id| answer["id"] != id) {
            return Err(format!("id {} instead of {expected:?}", answer["id"]));
        }
        self.compare_result(&answer["result"])
    }

    fn compare_result(&self, result: &Value) -> Result<(), String> {
        if !result.is_object() || result["isError"] == true {
            return Err("the call failed".to_owned());
        }
        let right = match self.work.operation {
            Operation::List => {
                result["tools"].as_array().is_some_and(|tools| tools.len() == self.work.tools)
            }
            Operation::Add => result["structuredContent"]["sum"] == 42,
            Operation::Task => result["resultType"] == "task" && result["taskId"].is_string(),
            Operation::Echo | Operation::Echo64k | Operation::Echo64kEscaped => {
                result["content"][0]["text"] == self.text.as_str()
            }
        };
        right.then_some(()).ok_or_else(|| "the result is not what was asked for".to_owned())
    }
}

/// The response in a body: JSON, or the event of a stream that has an id.
pub fn message(body: &[u8]) -> Option<Value> {
    if body.first() == Some(&b'{') {
        return serde_json::from_slice(body).ok();
    }
    let text = std::str::from_utf8(body).ok()?;
    let events = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let mut messages = events.filter_map(|data| serde_json::from_str::<Value>(data).ok());
    messages.find(|message| message.get("id").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Era;

    fn checker() -> Checker {
        let operation = Operation::Add;
        Checker::new(&Work { era: Era::Modern, operation, tools: 100, any_id: false })
    }

    #[test]
    fn a_right_answer_passes_as_json_and_as_an_event() {
        let json = r#"{"id":7,"result":{"structuredContent":{"sum":42}}}"#;
        let event = format!(": hi\n\ndata: {json}\n\n");
        for body in [json, event.as_str()] {
            checker().glance(body.as_bytes()).unwrap();
            checker().compare(body.as_bytes(), Some(7)).unwrap();
        }
    }

    #[test]
    fn a_wrong_id_sum_or_error_is_found() {
        let wrong = br#"{"id":7,"result":{"structuredContent":{"sum":41}}}"#;
        assert!(checker().compare(wrong, Some(7)).is_err());
        let right = br#"{"id":7,"result":{"structuredContent":{"sum":42}}}"#;
        assert!(checker().compare(right, Some(8)).is_err());
        assert!(checker().glance(br#"{"id":7,"result":{"isError":true}}"#).is_err());
        assert!(checker().glance(br#"{"id":7,"error":{"code":-32601}}"#).is_err());
    }
}
