//! Where a project's addresses may lead: to hosts that somebody allowed, and to none of this
//! machine or network unless that one is allowed by its number.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use tokio::{net::lookup_host, time::timeout};
use url::{Host, Url};
use zcp::{CallError, Result, wire::address::is_public};

/// How long it may take to find where a name leads.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which hosts may be reached.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosts {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    /// Every public host.
    pub(crate) all: bool,
}

/// An address that may be gone to.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) url: Url,
    /// The host's name, or its number as it is written in addresses.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Where the name leads, each looked at.
    pub(crate) addresses: Vec<SocketAddr>,
    /// It was allowed by its name, and not only because everything is.
    pub(crate) is_listed: bool,
}

impl Hosts {
    /// Whether anything can be reached.
    pub(crate) fn any(&self) -> bool {
        self.all || !self.allow.is_empty()
    }

    /// Finds the way to an address, once: whoever goes there goes to what was looked at. `setting`
    /// is where hosts are allowed.
    pub(crate) async fn way(&self, text: &str, setting: &str) -> Result<Way> {
        let invalid = |why: &str| CallError::Invalid(format!("`{}` {why}", without_user(text)));
        let mut url = Url::parse(text).map_err(|_| invalid("is no address"))?;
        if url.scheme() != "https" {
            return Err(invalid("is not https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("names a user: leave that out"));
        }
        let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_owned();
        let port = url.port_or_known_default().unwrap_or(443);
        if host.is_empty() {
            return Err(invalid("names no host"));
        }
        // One name for one host: what is looked at is what is gone to.
        url.set_host(Some(&host)).map_err(|_| invalid("names no host"))?;
        let entry = self.allow.iter().find(|entry| matches(entry, &host, port));
        let is_denied = self.deny.iter().any(|entry| matches(entry, &host, port));
        if is_denied || (entry.is_none() && !self.all) {
            return Err(CallError::new(format!(
                "`{host}` may not be reached: it is not among the hosts of `{setting}`"
            )));
        }
        // A number, or this machine by its name, is said by somebody who means it.
        let is_near = entry.is_some_and(|entry| is_number_or_here(entry));
        let addresses = match url.host() {
            Some(Host::Ipv4(address)) => vec![SocketAddr::new(address.into(), port)],
            Some(Host::Ipv6(address)) => vec![SocketAddr::new(address.into(), port)],
            _ => {
                let found = timeout(PATIENCE, lookup_host((host.as_str(), port))).await;
                let found = found.ok().and_then(std::io::Result::ok);
                found.map(Iterator::collect).unwrap_or_default()
            }
        };
        if addresses.is_empty() {
            return Err(CallError::new(format!("`{host}` leads nowhere")));
        }
        if !is_near && let Some(near) = addresses.iter().find(|one| !is_public(one.ip())) {
            return Err(CallError::new(format!(
                "`{host}` leads to {}, which is of this machine or network: name it in `{setting}` by its number to allow it",
                near.ip()
            )));
        }
        Ok(Way { url, host, port, addresses, is_listed: entry.is_some() })
    }
}

/// An address as it may be shown: without who goes there.
fn without_user(text: &str) -> String {
    match text.split_once("://").and_then(|(scheme, rest)| {
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        Some((scheme, authority.rsplit_once('@')?.1, path))
    }) {
        Some((scheme, host, path)) => format!("{scheme}://{host}{path}"),
        None => text.to_owned(),
    }
}

/// Whether an entry such as `example.com`, `*.example.com` or `127.0.0.1:8443` names a host.
pub(crate) fn matches(entry: &str, host: &str, port: u16) -> bool {
    let (name, only) = parts(entry);
    if only.is_some_and(|only| only != port) {
        return false;
    }
    let (name, host) = (name.to_ascii_lowercase(), host.to_ascii_lowercase());
    match name.strip_prefix("*.") {
        Some(parent) => {
            let before = host.strip_suffix(parent).and_then(|rest| rest.strip_suffix('.'));
            before.is_some_and(|before| !before.is_empty())
        }
        None => unbracketed(&name) == unbracketed(&host),
    }
}

/// An entry's name, and its port if it has one.
fn parts(entry: &str) -> (&str, Option<u16>) {
    let entry = entry.trim().trim_end_matches('.');
    // Of `::1` and the like the end is no port.
    let is_v6 = entry.parse::<Ipv6Addr>().is_ok();
    match entry.rsplit_once(':').filter(|_| !is_v6) {
        Some((name, port)) => port.parse().map_or((entry, None), |port| (name, Some(port))),
        None => (entry, None),
    }
}

fn unbracketed(name: &str) -> &str {
    name.trim_start_matches('[').trim_end_matches(']')
}

fn is_number_or_here(entry: &str) -> bool {
    let name = unbracketed(parts(entry).0);
    name.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_with_ports_and_stars() {
        assert!(matches("example.com", "Example.com", 443));
        assert!(matches("example.com:8443", "example.com", 8443));
        assert!(!matches("example.com:8443", "example.com", 443));
        assert!(!matches("example.com", "www.example.com", 443));
        assert!(!matches("example.com", "badexample.com", 443));
        assert!(matches("*.example.com", "a.b.example.com", 443));
        assert!(!matches("*.example.com", "example.com", 443));
        assert!(!matches("*.example.com", "badexample.com", 443));
        assert!(matches("::1", "[::1]", 443));
        assert!(matches("[::1]:9", "[::1]", 9));
        assert!(!matches("[::1]:9", "[::1]", 10));
        assert!(is_number_or_here("127.0.0.1:8443") && is_number_or_here("localhost"));
        assert!(!is_number_or_here("example.com") && !is_number_or_here("*.localhost"));
    }

    #[tokio::test]
    async fn what_is_not_allowed_is_not_reached() {
        let hosts = |allow: &[&str], all| Hosts {
            allow: allow.iter().map(|&entry| entry.to_owned()).collect(),
            deny: vec!["9.9.9.9".to_owned()],
            all,
        };
        let why = async |hosts: &Hosts, url: &str| {
            hosts
                .way(url, "providers.https.allow")
                .await
                .map(|way| way.host)
                .map_err(|error| error.to_string())
        };
        let some = hosts(&["8.8.8.8", "127.0.0.1:7"], false);
        assert_eq!(why(&some, "https://8.8.8.8/x").await, Ok("8.8.8.8".to_owned()));
        assert!(why(&some, "https://127.0.0.1:7/x").await.is_ok());
        // However a number is written, it is the same one.
        for near in ["https://127.0.0.1:8", "https://127.1", "https://0x7f000001", "https://[::1]"]
        {
            assert!(why(&some, near).await.unwrap_err().contains("may not be reached"), "{near}");
        }
        let all = hosts(&["localhost.example"], true);
        assert!(why(&all, "https://1.1.1.1").await.is_ok());
        assert!(why(&all, "https://9.9.9.9").await.unwrap_err().contains("may not be reached"));
        for near in [
            "https://127.0.0.1",
            "https://localhost",
            "https://2130706433",
            "https://[::ffff:10.0.0.1]",
        ] {
            assert!(why(&all, near).await.unwrap_err().contains("of this machine"), "{near}");
        }
        assert!(why(&hosts(&["localhost"], false), "https://localhost").await.is_ok());
        let user = why(&all, "https://me:secret@1.1.1.1/x").await.unwrap_err();
        assert!(user.contains("names a user") && !user.contains("secret"), "{user}");
        assert!(why(&all, "http://1.1.1.1").await.unwrap_err().contains("not https"));
    }
}
