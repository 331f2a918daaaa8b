//! Lists, page by page, and what is remembered of the tools in them.

use crate::{
    client::Shared,
    error::{Error, Result},
    support::limits,
};
use futures_util::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use zcp_schema::Lazy;
use zcp_wire::{
    error::INVALID_PARAMS,
    mcp::{
        Listed,
        tools::{CallToolResult, Tool},
    },
    mirror::{self, Mirrored},
    revision::Era,
};

/// Pages one list may have.
const PAGES: usize = 10_000;
/// Bytes of memory a tool takes that is remembered, beside what it says of itself.
const TOOL: usize = 512;

/// The items of a list.
pub(crate) fn items<T>(
    shared: Arc<Shared>,
    method: &'static str,
) -> impl Stream<Item = Result<T>> + Send + 'static
where
    T: Listed + DeserializeOwned + Send + 'static,
{
    let walk = Walk {
        shared,
        method,
        member: T::MEMBER,
        next: Some(None),
        seen: HashSet::new(),
        pages: 0,
        bytes: 0,
        is_again: false,
    };
    let pages = stream::try_unfold(walk, async |mut walk| {
        let Some(items) = walk.page().await? else { return Ok::<_, Error>(None) };
        let items = items.into_iter().map(|item| T::deserialize(item).map_err(Error::invalid));
        Ok(Some((stream::iter(items), walk)))
    });
    pages.try_flatten()
}

/// A walk through the pages of a list.
struct Walk {
    shared: Arc<Shared>,
    method: &'static str,
    member: &'static str,
    /// Where the next page begins, if there is one.
    next: Option<Option<String>>,
    /// Names of items that were given.
    seen: HashSet<String>,
    pages: usize,
    /// Bytes of memory that all items so far take.
    bytes: usize,
    is_again: bool,
}

impl Walk {
    async fn page(&mut self) -> Result<Option<Vec<Value>>> {
        let Some(cursor) = self.next.take() else { return Ok(None) };
        if self.pages == PAGES {
            return Err(Error::invalid("its list has no end"));
        }
        self.pages += 1;
        let (mut items, next) =
            match self.shared.page(self.method, self.member, cursor.as_deref()).await {
                // The list is another one by now. It is walked again from its start.
                Err(Error::Refused(error))
                    if error.code == INVALID_PARAMS && cursor.is_some() && !self.is_again =>
                {
                    self.is_again = true;
                    self.shared.settings.cache.forget_list(self.method);
                    self.next = Some(None);
                    return Ok(Some(vec![]));
                }
                page => page?,
            };
        if next.is_some() && next == cursor {
            return Err(Error::invalid("its list has no end"));
        }
        items.retain(|item| self.seen.insert(name(item)));
        let names = |item: &Value| 2 * limits::weight(item);
        self.bytes += items.iter().map(names).sum::<usize>();
        if self.bytes > limits::LIST {
            return Err(Error::Invalid(format!("its list takes more than {} bytes", limits::LIST)));
        }
        self.next = next.map(Some);
        Ok(Some(items))
    }
}

/// What an item of a list is known by.
fn name(item: &Value) -> String {
    let member =
        ["uri", "uriTemplate", "name"].iter().find_map(|member| item.get(member)?.as_str());
    member.map_or_else(|| item.to_string(), str::to_owned)
}

/// The tools a server lists, without those whose headers nobody can make.
pub(crate) fn tools(shared: Arc<Shared>) -> BoxStream<'static, Result<Tool>> {
    let all = items::<Tool>(shared.clone(), "tools/list");
    all.try_filter_map(move |tool| {
        let stateless = shared.now().server.revision.era() == Era::Stateless;
        std::future::ready(Ok(match mirror::find(&tool.input_schema) {
            Ok(mirrored) => {
                shared.settings.tools.learn(&tool, mirrored);
                Some(tool)
            }
            Err(why) if stateless => {
                tracing::warn!("the tool `{}` is left out: {why}", tool.name);
                None
            }
            Err(_) => {
                shared.settings.tools.learn(&tool, vec![]);
                Some(tool)
            }
        }))
    })
    .boxed()
}

impl Shared {
    /// One page of a list, and where the next begins.
    async fn page(
        self: &Arc<Self>,
        method: &str,
        member: &str,
        cursor: Option<&str>,
    ) -> Result<(Vec<Value>, Option<String>)> {
        let mut params = Map::new();
        if let Some(cursor) = cursor {
            params.insert("cursor".into(), cursor.into());
        }
        let mut result = self.request(method, params, &self.settings.wish()).await?;
        let Some(Value::Array(items)) = result.remove(member) else {
            return Err(Error::Invalid(format!("`{member}` is missing")));
        };
        // An empty cursor is a cursor.
        let next = match result.remove("nextCursor") {
            Some(Value::String(next)) => Some(next),
            _ => None,
        };
        Ok((items, next))
    }

    /// Checks a result against what its tool promises, or promises by now.
    pub(crate) async fn check(self: &Arc<Self>, tool: &str, result: &CallToolResult) -> Result<()> {
        match self.settings.tools.check(tool, result) {
            Ok(()) => Ok(()),
            Err(_) => {
                self.tools_anew().await?;
                self.settings.tools.check(tool, result)
            }
        }
    }

    /// Lists the tools again, for what is to be remembered of them.
    pub(crate) async fn tools_anew(self: &Arc<Self>) -> Result<()> {
        self.settings.cache.forget_list("tools/list");
        tools(self.clone()).try_for_each(|_| std::future::ready(Ok(()))).await
    }
}

/// What is remembered of the tools that were listed.
#[derive(Debug, Default)]
pub(crate) struct Tools(Mutex<Remembered>);

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

impl Tools {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Known>> {
        self.lock().tools.get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn learn(&self, tool: &Tool, mirrored: Vec<Mirrored>) {
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
    fn check(&self, name: &str, result: &CallToolResult) -> Result<()> {
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
        let tools = Tools::default();
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
