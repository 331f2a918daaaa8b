//! Where the words of a server may lead: to encrypted addresses, and to none of this network if
//! the server is not of it.
//!
//! Addresses that a server names are reached directly, never through a proxy: a proxy looks names
//! up itself, and where they lead could not be checked here.

use super::http_error::explain;
use reqwest::{
    Client, RequestBuilder, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use zcp_wire::address::is_public;

/// How long whoever is there may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes they may answer with.
const LARGEST: usize = 1024 * 1024;

/// The way to addresses that somebody else named.
pub(crate) struct UrlPolicy {
    /// None where there is no encryption to be had.
    client: Option<Client>,
    /// The server is of this network, and may name others that are.
    is_near: Arc<AtomicBool>,
}

/// What somebody answered.
pub(crate) struct Answered {
    pub(crate) status: reqwest::StatusCode,
    pub(crate) headers: ::http::HeaderMap,
    pub(crate) text: Vec<u8>,
}

impl UrlPolicy {
    /// A way that leads nowhere near until the server is known to be there.
    pub(crate) fn guarded() -> Self {
        Self::new(false)
    }

    /// A way to addresses that the user has given, wherever they are.
    pub(crate) fn trusted() -> Self {
        Self::new(true)
    }

    fn new(is_near: bool) -> Self {
        let is_guarded = !is_near;
        let is_near = Arc::new(AtomicBool::new(is_near));
        let mut client = Client::builder()
            .redirect(redirect::Policy::none())
            .dns_resolver(Arc::new(Guard(is_near.clone())))
            .timeout(PATIENCE);
        if is_guarded {
            client = client.no_proxy();
        }
        Self { client: client.build().ok(), is_near }
    }

    /// Finds out whether the server is of this network: by its address, or by all that its name
    /// leads to and the address it answered from. That alone may be a proxy's, and the name alone may
    /// lead somewhere else by now: whoever owns a name chooses where.
    pub(crate) async fn begin_at(&self, server: &Url, from: Option<SocketAddr>) {
        let near = match server.host() {
            _ if from.is_some_and(|from| is_public(from.ip())) => false,
            Some(url::Host::Ipv4(address)) => !is_public(address.into()),
            Some(url::Host::Ipv6(address)) => !is_public(address.into()),
            Some(url::Host::Domain(name)) if from.is_none() => is_localhost(name),
            Some(url::Host::Domain(name)) => {
                let port = server.port_or_known_default().unwrap_or(443);
                let found = tokio::net::lookup_host((name, port)).await;
                found.is_ok_and(|mut all| all.all(|one| !is_public(one.ip())))
            }
            None => false,
        };
        self.is_near.store(near, Ordering::Relaxed);
    }

    /// An address that tokens and secrets may go to.
    pub(crate) fn safe(&self, text: &str) -> Result<Url, String> {
        let url = encrypted(text)?;
        let is_near = match url.host() {
            Some(url::Host::Ipv4(address)) => !is_public(address.into()),
            Some(url::Host::Ipv6(address)) => !is_public(address.into()),
            Some(url::Host::Domain(name)) => is_localhost(name),
            None => true,
        };
        match is_near && !self.is_near.load(Ordering::Relaxed) {
            true => Err(format!("`{text}` is an address of this network, and the server is not")),
            false => Ok(url),
        }
    }

    fn client(&self) -> Result<&Client, String> {
        self.client.as_ref().ok_or_else(|| "this machine cannot encrypt".into())
    }

    pub(crate) fn get(&self, url: Url, kind: &str) -> Result<RequestBuilder, String> {
        Ok(self.client()?.get(url).header("accept", kind))
    }

    pub(crate) fn post(
        &self,
        url: Url,
        kind: &str,
        body: String,
    ) -> Result<RequestBuilder, String> {
        let request = self.client()?.post(url).header("accept", "application/json");
        Ok(request.header("content-type", kind).body(body))
    }
}

/// Sends a request, and reads its answer as far as it is of a length to be expected.
pub(crate) async fn send(request: RequestBuilder) -> Result<Answered, String> {
    let mut response = request.send().await.map_err(|error| explain(&error))?;
    let (status, headers) = (response.status(), response.headers().clone());
    let mut text = vec![];
    while let Some(part) = response.chunk().await.map_err(|error| explain(&error))? {
        text.extend_from_slice(&part);
        if text.len() > LARGEST {
            return Err(format!("what `{}` says is too long", response.url()));
        }
    }
    if !zcp_wire::json::is_plain(&text) {
        return Err(format!("what `{}` says has a reserved name", response.url()));
    }
    Ok(Answered { status, headers, text })
}

/// An address whose words nobody reads on the way: encrypted, or on this machine.
pub(crate) fn encrypted(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is no URL: {error}"))?;
    let is_here = match url.host() {
        Some(url::Host::Domain(name)) => is_localhost(name),
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err(format!("`{text}` is not a safe address: it must be https")),
    }
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

/// Gives the addresses of a name that may be gone to.
struct Guard(Arc<AtomicBool>);

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let is_near = self.0.load(Ordering::Relaxed);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<_> = found.filter(|one| is_near || is_public(one.ip())).collect();
            match found.is_empty() {
                true => Err(format!("`{}` leads to no public address", name.as_str()).into()),
                false => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_go_to_encrypted_addresses_only() {
        for fine in
            ["https://a.example", "http://localhost:1/x", "http://127.0.0.1", "http://[::1]"]
        {
            assert!(encrypted(fine).is_ok(), "{fine}");
        }
        for wrong in ["http://a.example", "javascript:alert(1)", "file:///etc/passwd", "localhost"]
        {
            assert!(encrypted(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn a_server_behind_a_proxy_is_not_taken_for_a_near_one() {
        let policy = UrlPolicy::guarded();
        let proxy = Some("10.0.0.1:3128".parse().unwrap());
        policy.begin_at(&Url::parse("https://8.8.8.8/mcp").unwrap(), proxy).await;
        assert!(policy.safe("https://127.0.0.1").is_err());
        // A name that leads here now did not do so when it answered.
        let public = Some("8.8.8.8:443".parse().unwrap());
        policy.begin_at(&Url::parse("https://localhost/mcp").unwrap(), public).await;
        assert!(policy.safe("https://127.0.0.1").is_err());
        policy.begin_at(&Url::parse("https://localhost/mcp").unwrap(), proxy).await;
        assert!(policy.safe("https://127.0.0.1").is_ok());
    }

    #[tokio::test]
    async fn a_name_alone_does_not_make_a_server_a_near_one() {
        // A name of this machine that leads to an address of its network, as a rebound one does.
        let own = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
        let own = Url::parse(&format!("https://{}/mcp", own.trim())).unwrap();
        let found = tokio::net::lookup_host((own.host_str().unwrap(), 443)).await;
        let is_near = found.is_ok_and(|mut all| all.all(|one| !is_public(one.ip())));
        assert!(is_near, "add a line `127.0.1.1 HOSTNAME` to /etc/hosts");
        let policy = UrlPolicy::guarded();
        policy.begin_at(&own, None).await;
        assert!(policy.safe("https://127.0.0.1").is_err());
        policy.begin_at(&own, Some("10.0.0.1:443".parse().unwrap())).await;
        assert!(policy.safe("https://127.0.0.1").is_ok());
        policy.begin_at(&Url::parse("https://localhost/mcp").unwrap(), None).await;
        assert!(policy.safe("https://127.0.0.1").is_ok());
    }

    #[tokio::test]
    async fn a_public_server_leads_to_no_address_of_this_network() {
        let policy = UrlPolicy::guarded();
        policy.begin_at(&Url::parse("https://8.8.8.8/mcp").unwrap(), None).await;
        for near in ["https://127.0.0.1", "https://localhost", "http://localhost", "https://[::1]"]
        {
            assert!(policy.safe(near).is_err(), "{near}");
        }
        assert!(policy.safe("https://1.1.1.1").is_ok());
        // A name is judged by where it leads.
        let name = || "localhost".parse().unwrap();
        let found = Guard(policy.is_near.clone()).resolve(name()).await;
        assert!(found.err().unwrap().to_string().contains("no public address"));
        policy.begin_at(&Url::parse("http://127.0.0.1:1/mcp").unwrap(), None).await;
        assert!(policy.safe("http://127.0.0.1:2").is_ok());
        assert!(Guard(policy.is_near.clone()).resolve(name()).await.is_ok());
    }
}
