//! A gate in front of every tool: it sees each call with its arguments, and decides whether it is made.
//!
//! A gate stands between the catalog and the handlers, whoever offers them: the server's own
//! functions and all providers. So it also sees the runs of tasks, and calls that a server goes on
//! with after another one died. Layers see operations of every kind; a gate sees calls of tools, as
//! their handlers will get them.

use super::{
    catalog::Catalog,
    ctx::{About, Ctx, Reporter},
    error::{CallError, Result},
    input::Input,
    output::Output,
    ready_tool::ReadyTool,
};
use crate::sync::lock;
use futures_util::future::BoxFuture;
use http::Extensions;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};
use tokio::sync::watch;
use zcp_wire::mcp::{InputRequest, logging::Level, tools::Tool as Listed};

/// Decides about calls of tools. [`Server::gate`](crate::Server::gate) puts it in front of all of a
/// server's tools, [`Catalog::behind`] in front of those of one catalog.
pub trait Gate: Send + Sync + 'static {
    /// Returns whether anybody could ever call a tool. Other tools are not listed. A call of one
    /// still reaches [`call`](Self::call), which can log it and say why it is refused; with
    /// [`CallError::NotFound`] the caller is told that there is no such tool.
    fn offers(&self, tool: &Listed) -> bool;

    /// Makes a call with [`GatedCall::run`], or refuses it with an error.
    fn call(self: Arc<Self>, call: GatedCall) -> BoxFuture<'static, Result<Output>>;

    /// Changes whenever [`offers`](Self::offers) may answer otherwise.
    fn changes(&self) -> watch::Receiver<u64>;
}

/// A call of a tool that stands before a [`Gate`].
pub struct GatedCall {
    tool: Arc<ReadyTool>,
    input: Input,
    notes: Notes,
}

impl GatedCall {
    /// Returns the tool as clients see it.
    pub fn tool(&self) -> &Listed {
        &self.tool.info
    }

    /// Returns the context of the call.
    pub fn ctx(&self) -> &Ctx {
        &self.input.ctx
    }

    /// Returns the arguments as the handler will get them, with defaults filled in, and whether
    /// they are valid. An error if they cannot be read at all: a gate and a handler that do not read
    /// the same must not both go on, so a name that is given twice is an error, too.
    pub fn arguments(&self) -> Result<(Map<String, Value>, Result<()>)> {
        let bad = |why: &dyn fmt::Display| CallError::Invalid(format!("bad arguments: {why}"));
        let unique = serde_json::from_str::<Unique>(self.input.args_json());
        let Unique(Value::Object(args)) = unique.map_err(|error| bad(&error))? else {
            return Err(bad(&"they must be an object"));
        };
        Ok(self.tool.prepared(args))
    }

    /// Returns what the handler noted so far with [`Ctx::note`].
    pub fn notes(&self) -> Notes {
        self.notes.clone()
    }

    /// Returns how many gates the call has passed before this one: the outermost has 0. Gates that
    /// keep or ask something tell their keys apart by it.
    pub fn depth(&self) -> usize {
        self.notes.get::<Passed>().map_or(0, |passed| passed.0)
    }

    /// Makes the call.
    pub async fn run(self) -> Result<Output> {
        let passed = Passed(self.depth() + 1);
        let Self { tool, mut input, notes } = self;
        notes.insert(passed);
        // Behind a second gate, both hear the same notes.
        if input.ctx.notes().is_none() {
            let reporter = input.ctx.reporter().clone();
            input.ctx = Ctx::new(Arc::new(Noting { reporter, notes }));
        }
        let output = tool.begin(input)?.await?;
        tool.check(&output)?;
        Ok(output)
    }
}

impl fmt::Debug for GatedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedCall").field("tool", &self.tool.info.name).finish_non_exhaustive()
    }
}

/// The gates that a call has passed.
#[derive(Clone, Copy)]
struct Passed(usize);

/// What a handler tells the gate before it, one value of a type: how a process ended, say.
#[derive(Clone, Default)]
pub struct Notes(Arc<Mutex<Extensions>>);

impl Notes {
    /// Returns the last value of a type.
    pub fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        lock(&self.0).get().cloned()
    }

    pub(super) fn insert<T: Clone + Send + Sync + 'static>(&self, value: T) {
        lock(&self.0).insert(value);
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").finish_non_exhaustive()
    }
}

impl Catalog {
    /// Returns a catalog whose tools are behind a gate. Those that it does not offer are not listed.
    #[must_use]
    pub fn behind(&self, gate: &Arc<dyn Gate>) -> Self {
        let mut all = self.clone();
        let (offered, refused): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.tools.into_iter().partition(|(_, tool)| gate.offers(&tool.info));
        all.tools = offered;
        all.refused_tools.extend(refused);
        let both = all.tools.values_mut().chain(all.refused_tools.values_mut());
        both.for_each(|tool| *tool = Arc::new(gated(tool, gate)));
        all.tools_by_name.clear();
        all.index(all.tools.keys().cloned().collect::<Vec<_>>());
        all
    }
}

/// A tool behind a gate. Its arguments are checked behind it, so that the gate hears of mistakes.
fn gated(tool: &Arc<ReadyTool>, gate: &Arc<dyn Gate>) -> ReadyTool {
    let (inner, gate) = (tool.clone(), gate.clone());
    tool.run_by(move |input| {
        let notes = input.ctx.notes().cloned().unwrap_or_default();
        gate.clone().call(GatedCall { tool: inner.clone(), input, notes })
    })
}

/// The reporter of a call whose handler notes things for a gate.
struct Noting {
    reporter: Arc<dyn Reporter>,
    notes: Notes,
}

impl Reporter for Noting {
    fn about(&self) -> &About {
        self.reporter.about()
    }

    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.reporter.progress(done, total, message);
    }

    fn log(&self, level: Level, logger: Option<&str>, data: Value) {
        self.reporter.log(level, logger, data);
    }

    fn ask(&self, key: &str, question: InputRequest) -> BoxFuture<'_, Result<Value>> {
        self.reporter.ask(key, question)
    }

    fn kept(&self, key: &str) -> Option<Value> {
        self.reporter.kept(key)
    }

    fn all_kept(&self) -> Map<String, Value> {
        self.reporter.all_kept()
    }

    fn keep(&self, key: &str, value: Value) -> BoxFuture<'_, ()> {
        self.reporter.keep(key, value)
    }

    fn notes(&self) -> Option<&Notes> {
        Some(&self.notes)
    }
}

/// A value in which no object has a name twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        value.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = vec![];
        while let Some(Unique(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, Unique(value))) = members.next_entry::<String, Unique>()? {
            if all.insert(name.clone(), value).is_some() {
                return Err(A::Error::custom(format!("`{name}` is given twice")));
            }
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_twice_is_an_error_at_every_depth() {
        let read = |text: &str| serde_json::from_str::<Unique>(text).map(|one| one.0);
        let whole = r#"{"a":[1,-2,0.5,"x",true,null,{"a":{}}]}"#;
        assert_eq!(read(whole).expect("it is right").to_string(), whole);
        for wrong in [r#"{"a":1,"a":2}"#, r#"{"a":[{"b":1,"b":1}]}"#, r#"{"a":1,"\u0061":2}"#] {
            assert!(read(wrong).expect_err(wrong).to_string().contains("is given twice"));
        }
    }
}
