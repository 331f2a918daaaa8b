//! Requests this side made and still waits for, by id.

use crate::{Id, Response, ResultText, RpcError, sync::lock};
use futures_channel::oneshot;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

/// What a response carries: JSON text of the result, or why there is none.
pub type Reply = Result<ResultText, RpcError>;

/// The table of open requests.
#[derive(Debug, Default)]
pub struct Pending {
    prefix: Option<Arc<str>>,
    // A std mutex: never held across an await.
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    opened: i64,
    by_id: BTreeMap<Id, oneshot::Sender<Reply>>,
    /// Nobody is there to answer any more.
    abandoned: bool,
}

impl Pending {
    /// A table whose ids no other table has: `prefix-1` and so on, instead of 1 and so on.
    pub fn named(prefix: Arc<str>) -> Self {
        Self { prefix: Some(prefix), ..Self::default() }
    }

    /// Opens a request: its id, and where its answer will come.
    pub fn open(&self) -> (Id, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.opened += 1;
        let id = match &self.prefix {
            None => Id::number(waiting.opened),
            Some(prefix) => Id::text(&format!("{prefix}-{}", waiting.opened)),
        };
        if !waiting.abandoned {
            waiting.by_id.insert(id.clone(), sender);
        }
        // Whoever stopped waiting is swept here, so that the table cannot grow for ever.
        if waiting.by_id.len() > 1024 {
            waiting.by_id.retain(|_, sender| !sender.is_canceled());
        }
        (id, receiver)
    }

    /// Whether an id is one that this table gave out, by its prefix.
    pub fn is_own(&self, id: &Id) -> bool {
        let own = |prefix: &Arc<str>| {
            let rest = id.as_json().strip_prefix('"').and_then(|text| text.strip_prefix(&**prefix));
            rest.is_some_and(|rest| rest.starts_with('-'))
        };
        self.prefix.as_ref().is_some_and(own)
    }

    /// Gives up on every request, open and to come: nobody is there to answer any more.
    pub fn abandon(&self) {
        let mut waiting = self.lock();
        waiting.abandoned = true;
        waiting.by_id.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        lock(&self.waiting)
    }

    /// Hands a response to whoever waits for it, or gives it back when nobody does.
    pub fn close(&self, response: Response) -> Option<Response> {
        let id = response.id.as_ref()?;
        let waiting = self.lock().by_id.remove(id);
        let Some(sender) = waiting else { return Some(response) };
        // Whoever waited may have stopped meanwhile, and then nobody misses the answer.
        let _ = sender.send(response.result);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_knows_the_ids_it_gave_out() {
        let (one, other) = (Pending::named("a".into()), Pending::named("ab".into()));
        let (id, _) = one.open();
        assert!(one.is_own(&id) && !other.is_own(&id));
        assert!(!one.is_own(&other.open().0) && !one.is_own(&Id::number(1)));
    }
}
