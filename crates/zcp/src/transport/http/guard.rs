//! Who may knock: Host and Origin, against pages that rebind names to this machine.

use super::refusal;
use ::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::Response;
use std::{borrow::Cow, net::SocketAddr};

/// Which hosts and origins are answered.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// Hosts, without ports.
    pub(super) hosts: Vec<String>,
    /// Origins as they come, or hosts whose every origin is meant.
    pub(super) origins: Vec<String>,
    /// Whether hosts are looked at: on this machine always, elsewhere when some were named.
    loopback: bool,
}

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl Guard {
    pub(super) fn for_address(address: SocketAddr) -> Self {
        let loopback = address.ip().is_loopback();
        let hosts = if loopback { LOOPBACK.map(str::to_owned).to_vec() } else { vec![] };
        Self { hosts, origins: vec![], loopback }
    }

    /// A socket's clients name any host, but no page can reach it.
    pub(super) fn for_socket() -> Self {
        Self { hosts: vec![], origins: vec![], loopback: false }
    }

    /// The answer to whoever may not knock.
    pub(super) fn refuse(&self, headers: &HeaderMap) -> Option<Response> {
        let known = |host: &str| {
            let name = without_port(host);
            self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
        };
        if (self.loopback || !self.hosts.is_empty())
            && let Some(host) = text(headers, &header::HOST)
            && !known(&host)
        {
            return Some(forbidden("Host", &host, &self.hosts, "--allow-host"));
        }
        let origin = text(headers, &header::ORIGIN)?;
        let page_host = origin.split_once("://").map_or("", |(_, host)| host);
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(&origin)) || known(page_host)
        {
            return None;
        }
        let list: Vec<String> = self.origins.iter().chain(&self.hosts).cloned().collect();
        Some(forbidden("Origin", &origin, &list, "--allow-origin"))
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, str>> {
    let value = headers.get(name)?;
    Some(match value.to_str() {
        Ok(text) => Cow::Borrowed(text.trim()),
        Err(_) => String::from_utf8_lossy(value.as_bytes()),
    })
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn forbidden(header: &str, seen: &str, list: &[String], flag: &str) -> Response {
    let seen: String = seen.chars().take(200).collect();
    let why = format!(
        "{header} `{seen}` is not allowed here. Allowed: {}. To allow it: `{flag} {seen}`, or \
         `Http::{}`",
        if list.is_empty() { "none".to_owned() } else { list.join(", ") },
        flag.trim_start_matches('-').replace('-', "_")
    );
    refusal(StatusCode::FORBIDDEN, &why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(guard: &Guard, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.refuse(&headers).is_some()
    }

    #[test]
    fn this_machine_answers_only_itself() {
        let guard = Guard::for_address(([127, 0, 0, 1], 8787).into());
        assert!(!refused(&guard, "localhost:8787", None));
        assert!(!refused(&guard, "127.0.0.1:8787", Some("http://localhost:3000")));
        assert!(!refused(&guard, "[::1]:8787", None));
        assert!(refused(&guard, "evil.example.com", None));
        assert!(refused(&guard, "localhost:8787", Some("http://evil.example.com")));
        assert!(refused(&guard, "localhost:8787", Some("http://localhost.evil.example.com")));
        assert!(refused(&guard, "localhost:8787", Some("null")));
    }

    #[test]
    fn a_public_server_answers_any_host_but_only_known_pages() {
        let mut guard = Guard::for_address(([0, 0, 0, 0], 80).into());
        assert!(!refused(&guard, "mcp.example.com", None));
        assert!(refused(&guard, "mcp.example.com", Some("https://app.example.com")));
        guard.origins.push("https://app.example.com".into());
        assert!(!refused(&guard, "mcp.example.com", Some("https://app.example.com")));
    }
}
