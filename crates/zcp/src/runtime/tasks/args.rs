//! Arguments of tasks. Large ones have a key of their own, so that changing a record does not write
//! them again.

use super::{engine::Engine, record::Record};
use crate::store::{If, StoreError, StoreResult};
use bytes::Bytes;

/// Bytes of arguments that are kept in the record.
const INLINE: usize = 16 * 1024;
/// The maximum number of bytes of a task's arguments.
pub(super) const MAX_ARGS: usize = 256 * 1024;

impl Engine {
    /// Moves large arguments of a new task out of its record.
    ///
    /// # Errors
    /// If they are too large for a task, or the store is unavailable.
    pub(super) async fn put_args(&self, id: &str, record: &mut Record) -> StoreResult<()> {
        let Some(args) = record.args.take_if(|args| args.len() > INLINE) else { return Ok(()) };
        if args.len() > MAX_ARGS {
            let (bytes, limit) = (args.len(), MAX_ARGS);
            return Err(StoreError::TooLarge { what: "arguments of a task", bytes, limit });
        }
        record.args_apart = true;
        self.store.put(&key(id), args.into(), If::Absent, Some(record.left())).await.map(drop)
    }

    /// Puts arguments back into a record that is about to be run again. False if they are gone.
    pub(super) async fn load_args(&self, id: &str, record: &mut Record) -> StoreResult<bool> {
        if !record.args_apart {
            return Ok(true);
        }
        let held = self.store.get(&key(id)).await?;
        record.args = held.and_then(|held| String::from_utf8(held.value.to_vec()).ok());
        Ok(record.args.is_some())
    }

    /// Keeps arguments for as long as their record, which is kept for longer.
    pub(super) async fn keep_args(&self, id: &str, record: &Record) -> StoreResult<()> {
        if !record.args_apart {
            return Ok(());
        }
        let Some(held) = self.store.get(&key(id)).await? else { return Ok(()) };
        let (args, unchanged): (Bytes, _) = (held.value, If::Version(held.version));
        self.store.put(&key(id), args, unchanged, Some(record.left())).await.map(drop)
    }

    /// Removes arguments of a task that is over.
    pub(super) async fn remove_args(&self, id: &str) {
        if let Err(error) = self.store.remove(&key(id)).await {
            error.log("arguments of a task stay until they expire");
        }
    }
}

fn key(id: &str) -> String {
    ["args/", id].concat()
}
