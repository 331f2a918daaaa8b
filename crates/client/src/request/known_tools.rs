//! What is remembered of the tools a server listed: for their headers, results and tasks.

use crate::{
    error::{Error, Result},
    support::message_limits,
};
use serde_json::Value;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};
use zcp_schema::Schema;
use zcp_wire::{
    mcp::tools::{CallToolResult, Tool},
    mirror::Mirrored,
    sync::lock,
};

/// Bytes of memory a tool takes that is remembered, beside what it says of itself.
const TOOL: usize = 512;
/// Maximum number of output schemas that are kept compiled. A compiled schema may take a few MiB.
const COMPILED: usize = 16;
/// Tools that are logged one by one when they are left out.
const LOGGED: usize = 20;

/// What is remembered of the tools that were listed.
#[derive(Debug, Default)]
pub(crate) struct KnownTools(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    tools: HashMap<String, Arc<Known>>,
    /// Bytes of memory they took when they were learned.
    bytes: usize,
    /// The output schemas of tools that were called, the last one first.
    compiled: VecDeque<(Arc<Known>, Schema)>,
    /// How often a tool was left out.
    left_out: usize,
}

/// What is remembered of a tool.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) mirrored: Vec<Mirrored>,
    /// What its results are like. It is compiled when the tool is called: most never are.
    output: Option<Value>,
    /// The output schema cannot be compiled.
    is_unchecked: AtomicBool,
    /// Whether it may, or must, be called as a task.
    pub(crate) task_support: Option<String>,
}

impl KnownTools {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Known>> {
        self.lock().tools.get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        lock(&self.0)
    }

    pub(crate) fn learn(&self, tool: &Tool, mirrored: Vec<Mirrored>) {
        let task_support = tool.execution.as_ref().map(|how| how.task_support.clone());
        let output = tool.output_schema.clone();
        let schema = output.as_ref().map_or(0, message_limits::weight);
        let bytes = TOOL + tool.name.len() + schema + message_limits::weight(&tool.input_schema);
        let known = Known { mirrored, output, is_unchecked: AtomicBool::new(false), task_support };
        let mut all = self.lock();
        // A server may list other names every time.
        if all.bytes + bytes > message_limits::TOOLS {
            *all = Remembered { left_out: all.left_out, ..Remembered::default() };
        }
        if bytes <= message_limits::TOOLS {
            all.bytes += bytes;
            all.tools.insert(tool.name.clone(), Arc::new(known));
        }
    }

    /// Logs that a tool is left out: often the first times, and then ever less.
    pub(crate) fn leave_out(&self, name: &str, why: &str) {
        let mut all = self.lock();
        all.left_out += 1;
        if all.left_out <= LOGGED || all.left_out.is_power_of_two() {
            let (name, count) = (name.chars().take(100).collect::<String>(), all.left_out);
            tracing::warn!("the tool {name:?} is left out ({count}): {why}");
        }
    }

    /// What tools promise may no longer be so: nothing is checked until they are listed again.
    pub(crate) fn doubt(&self) {
        let mut all = self.lock();
        all.compiled.clear();
        for known in all.tools.values_mut() {
            let Known { mirrored, task_support, .. } = &**known;
            let (mirrored, task_support) = (mirrored.clone(), task_support.clone());
            let is_unchecked = AtomicBool::new(true);
            *known = Arc::new(Known { mirrored, output: None, is_unchecked, task_support });
        }
    }

    /// Whether a result is what its tool said it would be.
    pub(crate) fn check(&self, name: &str, result: &CallToolResult) -> Result<()> {
        let Some(known) = self.get(name).filter(|_| !result.is_error) else { return Ok(()) };
        let Some(schema) = &known.output else { return Ok(()) };
        let Some(compiled) = self.compiled(name, &known, schema) else { return Ok(()) };
        let Some(value) = &result.structured_content else {
            let why = format!("the result of `{name}` lacks the structured content it promised");
            return Err(Error::Invalid(why));
        };
        compiled.check(value).map_err(|why| {
            Error::Invalid(format!("the result of `{name}` is not what it promised: {why}"))
        })
    }

    /// The compiled output schema of a tool; none if it cannot be compiled, which is logged once.
    fn compiled(&self, name: &str, known: &Arc<Known>, schema: &Value) -> Option<Schema> {
        if known.is_unchecked.load(Ordering::Relaxed) {
            return None;
        }
        let mut all = self.lock();
        if let Some(at) = all.compiled.iter().position(|(one, _)| Arc::ptr_eq(one, known)) {
            let found = all.compiled.remove(at)?;
            let compiled = found.1.clone();
            all.compiled.push_front(found);
            return Some(compiled);
        }
        drop(all);
        // Not while the lock is held: it may take long.
        let compiled = match Schema::compile(schema) {
            Ok(compiled) => compiled,
            Err(why) => {
                if !known.is_unchecked.swap(true, Ordering::Relaxed) {
                    let name = name.chars().take(100).collect::<String>();
                    tracing::warn!("results of the tool {name:?} are not checked: {why}");
                }
                return None;
            }
        };
        let mut all = self.lock();
        all.compiled.push_front((known.clone(), compiled.clone()));
        all.compiled.truncate(COMPILED);
        Some(compiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_remembered_of_tools_is_limited_in_bytes() {
        let tools = KnownTools::default();
        let words = vec!["x".repeat(1000); 20];
        for number in 0..2000 {
            let tool = json!({ "name": number.to_string(), "inputSchema": {},
                "outputSchema": { "type": "object", "examples": words } });
            tools.learn(&serde_json::from_value(tool).unwrap(), vec![]);
            assert!(tools.lock().bytes <= message_limits::TOOLS);
        }
        assert!(tools.lock().tools.len() < 1000);
        assert!(tools.get("1999").is_some());
    }

    #[test]
    fn few_output_schemas_are_kept_compiled() {
        let tools = KnownTools::default();
        let result = json!({ "content": [], "structuredContent": { "n": 1 } });
        let result: CallToolResult = serde_json::from_value(result).unwrap();
        for number in 0..100 {
            let tool = json!({ "name": number.to_string(), "inputSchema": {},
                "outputSchema": { "properties": { "n": { "type": "integer" } } } });
            tools.learn(&serde_json::from_value(tool).unwrap(), vec![]);
        }
        assert!(tools.lock().compiled.is_empty(), "no schema is compiled before a call");
        for number in 0..100 {
            tools.check(&number.to_string(), &result).unwrap();
            tools.check("0", &result).unwrap();
        }
        let all = tools.lock();
        assert_eq!(all.compiled.len(), COMPILED);
        assert!(all.compiled.iter().any(|(known, _)| Arc::ptr_eq(known, &all.tools["0"])));
    }
}
