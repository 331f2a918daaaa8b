//! Lists, page by page.

use crate::{
    connection::Connection,
    error::{Error, Result},
    support::message_limits,
};
use futures_util::{
    Stream, StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::{collections::HashSet, sync::Arc};
use zcp_wire::{
    Method,
    error::INVALID_PARAMS,
    mcp::{
        Listed,
        tools::{CallToolResult, Tool},
    },
};

/// Pages one list may have.
const PAGES: usize = 10_000;

/// The items of a list.
pub(crate) fn items<T>(
    connection: Arc<Connection>,
    method: Method,
) -> impl Stream<Item = Result<T>> + Send + 'static
where
    T: Listed + DeserializeOwned + Send + 'static,
{
    let walk = Walk {
        connection,
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
    connection: Arc<Connection>,
    method: Method,
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
            match page(&self.connection, self.method, self.member, cursor.as_deref()).await {
                // The list is another one by now. It is walked again from its start.
                Err(Error::Refused(error))
                    if error.code == INVALID_PARAMS && cursor.is_some() && !self.is_again =>
                {
                    self.is_again = true;
                    self.connection.settings.cache.forget_list(self.method);
                    self.next = Some(None);
                    return Ok(Some(vec![]));
                }
                page => page?,
            };
        if next.is_some() && next == cursor {
            return Err(Error::invalid("its list has no end"));
        }
        items.retain(|item| self.seen.insert(name(item)));
        let names = |item: &Value| 2 * message_limits::weight(item);
        self.bytes += items.iter().map(names).sum::<usize>();
        if self.bytes > message_limits::LIST {
            return Err(Error::Invalid(format!(
                "its list takes more than {} bytes",
                message_limits::LIST
            )));
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

/// The tools a server lists, without those whose headers nobody can send.
pub(crate) fn tools(connection: Arc<Connection>) -> BoxStream<'static, Result<Tool>> {
    let all = items::<Tool>(connection.clone(), Method::ListTools);
    all.try_filter_map(move |tool| {
        let link = connection.now();
        std::future::ready(Ok(match link.dialect.header_arguments(&tool) {
            Ok(mirrored) => {
                connection.settings.tools.learn(&tool, mirrored);
                Some(tool)
            }
            Err(why) => {
                connection.settings.tools.leave_out(&tool.name, &why);
                None
            }
        }))
    })
    .boxed()
}

/// One page of a list, and where the next begins.
async fn page(
    connection: &Connection,
    method: Method,
    member: &str,
    cursor: Option<&str>,
) -> Result<(Vec<Value>, Option<String>)> {
    let mut params = Map::new();
    if let Some(cursor) = cursor {
        params.insert("cursor".into(), cursor.into());
    }
    let mut result = connection.request(method, &params, &connection.settings.options()).await?;
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
pub(super) async fn check(
    connection: &Arc<Connection>,
    tool: &str,
    result: &CallToolResult,
) -> Result<()> {
    let tools = &connection.settings.tools;
    match tools.check(tool, result) {
        Ok(()) => Ok(()),
        Err(_) => {
            learn_tools(connection).await?;
            tools.check(tool, result)
        }
    }
}

/// Lists the tools again, for what is to be remembered of them.
pub(super) async fn learn_tools(connection: &Arc<Connection>) -> Result<()> {
    connection.settings.cache.forget_list(Method::ListTools);
    tools(connection.clone()).try_for_each(|_| std::future::ready(Ok(()))).await
}
