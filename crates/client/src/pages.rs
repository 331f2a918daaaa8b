//! Lists, page by page, and what is remembered of the tools in them.

use crate::{
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
/// Tools that are remembered at most.
const REMEMBERED: usize = 100_000;

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
            let (items, next) = shared.page::<T>(method, cursor.as_deref()).await?;
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
    /// One page of a list, and where the next begins.
    async fn page<T>(&self, method: &str, cursor: Option<&str>) -> Result<(Vec<T>, Option<String>)>
    where
        T: Listed + DeserializeOwned,
    {
        let mut params = Map::new();
        if let Some(cursor) = cursor {
            params.insert("cursor".into(), cursor.into());
        }
        let mut result = self.request(method, params, &self.settings.wish()).await?;
        let items = match result.remove(T::MEMBER) {
            Some(items) => serde_json::from_value(items).map_err(Error::invalid)?,
            None => return Err(Error::Invalid(format!("`{}` is missing", T::MEMBER))),
        };
        // An empty cursor is a cursor.
        let next = match result.remove("nextCursor") {
            Some(Value::String(next)) => Some(next),
            _ => None,
        };
        Ok((items, next))
    }

    /// Lists the tools again, for what is to be remembered of them.
    pub(crate) async fn tools_anew(&self) -> Result<()> {
        let mut cursor = None;
        for _ in 0..PAGES {
            let (listed, next) = self.page::<Tool>("tools/list", cursor.as_deref()).await?;
            for tool in &listed {
                self.tools.learn(tool, mirror::find(&tool.input_schema).unwrap_or_default());
            }
            match next {
                None => return Ok(()),
                next => cursor = next,
            }
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
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A server may list other names every time.
        if all.len() >= REMEMBERED {
            all.clear();
        }
        all.insert(tool.name.clone(), Arc::new(Known { mirrored }));
    }
}
