//! Lists, page by page, and what is remembered of the tools in them.

use crate::{
    call::Wish,
    client::Shared,
    error::{Error, Result},
};
use futures_util::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use zcp_wire::{
    mcp::{Listed, tools::Tool},
    mirror::{self, Mirrored},
    revision::Era,
};

/// Pages one list may have.
const PAGES: usize = 10_000;

/// The items of a list.
pub(crate) fn items<T>(
    shared: Arc<Shared>,
    method: &'static str,
) -> impl Stream<Item = Result<T>> + Send + 'static
where
    T: Listed + DeserializeOwned + Send + 'static,
{
    let pages = stream::try_unfold(Some((None, 0)), move |at: Option<(Option<String>, usize)>| {
        let shared = shared.clone();
        async move {
            let Some((cursor, count)) = at else { return Ok(None) };
            let mut params = Map::new();
            if let Some(cursor) = &cursor {
                params.insert("cursor".into(), cursor.clone().into());
            }
            let wish = shared.settings.wish();
            let mut result = shared.request(method, params, &wish).await?;
            let items: Vec<T> = match result.remove(T::MEMBER) {
                Some(items) => serde_json::from_value(items).map_err(Error::invalid)?,
                None => return Err(Error::Invalid(format!("`{}` is missing", T::MEMBER))),
            };
            // An empty cursor is a cursor.
            let next = match result.remove("nextCursor") {
                Some(Value::String(next)) => Some(next),
                _ => None,
            };
            if next.is_some() && (next == cursor || count == PAGES) {
                return Err(Error::invalid("its list has no end"));
            }
            let page = stream::iter(items.into_iter().map(Ok));
            Ok(Some((page, next.map(|next| (Some(next), count + 1)))))
        }
    });
    pages.try_flatten()
}

/// The tools a server lists, without those whose headers nobody can make.
pub(crate) fn tools(shared: Arc<Shared>) -> BoxStream<'static, Result<Tool>> {
    let all = items::<Tool>(shared.clone(), "tools/list");
    all.try_filter_map(move |tool| {
        let stateless = shared.now().server.revision.era() == Era::Stateless;
        std::future::ready(Ok(match mirror::find(&tool.input_schema) {
            Ok(mirrored) => {
                shared.tools.learn(&tool, mirrored);
                Some(tool)
            }
            Err(why) if stateless => {
                tracing::warn!("the tool `{}` is left out: {why}", tool.name);
                None
            }
            Err(_) => Some(tool),
        }))
    })
    .boxed()
}

impl Shared {
    /// Lists the tools again, for what is to be remembered of them.
    pub(crate) async fn tools_anew(&self, wish: &Wish) -> Result<()> {
        let mut params = Map::new();
        for _ in 0..PAGES {
            let result = self.request("tools/list", params, wish).await?;
            let listed = result.get("tools").cloned().unwrap_or_default();
            let listed: Vec<Tool> = serde_json::from_value(listed).map_err(Error::invalid)?;
            for tool in &listed {
                self.tools.learn(tool, mirror::find(&tool.input_schema).unwrap_or_default());
            }
            let Some(Value::String(next)) = result.get("nextCursor") else { return Ok(()) };
            params = Map::from_iter([("cursor".to_owned(), next.clone().into())]);
        }
        Err(Error::invalid("its list has no end"))
    }
}

/// What is remembered of the tools that were listed.
#[derive(Debug, Default)]
pub(crate) struct Tools(Mutex<HashMap<String, Arc<Known>>>);

/// What is remembered of a tool.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) mirrored: Vec<Mirrored>,
}

impl Tools {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    fn learn(&self, tool: &Tool, mirrored: Vec<Mirrored>) {
        let known = Arc::new(Known { mirrored });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(tool.name.clone(), known);
    }
}
