//! What was written to a WebSocket, as far as the server has not confirmed that it has it.
//!
//! A server reads a connection's messages in order. The answer to a request, or its progress, confirms
//! it and all before it; so does the pong to a ping that was written after them.

use crate::transport::outbox::Unwritten;
use std::collections::VecDeque;
use zcp_wire::Id;

/// What was written and is not confirmed, oldest first.
#[derive(Default)]
pub(super) struct Unconfirmed {
    /// How many messages were written.
    count: u64,
    written: VecDeque<(u64, Written)>,
}

enum Written {
    /// It is known by its id. Nobody may send it again without knowing what it does.
    Request(Id),
    /// An answer or a notification: twice is the same as once. It keeps its room in the outbox.
    Other { text: Unwritten, is_second: bool },
}

/// What became uncertain when a connection was lost.
#[derive(Default)]
pub(super) struct Uncertain {
    pub(super) requests: Vec<Id>,
    /// To be written once more.
    pub(super) others: Vec<Unwritten>,
}

impl Unconfirmed {
    /// Notes what is about to be written.
    pub(super) fn push(&mut self, text: Unwritten, is_second: bool) {
        self.count += 1;
        let written = match text.request() {
            Some(id) => Written::Request(id.clone()),
            None => Written::Other { text, is_second },
        };
        self.written.push_back((self.count, written));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// What a ping carries, so that its pong confirms all that was written before it.
    pub(super) fn mark(&self) -> [u8; 8] {
        self.count.to_be_bytes()
    }

    /// A pong came.
    pub(super) fn confirm(&mut self, mark: &[u8]) {
        let Ok(mark) = mark.try_into().map(u64::from_be_bytes) else { return };
        while self.written.front().is_some_and(|(number, _)| *number <= mark) {
            self.written.pop_front();
        }
    }

    /// The server has said something about a request.
    pub(super) fn reached(&mut self, id: &Id) {
        let is_it =
            |(_, written): &(_, Written)| matches!(written, Written::Request(it) if it == id);
        if let Some(at) = self.written.iter().position(is_it) {
            self.written.drain(..=at);
        }
    }

    /// Takes what is uncertain, because the connection was lost. What was written a second time is
    /// not written a third time: it may be why.
    pub(super) fn take(&mut self) -> Uncertain {
        let mut uncertain = Uncertain::default();
        for (_, written) in self.written.drain(..) {
            match written {
                Written::Request(id) => uncertain.requests.push(id),
                Written::Other { text, is_second: false } => uncertain.others.push(text),
                Written::Other { is_second: true, .. } => (),
            }
        }
        uncertain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::outbox::Outbox;

    #[test]
    fn answers_and_pongs_confirm_what_was_written_before_them() {
        let (outbox, mut unwritten) = Outbox::new();
        let mut write = |unconfirmed: &mut Unconfirmed, request: Option<i64>| {
            let id = request.map(Id::number);
            outbox.put("{}".into(), id.as_ref()).unwrap();
            unconfirmed.push(unwritten.try_recv().unwrap(), false);
        };
        let mut unconfirmed = Unconfirmed::default();
        for one in [Some(1), None, Some(2), None] {
            write(&mut unconfirmed, one);
        }
        let mark = unconfirmed.mark();
        write(&mut unconfirmed, Some(3));
        write(&mut unconfirmed, None);
        unconfirmed.reached(&Id::number(2));
        assert_eq!(unconfirmed.written.len(), 3);
        unconfirmed.confirm(&mark);
        unconfirmed.confirm(b"other");
        let mut uncertain = unconfirmed.take();
        assert_eq!(uncertain.requests, [Id::number(3)]);
        unconfirmed.push(uncertain.others.pop().unwrap(), true);
        assert!(uncertain.others.is_empty() && unconfirmed.take().others.is_empty());
        assert!(unconfirmed.is_empty());
    }
}
