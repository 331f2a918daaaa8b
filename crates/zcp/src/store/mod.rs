//! Where anything that outlives a request is kept: bytes by key, and logs by key.

pub(crate) mod counted_logs;
mod expiring;
pub mod memory;
mod memory_log;
pub(crate) mod noticed;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod wakes;
pub(crate) mod written;

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};

pub use memory::Memory;

/// The longest key that can be written, in bytes. Reading a longer one finds nothing.
pub const MAX_KEY: usize = 1024;

/// The largest value, and the largest entry of a log, that can be written, in bytes: 16 MiB.
pub const MAX_VALUE: usize = 16 * 1024 * 1024;

/// Six verbs. What is kept (sessions, replay, changes, used nonces) is one file each above this,
/// with a key prefix of its own. These comments are the contract; [`Memory`] is the model.
///
/// Everything is bounded in bytes: a key by [`MAX_KEY`], a value by [`MAX_VALUE`], a log by its
/// [`Bound`]. A write beyond one of them changes nothing and gives [`StoreError::TooLarge`]. The
/// number of keys is not bounded here: what is written by clients has an end (`ttl`), and whoever
/// writes it limits how much there is for each client.
pub trait Store: Send + Sync + 'static {
    /// The value of a key, if it has one that has not expired.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>>;

    /// Writes a value, and gives false when `condition` did not hold and nothing was written.
    /// Without a `ttl` the value stays until it is removed.
    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>>;

    /// Forgets a key: its value, and the log of that name.
    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>>;

    /// Adds to the end of a log and gives the position of what was added. The oldest entries are
    /// dropped until the log is within its bound, in entries and in bytes; an entry that has more
    /// bytes than the bound allows for all of them is refused with [`StoreError::TooLarge`].
    /// Positions are above 0 and only grow, even over a removal of the log. The whole log expires `ttl` after its last append;
    /// without one it stays until it is removed.
    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        bound: Bound,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>>;

    /// What a log holds after a position, oldest first; 0 asks for all of it.
    /// [`StoreError::Gone`] when something after that position has been dropped, or when the log
    /// never gave that position. An absent log is empty.
    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>>;

    /// Wakes when a log grew after this call, in this process or another. Several appends may be
    /// one wake, so read with [`Store::after`] until nothing is left.
    fn watch(&self, log: &str) -> BoxStream<'static, ()>;
}

/// What operators see of a store. Servers do not need it.
pub trait Browse: Store {
    /// The keys that have a value and begin with a prefix, in order.
    fn keys<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>>;
}

/// The most that a log holds: entries, and bytes of all entries together.
///
/// ```
/// use zcp::store::Bound;
///
/// let usual = Bound::entries(100);
/// assert_eq!(usual, Bound { entries: 100, bytes: 4 * 1024 * 1024 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// The maximum number of entries. With none, an append only moves the position on.
    pub entries: usize,
    /// The maximum number of bytes of all entries together.
    pub bytes: usize,
}

impl Bound {
    /// The bytes of a log for which no other limit is set: 4 MiB.
    pub const BYTES: usize = 4 * 1024 * 1024;

    /// A log of at most so many entries, and of [`Bound::BYTES`].
    #[must_use]
    pub const fn entries(entries: usize) -> Self {
        Self { entries, bytes: Self::BYTES }
    }
}

/// Whether a value may be put under a key.
fn check_value(key: &str, value: &[u8]) -> StoreResult<()> {
    within("key", key.len(), MAX_KEY)?;
    within("value", value.len(), MAX_VALUE)
}

/// Whether an entry may be added to a log.
fn check_entry(log: &str, value: &[u8], bound: Bound) -> StoreResult<()> {
    within("key", log.len(), MAX_KEY)?;
    within("entry", value.len(), bound.bytes.min(MAX_VALUE))
}

fn within(what: &'static str, bytes: usize, limit: usize) -> StoreResult<()> {
    if bytes > limit {
        return Err(StoreError::TooLarge { what, bytes, limit });
    }
    Ok(())
}

/// What a store's verb gives.
pub type StoreResult<T> = Result<T, StoreError>;

/// A value and the version it was read at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The bytes that were put.
    pub value: Bytes,
    /// Changes with every write and never comes back, not even after a removal.
    pub version: u64,
}

/// When a write may happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum If {
    /// Whatever is there.
    Always,
    /// Only if the key has no value.
    Absent,
    /// Only if the value is still the one read at this version.
    Version(u64),
}

/// Why a store could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The log no longer holds what came after the position.
    Gone,
    /// A key, a value or an entry of a log has more bytes than allowed. Trying again does not help.
    TooLarge {
        /// Which of them.
        what: &'static str,
        /// How many bytes it has.
        bytes: usize,
        /// How many it may have.
        limit: usize,
    },
    /// The store could not be reached, or could not answer.
    Unavailable(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the log no longer holds this position"),
            Self::TooLarge { what, bytes, limit } => {
                write!(f, "the {what} has {bytes} bytes, and the store's limit is {limit}")
            }
            Self::Unavailable(why) => write!(f, "the store is unavailable: {why}"),
        }
    }
}

impl std::error::Error for StoreError {}

impl StoreError {
    /// Logs what waits or fails because of it: at the debug level while the store is away, which has
    /// a line of its own when it goes away (`noticed`).
    pub(crate) fn log(&self, what: &str) {
        match self {
            Self::Unavailable(_) => tracing::debug!("{what}: {self}"),
            _ => tracing::warn!("{what}: {self}"),
        }
    }

    /// What clients are told. The reason is logged: it may name a file or an address.
    pub(crate) fn for_clients(&self) -> &'static str {
        self.log("a request cannot be answered");
        "the store is unavailable: try again later"
    }
}
