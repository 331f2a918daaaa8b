//! How many connections there may be, and how many of them one peer may have.

use super::Limits;
use crate::{auth::network, sync::lock};
use std::{
    collections::HashMap,
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One peer may have an eighth of all connections, unless the limit was set.
const SHARE: usize = 8;
/// The last sixteenth of all connections is reserved for peers with few of them.
const RESERVED: usize = 16;
/// How many connections are few.
const FEW: usize = 8;

/// The places there are.
pub(super) struct Slots {
    free: Arc<Semaphore>,
    peers: Arc<Peers>,
    reserved: usize,
    share: usize,
    /// Whether peers on this machine have a share, too: one of them may be a proxy.
    limits_loopback: bool,
}

/// How many connections each peer has.
#[derive(Default)]
struct Peers {
    // A std mutex: never held across an await.
    counts: Mutex<HashMap<IpAddr, usize>>,
    refused: AtomicUsize,
}

impl Peers {
    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        lock(&self.counts)
    }
}

/// A place that is taken, until this is dropped.
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
    peer: Option<IpAddr>,
    peers: Arc<Peers>,
}

impl Slots {
    /// Places for as many connections as the limits and the system allow.
    pub(super) fn new(limits: &Limits, possible: usize) -> Self {
        let all = limits.connections.min(possible).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(all)),
            peers: Arc::default(),
            reserved: all / RESERVED,
            share: limits.per_address.unwrap_or(all / SHARE).clamp(1, all),
            limits_loopback: limits.per_address.is_some(),
        }
    }

    /// Waits for a place that anybody may have.
    pub(super) async fn free(&self) -> io::Result<OwnedSemaphorePermit> {
        self.free.clone().acquire_owned().await.map_err(io::Error::other)
    }

    /// Gives a place to a peer, unless it has its share.
    pub(super) fn admit(
        &self,
        permit: OwnedSemaphorePermit,
        address: Option<SocketAddr>,
    ) -> Option<Slot> {
        let peer = address.map(|address| network(address.ip()));
        if let Some(peer) = peer {
            let mut counts = self.peers.lock();
            let count = counts.entry(peer).or_default();
            let scarce = self.free.available_permits() < self.reserved;
            let limited = self.limits_loopback || !peer.is_loopback();
            if limited && *count >= self.share || scarce && *count >= FEW {
                self.peers.refused.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            *count += 1;
        }
        Some(Slot { _permit: permit, peer, peers: self.peers.clone() })
    }

    /// Logs how many connections were refused since the last time.
    pub(super) fn report(&self) {
        let refused = self.peers.refused.swap(0, Ordering::Relaxed);
        if refused > 0 {
            tracing::warn!(
                "{refused} connections were refused: their peers have too many; one address may \
                 have {} (`Http::max_connections_per_address`)",
                self.share
            );
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Some(peer) = self.peer else { return };
        let mut counts = self.peers.lock();
        if let Some(count) = counts.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&peer);
            }
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.peer).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(slots: &Slots, address: &str) -> Option<Slot> {
        let permit = slots.free.clone().try_acquire_owned().expect("there is a place");
        slots.admit(permit, Some(SocketAddr::new(address.parse().unwrap(), 1)))
    }

    #[test]
    fn a_peer_has_its_share_and_new_peers_a_reserve() {
        let slots = Slots::new(&Limits { connections: 320, ..Limits::default() }, usize::MAX);
        let mut held = vec![];
        for number in 0..8 {
            let address = format!("192.0.2.{number}");
            while let Some(slot) = admit(&slots, &address) {
                held.push(slot);
            }
        }
        // Seven have a share of 40 each, and the eighth what is left before the reserve.
        assert_eq!(held.len(), 320 - 20);
        let newcomers: Vec<_> = (0..12).filter_map(|_| admit(&slots, "198.51.100.1")).collect();
        assert_eq!(newcomers.len(), FEW);
        drop((held, newcomers));
        assert!(slots.peers.lock().is_empty());
        assert_eq!(slots.free.available_permits(), 320);
    }

    #[test]
    fn one_network_of_ipv6_is_one_peer() {
        let limits = Limits { connections: 320, per_address: Some(2), ..Limits::default() };
        let slots = Slots::new(&limits, usize::MAX);
        let mut held = vec![admit(&slots, "2001:db8::1"), admit(&slots, "2001:db8::2")];
        assert!(held.iter().all(Option::is_some));
        assert!(admit(&slots, "2001:db8::3").is_none());
        held.push(admit(&slots, "2001:db8:0:1::1"));
        held.push(admit(&slots, "::ffff:192.0.2.1"));
        held.push(admit(&slots, "192.0.2.1"));
        assert!(held.iter().all(Option::is_some));
        assert!(admit(&slots, "192.0.2.1").is_none());
    }

    #[test]
    fn this_machine_has_a_share_only_if_it_is_set() {
        let slots = Slots::new(&Limits { connections: 160, ..Limits::default() }, usize::MAX);
        let held: Vec<_> = (0..150).map_while(|_| admit(&slots, "127.0.0.1")).collect();
        assert_eq!(held.len(), 150);
        let limits = Limits { connections: 160, per_address: Some(3), ..Limits::default() };
        let slots = Slots::new(&limits, usize::MAX);
        let held: Vec<_> = (0..150).map_while(|_| admit(&slots, "127.0.0.1")).collect();
        assert_eq!(held.len(), 3);
    }
}
