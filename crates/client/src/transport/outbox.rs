//! Texts that wait to be written to a line, limited in number and in bytes.

use bytes::Bytes;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc};
use zcp_wire::{ByteString, Id};

/// Bytes that may wait. A longer text waits until it is alone.
const MOST_BYTES: usize = 16 * 1024 * 1024;
/// Texts that may wait.
pub(super) const MOST: usize = 256;

/// Where texts are put that are to be written. When it is full, each text waits in turn until there
/// is room, and nothing else is affected.
#[derive(Clone)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Unwritten>,
    /// In bytes. Closed when the line is dead.
    room: Arc<Semaphore>,
}

/// A text that waits to be written, and its room in the outbox.
pub(crate) struct Unwritten {
    text: ByteString,
    /// The request that it is.
    request: Option<Id>,
    _room: OwnedSemaphorePermit,
}

impl Unwritten {
    /// The text. Its room is free from now on.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.text.into_bytes()
    }

    /// A copy of the text, which keeps its room.
    pub(crate) fn text(&self) -> ByteString {
        self.text.clone()
    }

    /// The id, if the text is a request.
    pub(crate) fn request(&self) -> Option<&Id> {
        self.request.as_ref()
    }
}

impl Outbox {
    /// An outbox, and what is put into it.
    pub(super) fn new() -> (Self, mpsc::Receiver<Unwritten>) {
        let (sender, unwritten) = mpsc::channel(MOST);
        (Self { sender, room: Arc::new(Semaphore::new(MOST_BYTES)) }, unwritten)
    }

    /// Puts a text into it, which may be a request; gives the text back if there is no room now. A
    /// dead line takes everything.
    pub(super) fn put(&self, text: ByteString, request: Option<&Id>) -> Result<(), ByteString> {
        match self.room.clone().try_acquire_many_owned(room_of(&text)) {
            Ok(room) => self.hand_over(text, request, room),
            Err(TryAcquireError::Closed) => (),
            Err(TryAcquireError::NoPermits) => return Err(text),
        }
        Ok(())
    }

    /// Puts a text into it once there is room; false if the line dies first.
    pub(super) async fn put_in_turn(self, text: ByteString, request: Option<&Id>) -> bool {
        let room = self.room.clone().acquire_many_owned(room_of(&text)).await;
        room.map(|room| self.hand_over(text, request, room)).is_ok()
    }

    fn hand_over(&self, text: ByteString, request: Option<&Id>, room: OwnedSemaphorePermit) {
        let request = request.cloned();
        // There is a place for every text that has room. Nobody takes it when the line is dead.
        let _ = self.sender.try_send(Unwritten { text, request, _room: room });
    }

    /// The line is dead: nobody needs to wait any longer.
    pub(super) fn close(&self) {
        self.room.close();
    }
}

/// How much room a text takes. Short ones take a share that limits their number.
fn room_of(text: &ByteString) -> u32 {
    let room = text.len().clamp(MOST_BYTES / MOST, MOST_BYTES);
    u32::try_from(room).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn text(length: usize) -> ByteString {
        "x".repeat(length).into()
    }

    #[tokio::test]
    async fn it_is_limited_in_number_and_in_bytes() {
        for (length, most) in [(10, MOST), (MOST_BYTES / 2 - 1, 2), (2 * MOST_BYTES, 1)] {
            let (outbox, mut unwritten) = Outbox::new();
            let fits = (0..=MOST).take_while(|_| outbox.put(text(length), None).is_ok()).count();
            assert_eq!(fits, most, "{length}");
            let mut next = Box::pin(outbox.clone().put_in_turn(text(length), None));
            assert!((&mut next).now_or_never().is_none());
            assert_eq!(unwritten.recv().await.unwrap().into_bytes().len(), length);
            assert!(next.await);
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_a_dead_line() {
        let (outbox, _unwritten) = Outbox::new();
        outbox.put(text(MOST_BYTES), None).unwrap();
        let waiting = outbox.clone().put_in_turn(text(1), None);
        outbox.close();
        assert!(!waiting.await);
        assert!(outbox.put(text(1), None).is_ok());
    }
}
