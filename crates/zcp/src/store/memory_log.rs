//! One log of the store in memory.

use super::{Bound, StoreError, StoreResult};
use bytes::Bytes;
use std::collections::VecDeque;

/// The newest items of a log, and the position of the last.
pub(super) struct Log {
    pub(super) last: u64,
    items: VecDeque<Bytes>,
    /// The bytes of all items.
    bytes: usize,
}

impl Log {
    /// An empty log, whose first item comes after a position.
    pub(super) fn after_position(last: u64) -> Self {
        Self { last, items: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, value: Bytes, bound: Bound) -> u64 {
        self.last += 1;
        self.bytes += value.len();
        self.items.push_back(value);
        while (self.items.len() > bound.entries || self.bytes > bound.bytes)
            && let Some(oldest) = self.items.pop_front()
        {
            self.bytes -= oldest.len();
        }
        self.last
    }

    pub(super) fn after(&self, position: u64) -> StoreResult<Vec<(u64, Bytes)>> {
        let dropped = self.last - self.items.len() as u64;
        let held = dropped..=self.last;
        if position != 0 && !held.contains(&position) {
            return Err(StoreError::Gone);
        }
        let skip = position.saturating_sub(dropped) as usize;
        Ok((dropped + 1..).zip(self.items.iter().cloned()).skip(skip).collect())
    }
}
