//! Who gives tokens for a server, and how: the documents that say so.

use super::challenge::Challenge;
use crate::support::url_policy::{self, UrlPolicy};
use reqwest::{StatusCode, Url};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeSet;

/// What was found out.
#[derive(Debug)]
pub(super) struct Found {
    /// What the token is for, as the server writes it.
    pub(super) resource: String,
    /// Scopes the server says it has.
    pub(super) scopes: Option<BTreeSet<String>>,
    /// Who gives tokens.
    pub(super) issuer: String,
    /// How.
    pub(super) server: AuthorizationServer,
    /// Nothing is described: the server is of 2025-03-26.
    pub(super) is_old: bool,
}

/// What a server says about itself.
#[derive(Debug, Deserialize)]
struct Resource {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

/// What an authorization server says about itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<String>,
    pub(super) token_endpoint: Option<String>,
    pub(super) registration_endpoint: Option<String>,
    pub(super) revocation_endpoint: Option<String>,
    #[serde(default)]
    pub(super) scopes_supported: Vec<String>,
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    pub(super) client_id_metadata_document_supported: bool,
    #[serde(default)]
    pub(super) authorization_response_iss_parameter_supported: bool,
}

/// Finds out who gives tokens for a server.
pub(super) async fn find(
    policy: &UrlPolicy,
    server: &Url,
    challenge: &Challenge,
) -> Result<Found, String> {
    let Some(resource) = resource(policy, server, challenge).await? else {
        return old(policy, server).await;
    };
    if !covers(&resource.resource, server) {
        return Err(format!(
            "the server says it is `{}`, which is not where it is",
            resource.resource
        ));
    }
    let issuer = resource.authorization_servers.first().cloned();
    let issuer = issuer.ok_or("the server names nobody who gives tokens for it")?;
    let described = describe(policy, &issuer).await?;
    let described =
        described.ok_or_else(|| format!("`{issuer}` does not say how it gives tokens"))?;
    if described.issuer != issuer {
        return Err(format!("`{issuer}` says it is `{}`", described.issuer));
    }
    Ok(Found {
        resource: resource.resource,
        scopes: resource.scopes_supported.map(|scopes| scopes.into_iter().collect()),
        issuer,
        server: described,
        is_old: false,
    })
}

/// Whether a server's name for itself is true: the same place, or one above it.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (above, path) = (resource.path().trim_end_matches('/'), server.path());
    let below =
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    resource.origin() == server.origin() && below
}

async fn resource(
    policy: &UrlPolicy,
    server: &Url,
    challenge: &Challenge,
) -> Result<Option<Resource>, String> {
    if let Some(place) = challenge.metadata() {
        let place = policy.safe(place)?;
        return match get(policy, place.clone()).await? {
            Some(resource) => Ok(Some(resource)),
            None => Err(format!("the server describes itself at `{place}`, where nothing is")),
        };
    }
    let name = "/.well-known/oauth-protected-resource";
    let path = server.path().trim_end_matches('/');
    for place in [format!("{name}{path}"), name.to_owned()] {
        if let Some(resource) = get(policy, at(server, &place)).await? {
            return Ok(Some(resource));
        }
    }
    Ok(None)
}

/// How an issuer gives tokens, from the first of its documents that is there.
async fn describe(policy: &UrlPolicy, issuer: &str) -> Result<Option<AuthorizationServer>, String> {
    let url = policy.safe(issuer)?;
    let path = url.path().trim_end_matches('/');
    let mut places = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        places.push(format!("{path}/.well-known/openid-configuration"));
    }
    for place in places {
        if let Some(found) = get(policy, at(&url, &place)).await? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A server of 2025-03-26 gives tokens itself, and need not say where.
async fn old(policy: &UrlPolicy, server: &Url) -> Result<Found, String> {
    let issuer = server.origin().ascii_serialization();
    let described: Option<AuthorizationServer> =
        get(policy, at(server, "/.well-known/oauth-authorization-server")).await?;
    if let Some(described) = &described
        && described.issuer.trim_end_matches('/') != issuer
    {
        return Err(format!("`{issuer}` says it is `{}`", described.issuer));
    }
    let is_old = described.is_none();
    let usual = |place: &str| Some(at(server, place).to_string());
    let described = described.unwrap_or_else(|| AuthorizationServer {
        issuer: issuer.clone(),
        authorization_endpoint: usual("/authorize"),
        token_endpoint: usual("/token"),
        registration_endpoint: usual("/register"),
        ..AuthorizationServer::default()
    });
    let mut resource = server.clone();
    resource.set_fragment(None);
    let issuer = described.issuer.clone();
    Ok(Found { resource: resource.into(), scopes: None, issuer, server: described, is_old })
}

fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// A document; none when it is not there.
async fn get<T: DeserializeOwned>(policy: &UrlPolicy, url: Url) -> Result<Option<T>, String> {
    let answer = url_policy::send(policy.get(url, "application/json")?).await?;
    if answer.status != StatusCode::OK {
        return Ok(None);
    }
    // A page for people is no document.
    Ok(serde_json::from_slice(&answer.text).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_what_it_says_or_lies_below() {
        let server = Url::parse("https://a.example/x/mcp").unwrap();
        for fine in ["https://a.example/x/mcp", "https://A.example/", "https://a.example/x/"] {
            assert!(covers(fine, &server), "{fine}");
        }
        for wrong in
            ["https://b.example/x/mcp", "https://a.example/x/m", "http://a.example/", "x", ""]
        {
            assert!(!covers(wrong, &server), "{wrong}");
        }
    }
}
