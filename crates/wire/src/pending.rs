//! Requests this side made and still waits for, by id.

use crate::{Id, Response, RpcError};
use bytestring::ByteString;
use futures_channel::oneshot;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// What a response carries: JSON text of the result, or why there is none.
pub type Reply = Result<ByteString, RpcError>;

/// The table of open requests. Ids count up from 1.
#[derive(Debug, Default)]
pub struct Pending {
    // A std mutex: never held across an await.
    waiting: Mutex<(i64, HashMap<Id, oneshot::Sender<Reply>>)>,
}

impl Pending {
    /// Opens a request: its id, and where its answer will come.
    pub fn open(&self) -> (Id, oneshot::Receiver<Reply>) {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.0 += 1;
        let id = Id::number(waiting.0);
        waiting.1.insert(id.clone(), sender);
        // Whoever stopped waiting is swept here, so that the table cannot grow for ever.
        if waiting.1.len() > 1024 {
            waiting.1.retain(|_, sender| !sender.is_canceled());
        }
        (id, receiver)
    }

    /// Hands a response to whoever waits for it; false when nobody does.
    pub fn close(&self, response: Response) -> bool {
        let Some(id) = response.id else { return false };
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&id);
        waiting.is_some_and(|sender| sender.send(response.result).is_ok())
    }
}
