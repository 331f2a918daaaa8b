//! What is remembered of the tools a server listed: for their headers, results and tasks.

use crate::{
    error::{Error, Result},
    support::limits,
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use zcp_schema::Lazy;
use zcp_wire::{
    mcp::tools::{CallToolResult, Tool},
    mirror::Mirrored,
};

/// Bytes of memory a tool takes that is remembered, beside what it says of itself.
const TOOL: usize = 512;

/// What is remembered of the tools that were listed.
#[derive(Debug, Default)]
pub(crate) struct KnownTools(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    tools: HashMap<String, Arc<Known>>,
    /// Bytes of memory they took when they were learned.
    bytes: usize,
}

/// What is remembered of a tool.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) mirrored: Vec<Mirrored>,
    /// What its results are like.
    output: Option<(Value, Lazy)>,
    /// Whether it may, or must, be called as a task.
    pub(crate) task_support: Option<String>,
}

impl KnownTools {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Known>> {
        self.lock().tools.get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn learn(&self, tool: &Tool, mirrored: Vec<Mirrored>) {
        let output = tool.output_schema.clone().and_then(|schema| match Lazy::new(&schema) {
            Ok(lazy) => Some((schema, lazy)),
            Err(why) => {
                tracing::warn!("results of the tool `{}` are not checked: {why}", tool.name);
                None
            }
        });
        let task_support = tool.execution.as_ref().map(|how| how.task_support.clone());
        // What is compiled of a schema takes about as much again.
        let schemas = output.as_ref().map_or(0, |(schema, _)| 2 * limits::weight(schema));
        let bytes = TOOL + tool.name.len() + schemas + limits::weight(&tool.input_schema);
        let known = Known { mirrored, output, task_support };
        let mut all = self.lock();
        // A server may list other names every time.
        if all.bytes + bytes > limits::TOOLS {
            *all = Remembered::default();
        }
        if bytes <= limits::TOOLS {
            all.bytes += bytes;
            all.tools.insert(tool.name.clone(), Arc::new(known));
        }
    }

    /// What tools promise may no longer be so: nothing is checked until they are listed again.
    pub(crate) fn doubt(&self) {
        for known in self.lock().tools.values_mut() {
            let Known { mirrored, task_support, .. } = &**known;
            let (mirrored, task_support) = (mirrored.clone(), task_support.clone());
            *known = Arc::new(Known { mirrored, output: None, task_support });
        }
    }

    /// Whether a result is what its tool said it would be.
    pub(crate) fn check(&self, name: &str, result: &CallToolResult) -> Result<()> {
        let known = self.get(name).filter(|_| !result.is_error);
        let Some((schema, lazy)) = known.as_ref().and_then(|known| known.output.as_ref()) else {
            return Ok(());
        };
        let Some(value) = &result.structured_content else {
            let why = format!("the result of `{name}` lacks the structured content it promised");
            return Err(Error::Invalid(why));
        };
        lazy.check(schema, value).map_err(|why| {
            Error::Invalid(format!("the result of `{name}` is not what it promised: {why}"))
        })
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
            assert!(tools.lock().bytes <= limits::TOOLS);
        }
        assert!(tools.lock().tools.len() < 1000);
        assert!(tools.get("1999").is_some());
    }
}
