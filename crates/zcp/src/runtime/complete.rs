//! What an argument could be, while a person types it.

use super::error::Result;
use futures_util::future::BoxFuture;
use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, ready},
    sync::Arc,
};
use zcp_wire::mcp::completion::{Completion, MAX_VALUES};

/// What a person has typed so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Typed {
    /// The argument in question.
    pub argument: String,
    /// Of that argument.
    pub value: String,
    /// Of the other arguments.
    pub others: BTreeMap<String, String>,
}

/// Something that knows what an argument could be: a list of values, of which those that start
/// with what was typed are offered, or an async function of [`Typed`].
///
/// ```
/// use zcp::{Prompt, Typed};
///
/// async fn trip(/* … */) -> &'static str {
///     "Plan a trip."
/// }
/// async fn city(typed: Typed) -> Vec<String> {
///     let country = typed.others.get("country").map_or("", String::as_str);
///     if country == "fr" { vec!["Paris".into()] } else { vec![] }
/// }
/// # let _ = (trip, city);
/// ```
pub trait Completer: Send + Sync + 'static {
    /// The values to offer, best first.
    fn complete(&self, typed: Typed) -> BoxFuture<'static, Result<Vec<String>>>;

    /// The same, and whether there are more that are not told.
    fn complete_some(&self, typed: Typed) -> BoxFuture<'static, Result<(Vec<String>, bool)>> {
        let values = self.complete(typed);
        Box::pin(async move { Ok((values.await?, false)) })
    }
}

impl<F, Fut> Completer for F
where
    F: Fn(Typed) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Vec<String>> + Send + 'static,
{
    fn complete(&self, typed: Typed) -> BoxFuture<'static, Result<Vec<String>>> {
        let values = self(typed);
        Box::pin(async move { Ok(values.await) })
    }
}

impl<const N: usize> Completer for [&'static str; N] {
    fn complete(&self, typed: Typed) -> BoxFuture<'static, Result<Vec<String>>> {
        Box::pin(ready(Ok(starting_with(&typed, self.iter().copied()))))
    }
}

impl Completer for Vec<String> {
    fn complete(&self, typed: Typed) -> BoxFuture<'static, Result<Vec<String>>> {
        Box::pin(ready(Ok(starting_with(&typed, self.iter().map(String::as_str)))))
    }
}

/// The values that start with what was typed, in any case of letters.
fn starting_with<'a>(typed: &Typed, values: impl Iterator<Item = &'a str>) -> Vec<String> {
    let start = typed.value.to_lowercase();
    values.filter(|value| value.to_lowercase().starts_with(&start)).map(str::to_owned).collect()
}

/// The completers of one prompt or template, by argument.
#[derive(Clone, Default)]
pub(crate) struct Completers(BTreeMap<String, Arc<dyn Completer>>);

impl Completers {
    pub(crate) fn insert(&mut self, argument: impl Into<String>, completer: impl Completer) {
        self.0.insert(argument.into(), Arc::new(completer));
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who completes an argument.
    pub(crate) fn of(&self, argument: &str) -> Option<&Arc<dyn Completer>> {
        self.0.get(argument)
    }
}

/// At most 100 values; none for an argument nobody completes.
pub(crate) async fn complete(by: Option<&Arc<dyn Completer>>, typed: Typed) -> Result<Completion> {
    let Some(completer) = by else { return Ok(Completion::default()) };
    let (mut values, more) = completer.complete_some(typed).await?;
    let total = values.len();
    values.truncate(MAX_VALUES);
    // How many there are is not known where some are not told.
    let has_more = more || total > MAX_VALUES;
    Ok(Completion { values, total: (!more).then_some(total), has_more: Some(has_more) })
}

impl fmt::Debug for Completers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
