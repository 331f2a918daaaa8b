//! Which addresses are everybody's: a stranger's words lead to no others.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The blocks of IPv4 that are for special ends, with how many of their bits count.
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Whether an address is everybody's, and not of this machine or network.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let within =
        |(block, bits): &(Ipv4Addr, u32)| (address.to_bits() ^ block.to_bits()) >> (32 - bits) == 0;
    !SPECIAL_V4.iter().any(within)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    if let Some(inside) = address.to_ipv4_mapped() {
        return is_public_v4(inside);
    }
    // An IPv4 address behind a translator.
    if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        let [a, b] = parts[6].to_be_bytes();
        let [c, d] = parts[7].to_be_bytes();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    // Only 2000::/3 is given out, and some of it for special ends.
    let is_given_out = parts[0] & 0xe000 == 0x2000;
    let is_special = matches!((parts[0], parts[1]), (0x2001, ..0x0200 | 0x0db8) | (0x2002, _));
    is_given_out && !is_special && parts[0] != 0x3fff
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn addresses_of_this_network_are_known() {
        for public in [
            "8.8.8.8",
            "1.1.1.1",
            "172.32.0.1",
            "100.128.0.1",
            "2606:4700::1111",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
        ] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for near in [
            "0.0.0.0",
            "0.1.2.3",
            "10.1.2.3",
            "127.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "192.0.0.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(near.parse().unwrap()), "{near}");
        }
    }
}
