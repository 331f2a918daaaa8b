//! Where a message comes from.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The address a message's connection comes from: a client's, or that of the proxy in front of the
/// server, unless a layer of the transport replaces it.
///
/// [`Http`](crate::Http) puts it into the extensions of requests for its layers, and for those of
/// the server. There is none on a Unix socket. On a server without layers it may be missing for
/// handlers of requests to `/mcp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAddress(pub SocketAddr);

impl PeerAddress {
    /// The network that shares are counted for. This machine's own addresses may be a proxy's, behind
    /// which there are many, and have none.
    pub(crate) fn sharing(self) -> Option<IpAddr> {
        Some(network(self.0.ip())).filter(|network| !network.is_loopback())
    }
}

/// Who is meant by an address. A site has a whole /64 of IPv6.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        other => other,
    }
}
