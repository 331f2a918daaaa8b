//! How many bytes of messages may be under way in one process.

use crate::{
    auth::PeerAddress,
    runtime::{Runtime, ctx::Room},
    sync::lock,
};
use http::Extensions;
use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Mutex},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zcp_wire::{RpcError, json::count_values};

/// Bytes from which on a message counts while it is read and answered at once.
pub(crate) const LARGE: usize = 4 * 1024;
/// What a message counts for, beside its own bytes, that is not answered at once: what it needs
/// while it is under way.
pub(crate) const UNDER_WAY: usize = 16 * 1024;
/// Bytes of large messages under way in one process.
pub(crate) const ALL: usize = 512 * 1024 * 1024;
/// What is counted at a time.
const UNIT: usize = 1024;

/// Bytes of large messages under way in one conversation.
const OWN: usize = 32 * 1024 * 1024;

/// Bytes of large messages under way that come from one network.
pub(crate) const OF_ONE: usize = ALL / 4;
/// Networks that are counted before those without a message under way are forgotten.
const NETWORKS: usize = 1024;

/// The room for large messages of one runtime.
struct Rooms {
    all: Arc<Semaphore>,
    // A std mutex: never held across an await.
    networks: Mutex<HashMap<IpAddr, Arc<Semaphore>>>,
}

impl Default for Rooms {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL / UNIT)), networks: Mutex::default() }
    }
}

impl Rooms {
    /// The share of the network that a message comes from.
    fn share(&self, peer: Option<PeerAddress>) -> Option<Arc<Semaphore>> {
        let network = peer?.sharing()?;
        let mut networks = lock(&self.networks);
        if networks.len() >= NETWORKS {
            networks.retain(|_, share| share.available_permits() < OF_ONE / UNIT);
        }
        let share = networks.entry(network);
        Some(share.or_insert_with(|| Arc::new(Semaphore::new(OF_ONE / UNIT))).clone())
    }
}

/// The room for large messages of one conversation.
#[derive(Debug, Clone)]
pub(crate) struct Own(Arc<Semaphore>);

impl Default for Own {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(OWN / UNIT)))
    }
}

/// The room that one message takes, for as long as anything of it is there.
#[derive(Clone)]
pub(crate) struct Weight(Arc<Taken>);

/// Of the process, of the network, of the conversation.
type Taken = [Option<OwnedSemaphorePermit>; 3];

/// The maximum number of JSON values in one message.
const VALUES: usize = 250_000;
/// What a JSON value takes in memory at least, beside its text: handlers may keep arguments as values.
const VALUE: usize = 72;
/// Bytes of a message below which its values are not counted: all of them together take little.
const SHORT: usize = 1024;

/// What a message may take in memory. Refuses one that has too many values.
pub(crate) fn in_memory(text: &str) -> Result<usize, RpcError> {
    if text.len() < SHORT {
        return Ok(text.len());
    }
    let values = count_values(text.as_bytes(), VALUES).ok_or_else(|| {
        RpcError::invalid_params(format!("a message may have {VALUES} JSON values at most"))
    })?;
    Ok(text.len() + values * VALUE)
}

/// There is no room for a message now.
#[derive(Debug)]
pub(crate) struct NoRoom;

impl std::error::Error for NoRoom {}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::WHY)
    }
}

impl NoRoom {
    pub(crate) const WHY: &str = "too many large messages are under way: try again later";
}

/// The room that a message has taken so far, while it arrives.
#[derive(Default)]
pub(crate) struct Arrived {
    units: usize,
    taken: Taken,
}

impl Arrived {
    /// Takes the room of a message that has so many bytes by now, if that is large.
    pub(crate) fn grow(
        &mut self,
        bytes: usize,
        runtime: &Runtime,
        peer: Option<PeerAddress>,
        own: Option<&Own>,
    ) -> Result<(), NoRoom> {
        let units = bytes.div_ceil(UNIT);
        if bytes < LARGE || units <= self.units {
            return Ok(());
        }
        let more = u32::try_from(units - self.units).unwrap_or(u32::MAX);
        let room = runtime.shelf::<Rooms>();
        let rooms = [Some(room.all.clone()), room.share(peer), own.map(|own| own.0.clone())];
        for (room, taken) in rooms.into_iter().zip(&mut self.taken) {
            let Some(room) = room else { continue };
            let permit = room.try_acquire_many_owned(more).map_err(|_| NoRoom)?;
            match taken {
                Some(taken) => taken.merge(permit),
                None => *taken = Some(permit),
            }
        }
        self.units = units;
        Ok(())
    }
}

/// Takes the room of one message while it arrives: of the process, of the network it comes from,
/// and of the conversation it belongs to.
pub(crate) struct Scale<'a> {
    runtime: &'a Runtime,
    peer: Option<PeerAddress>,
    own: Option<&'a Own>,
    arrived: Arrived,
}

impl<'a> Scale<'a> {
    pub(crate) fn new(
        runtime: &'a Runtime,
        peer: Option<PeerAddress>,
        own: Option<&'a Own>,
    ) -> Self {
        Self { runtime, peer, own, arrived: Arrived::default() }
    }

    /// Takes the room of a message that has so many bytes by now, if that is large.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), NoRoom> {
        self.arrived.grow(bytes, self.runtime, self.peer, self.own)
    }

    /// What was taken; none for a small message.
    pub(crate) fn weight(self) -> Option<Weight> {
        (self.arrived.units > 0).then(|| Weight(Arc::new(self.arrived.taken)))
    }
}

impl Weight {
    /// Takes the room of a whole message, if it is large.
    pub(crate) fn of(
        bytes: usize,
        runtime: &Runtime,
        peer: Option<PeerAddress>,
        own: Option<&Own>,
    ) -> Result<Option<Self>, NoRoom> {
        if bytes < LARGE {
            return Ok(None);
        }
        let mut scale = Scale::new(runtime, peer, own);
        scale.grow(bytes)?;
        Ok(scale.weight())
    }

    /// Gives it to a call: its extensions are there until it has ended.
    pub(crate) fn give_to(self, extensions: &mut Extensions) {
        extensions.insert(Room(self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_under_way_are_limited_together() {
        let runtime = crate::Server::new("test").build().unwrap();
        let take = |bytes| Weight::of(bytes, &runtime, None, None);
        assert!(take(LARGE - 1).unwrap().is_none());
        let mut extensions = Extensions::new();
        let half = take(ALL / 2).unwrap().unwrap();
        half.clone().give_to(&mut extensions);
        drop(half);
        let _other = take(ALL / 2).unwrap();
        assert!(take(LARGE).is_err());
        drop(extensions);
        assert!(take(LARGE).is_ok());
    }

    #[test]
    fn one_network_has_a_share_of_the_room() {
        let runtime = crate::Server::new("test").build().unwrap();
        let from = |address: &str, bytes| {
            let peer = PeerAddress(address.parse().unwrap());
            Weight::of(bytes, &runtime, Some(peer), None)
        };
        let _held = from("192.0.2.1:1", OF_ONE).unwrap();
        assert!(from("192.0.2.1:2", LARGE).is_err());
        assert!(from("192.0.2.2:1", LARGE).is_ok());
    }
}
