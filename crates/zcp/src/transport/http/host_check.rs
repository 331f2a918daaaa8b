//! Host and Origin validation, against web pages that use this server behind their user's back: by
//! DNS rebinding, or as requests from another site.

use super::{MCP, WS, refusal};
use ::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Version, header};
use axum::response::Response;
use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
};
use zcp_wire::header::only;

/// Which hosts and origins are answered.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    /// Hosts, without ports.
    pub(super) hosts: Vec<String>,
    /// Origins as they come, or hosts whose every origin is meant.
    pub(super) origins: Vec<String>,
    /// Whether requests must say which host they are for, as HTTP/1.1 demands. A router's need
    /// not: its requests may not come from a connection.
    pub(super) strict: bool,
    reach: Reach,
}

/// Who can reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// This machine.
    Loopback,
    /// Any machine, by any name.
    Network,
    /// No browser.
    Socket,
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Pages that say something of the server to whoever can read them.
const TELLING: [&str; 2] = ["/metadata", "/metrics"];
/// Pages that say no more than that the server is there. Probes name the address they reach it at.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];
/// Where a GET opens a stream, which takes a connection for as long as it likes.
const STREAMS: [&str; 3] = [MCP, "/sse", WS];
/// Endings of names that nobody can register, so that no page can be served from them and then
/// rebound to this server.
const PRIVATE: [&str; 5] = [".localhost", ".local", ".internal", ".home.arpa", ".svc"];

/// Names this machine has, most used first.
const LOCAL: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

impl Guard {
    pub(super) fn for_address(address: SocketAddr) -> Self {
        let loopback = address.ip().to_canonical().is_loopback();
        let reach = if loopback { Reach::Loopback } else { Reach::Network };
        Self { hosts: vec![], origins: vec![], strict: false, reach }
    }

    /// A socket's clients name any host, but no page can reach it.
    pub(super) fn for_socket() -> Self {
        Self { hosts: vec![], origins: vec![], strict: false, reach: Reach::Socket }
    }

    /// The answer to whoever is not allowed here.
    pub(super) fn refuse<B>(&self, request: &Request<B>) -> Option<Response> {
        let headers = request.headers();
        let Ok(host) = only(headers, &header::HOST) else {
            return Some(refusal(StatusCode::BAD_REQUEST, "there is more than one `Host` header"));
        };
        // A target that names a host, as proxies are sent, is meant instead of the header.
        let target = request.uri().authority().map(|host| Cow::Borrowed(host.as_str()));
        if self.strict
            && host.is_none()
            && target.is_none()
            && request.version() == Version::HTTP_11
        {
            return Some(refusal(StatusCode::BAD_REQUEST, "the `Host` header is missing"));
        }
        // Nearly all requests to a server of this machine name it so.
        let host = host.map(HeaderValue::as_bytes);
        let host = host.filter(|host| self.reach != Reach::Loopback || !is_local(host));
        for host in host.map(readable).into_iter().chain(target) {
            if !self.answers(request.uri().path(), &host) {
                return Some(self.forbidden("Host", &host, &[], "--allow-host"));
            }
        }
        let Some(origin) = text(headers, &header::ORIGIN) else {
            return match *request.method() {
                // Browsers send `Origin` with every other method.
                Method::GET | Method::HEAD => self.refuse_cross_site(request),
                _ => None,
            };
        };
        let page_host = origin.split_once("://").map_or("", |(_, host)| host);
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(&origin))
            || self.knows(page_host)
        {
            return None;
        }
        Some(self.forbidden("Origin", &origin, &self.origins, "--allow-origin"))
    }

    /// Whether a path is answered under a host's name.
    fn answers(&self, path: &str, host: &str) -> bool {
        let is_one_of = |pages: &[&str]| pages.iter().any(|page| path.ends_with(page));
        match self.reach {
            _ if is_one_of(&PROBES) => true,
            Reach::Loopback => self.knows(host),
            // No page can be served under an address and then be rebound to this server.
            _ if is_one_of(&TELLING) && literal(without_port(host)).is_some() => true,
            _ if !self.hosts.is_empty() => self.knows(host),
            // Behind a proxy the server has names it is not told. A page that was rebound to it
            // can only GET without `Origin`, and these two are all it could learn from.
            Reach::Network => !is_one_of(&TELLING) || is_private(host),
            Reach::Socket => true,
        }
    }

    /// Whether a host, with or without its port, is one of ours.
    fn knows(&self, host: &str) -> bool {
        let name = without_port(host);
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
            || self.reach == Reach::Loopback
                && (LOCAL.iter().any(|local| local.eq_ignore_ascii_case(name))
                    || literal(name).is_some_and(|address| address.is_loopback()))
    }

    /// Refuses what a page of another site requests without saying so: as an image, a script, a
    /// frame. A user may follow a link, but not to a stream.
    fn refuse_cross_site<B>(&self, request: &Request<B>) -> Option<Response> {
        let headers = request.headers();
        if headers.get(SEC_FETCH_SITE)? != "cross-site" {
            return None;
        }
        let path = request.uri().path();
        let is_link = headers.get(SEC_FETCH_DEST).is_some_and(|to| to == "document");
        if is_link && !STREAMS.iter().any(|stream| path.ends_with(stream)) {
            return None;
        }
        Some(self.forbidden("Sec-Fetch-Site", "cross-site", &self.origins, "--allow-origin"))
    }

    fn forbidden(&self, header: &str, seen: &str, more: &[String], flag: &str) -> Response {
        let local: &[&str] = if self.reach == Reach::Loopback { &LOCAL } else { &[] };
        let allowed = more.iter().chain(&self.hosts).map(String::as_str);
        let allowed: Vec<&str> = allowed.chain(local.iter().copied()).collect();
        let seen: String = seen.chars().take(200).collect();
        let example = if header == "Sec-Fetch-Site" { "ORIGIN" } else { &seen };
        let why = format!(
            "{header} `{seen}` is not allowed here. Allowed: {}. To allow it: `{flag} {example}`, \
             or `Http::{}`",
            if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") },
            flag.trim_start_matches('-').replace('-', "_")
        );
        refusal(StatusCode::FORBIDDEN, &why)
    }
}

/// Whether no page can have been served under a host's name by somebody else.
fn is_private(host: &str) -> bool {
    let name = without_port(host).to_ascii_lowercase();
    literal(&name).is_some()
        || !name.contains('.')
        || PRIVATE.iter().any(|ending| name.ends_with(ending))
}

/// A host that is an address.
fn literal(name: &str) -> Option<IpAddr> {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    bare.unwrap_or(name).parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// Whether a host is one of the names of this machine, with or without a port.
fn is_local(host: &[u8]) -> bool {
    LOCAL.iter().any(|local| match host.strip_prefix(local.as_bytes()) {
        Some([b':', port @ ..]) => port.iter().all(u8::is_ascii_digit),
        Some(rest) => rest.is_empty(),
        None => false,
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, str>> {
    headers.get(name).map(|value| readable(value.as_bytes()))
}

fn readable(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text.trim()),
        Err(_) => String::from_utf8_lossy(value),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(guard: &Guard, host: &str, origin: Option<&str>) -> bool {
        let headers = [("origin", origin)];
        get(guard, "/mcp", host, &headers).is_some()
    }

    fn get(guard: &Guard, path: &str, host: &str, headers: &[(&str, Option<&str>)]) -> Option<u16> {
        let mut request = Request::get(path).header(header::HOST, host);
        for (name, value) in headers {
            if let Some(value) = value {
                request = request.header(*name, *value);
            }
        }
        guard.refuse(&request.body(()).unwrap()).map(|refusal| refusal.status().as_u16())
    }

    #[test]
    fn this_machine_answers_only_itself() {
        let addresses = ["127.0.0.1:8787", "[::1]:8787", "[::ffff:127.0.0.1]:8787", "127.0.0.2:1"];
        for address in addresses {
            let guard = Guard::for_address(address.parse().unwrap());
            assert!(!refused(&guard, address, None), "{address}");
            assert!(!refused(&guard, "localhost:8787", None));
            assert!(!refused(&guard, "127.0.0.1:8787", Some("http://localhost:3000")));
            assert!(!refused(&guard, "[::1]:8787", None));
            assert!(!refused(&guard, "[0:0:0:0:0:0:0:1]", None));
            assert!(refused(&guard, "evil.example.com", None));
            assert!(refused(&guard, "192.0.2.1:8787", None));
            assert!(refused(&guard, "", None));
            assert!(refused(&guard, "localhost:8787", Some("http://evil.example.com")));
            assert!(refused(&guard, "localhost:8787", Some("http://localhost.evil.example.com")));
            assert!(refused(&guard, "localhost:8787", Some("null")));
        }
    }

    #[test]
    fn a_public_server_answers_any_host_but_only_known_pages() {
        let mut guard = Guard::for_address(([0, 0, 0, 0], 80).into());
        assert!(!refused(&guard, "mcp.example.com", None));
        assert!(refused(&guard, "mcp.example.com", Some("https://app.example.com")));
        guard.origins.push("https://app.example.com".into());
        assert!(!refused(&guard, "mcp.example.com", Some("https://app.example.com")));
    }

    #[test]
    fn a_rebound_name_is_not_told_of_a_public_server() {
        let mut guard = Guard::for_address("[::]:80".parse().unwrap());
        for page in TELLING {
            for host in "evil.example.com localhost.evil.com:80 local evil.localx.com".split(' ') {
                let expected = host.contains('.').then_some(403);
                assert_eq!(get(&guard, page, host, &[]), expected, "{page} {host}");
            }
            for host in "10.0.0.7:80 [2001:db8::1] zcp zcp.default.svc zcp.local".split(' ') {
                assert_eq!(get(&guard, page, host, &[]), None, "{page} {host}");
            }
        }
        for page in ["/healthz", "/sse", "/mcp"] {
            assert_eq!(get(&guard, page, "mcp.example.com", &[]), None, "{page}");
        }
        guard.hosts.push("mcp.example.com".into());
        assert_eq!(get(&guard, "/metrics", "mcp.example.com", &[]), None);
        for host in ["mcp.example.net", "zcp.default.svc"] {
            assert_eq!(get(&guard, "/metrics", host, &[]), Some(403), "{host}");
        }
    }

    #[test]
    fn probes_may_name_any_host_and_metrics_an_address() {
        for address in ["0.0.0.0:8787", "127.0.0.1:8787"] {
            let mut guard = Guard::for_address(address.parse().unwrap());
            guard.hosts.push("mcp.example.com".into());
            for probe in PROBES {
                assert_eq!(get(&guard, probe, "10.1.2.3:8787", &[]), None, "{probe}");
                assert_eq!(get(&guard, probe, "pod.example.net", &[]), None, "{probe}");
            }
            let is_local = address.starts_with("127");
            for page in TELLING {
                let expected = is_local.then_some(403);
                assert_eq!(get(&guard, page, "10.1.2.3:8787", &[]), expected, "{page}");
                assert_eq!(get(&guard, page, "[fd00::7]:8787", &[]), expected, "{page}");
            }
            assert_eq!(get(&guard, "/mcp", "10.1.2.3:8787", &[]), Some(403));
        }
    }

    #[test]
    fn a_page_of_another_site_opens_nothing() {
        let mut guard = Guard::for_address(([0, 0, 0, 0], 80).into());
        let cross = ("sec-fetch-site", Some("cross-site"));
        let link = ("sec-fetch-dest", Some("document"));
        let image = ("sec-fetch-dest", Some("image"));
        for path in ["/sse", "/mcp", "/ws"] {
            assert_eq!(get(&guard, path, "x", &[cross, image]), Some(403), "{path}");
            assert_eq!(get(&guard, path, "x", &[cross, link]), Some(403), "{path}");
        }
        assert_eq!(get(&guard, "/healthz", "x", &[cross, image]), Some(403));
        assert_eq!(get(&guard, "/healthz", "x", &[cross, link]), None);
        for site in ["same-origin", "same-site", "none"] {
            assert_eq!(get(&guard, "/sse", "x", &[("sec-fetch-site", Some(site))]), None);
        }
        guard.origins.push("https://app.example.com".into());
        let origin = ("origin", Some("https://app.example.com"));
        assert_eq!(get(&guard, "/sse", "x", &[cross, origin]), None);
    }

    #[test]
    fn two_hosts_are_none_and_a_target_is_one() {
        let guard = Guard::for_address(([127, 0, 0, 1], 80).into());
        let two = Request::get("/").header("host", "localhost").header("host", "localhost");
        assert_eq!(guard.refuse(&two.body(()).unwrap()).unwrap().status(), 400);
        let target = Request::get("http://evil.example.com/").header("host", "localhost");
        assert_eq!(guard.refuse(&target.body(()).unwrap()).unwrap().status(), 403);
    }
}
