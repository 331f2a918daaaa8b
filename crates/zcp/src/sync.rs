//! Locks, and values that are held while a stream is there.

use futures_util::{Stream, StreamExt, stream::Inspect};

pub(crate) use zcp_wire::sync::lock;

/// The same stream, which drops `held` when it is dropped.
pub(crate) fn holding<S: Stream, T>(stream: S, held: T) -> Inspect<S, impl FnMut(&S::Item)> {
    stream.inspect(move |_| {
        let _ = &held;
    })
}
