//! A lock that ignores poisoning, and values that are held while a stream is there.

use futures_util::{Stream, StreamExt, stream::Inspect};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic of whoever held it before does not matter: nothing is left half done under
/// these locks.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The same stream, which drops `held` when it is dropped.
pub(crate) fn holding<S: Stream, T>(stream: S, held: T) -> Inspect<S, impl FnMut(&S::Item)> {
    stream.inspect(move |_| {
        let _ = &held;
    })
}
