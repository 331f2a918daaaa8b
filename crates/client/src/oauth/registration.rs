//! How a client is known to an authorization server.

use super::{
    Registered, Shared,
    metadata::{AuthorizationServer, Found},
    sign::{SigningKey, secret},
    vault::Kept,
};
use crate::support::{clock::now, url_policy};
use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fmt;
use url::Host;

/// What an authorization server knows a client by.
#[derive(Clone, Serialize, Deserialize)]
pub struct Registration {
    id: String,
    proof: Proof,
}

/// How a client shows that it is the one.
#[derive(Clone, Serialize, Deserialize)]
enum Proof {
    /// Not at all.
    None,
    /// By a secret, in a header or in the form.
    Secret { secret: String, in_form: Option<bool> },
    /// By a signed statement. The key is its owner's to keep.
    #[serde(skip)]
    Key(SigningKey),
}

impl Registration {
    /// A client that cannot keep a secret.
    pub fn public(id: impl Into<String>) -> Self {
        Self { id: id.into(), proof: Proof::None }
    }

    /// A client with a secret.
    pub fn secret(id: impl Into<String>, secret: impl Into<String>) -> Self {
        let proof = Proof::Secret { secret: secret.into(), in_form: None };
        Self { id: id.into(), proof }
    }

    /// A client with a key.
    pub fn key(id: impl Into<String>, key: SigningKey) -> Self {
        Self { id: id.into(), proof: Proof::Key(key) }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Says who asks: in the form, or in a header beside it.
    pub(super) fn show(
        &self,
        server: &AuthorizationServer,
        form: &mut Vec<(&'static str, String)>,
    ) -> Option<(&'static str, String)> {
        let offers = |method: &str| {
            let offered = server.token_endpoint_auth_methods_supported.as_ref();
            offered.is_some_and(|all| all.iter().any(|one| one == method))
        };
        match &self.proof {
            Proof::None => form.push(("client_id", self.id.clone())),
            Proof::Secret { secret, in_form } => {
                let only_post = offers("client_secret_post") && !offers("client_secret_basic");
                if !in_form.unwrap_or(only_post) {
                    let pair = format!("{}:{}", encoded(&self.id), encoded(secret));
                    return Some(("authorization", format!("Basic {}", STANDARD.encode(pair))));
                }
                form.push(("client_id", self.id.clone()));
                form.push(("client_secret", secret.clone()));
            }
            Proof::Key(key) => {
                let claims = json!({
                    "iss": self.id,
                    "sub": self.id,
                    "aud": server.issuer,
                    "iat": now(),
                    "exp": now() + 60,
                    "jti": secret(),
                });
                let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
                form.push(("client_id", self.id.clone()));
                form.push(("client_assertion_type", kind.to_owned()));
                form.push(("client_assertion", key.sign(json!({ "typ": "JWT" }), &claims)));
            }
        }
        None
    }
}

/// What kind of client is sent back there, by OpenID Connect Dynamic Client Registration: a `web`
/// client has a site of its own, a `native` one is on its user's machine.
fn application_type(redirect: &Url) -> &'static str {
    let is_local = match redirect.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => true,
    };
    if redirect.scheme() == "https" && !is_local { "web" } else { "native" }
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A registration that was made, and where its users are sent back to.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) client: Registration,
    pub(super) redirect: String,
    /// When its secret ends, in seconds since 1970.
    ends: Option<u64>,
}

/// The answer to a registration.
#[derive(Deserialize)]
struct Answer {
    client_id: String,
    client_secret: Option<String>,
    client_secret_expires_at: Option<u64>,
    token_endpoint_auth_method: Option<String>,
}

impl Shared {
    /// What this issuer knows us by; found out or agreed on the first time.
    pub(super) async fn registration(
        &self,
        found: &Found,
        known: &Registered,
        redirect: &Url,
    ) -> Result<Registration, String> {
        if let Some(client) = &known.beforehand {
            return Ok(client.clone());
        }
        if let Some(document) = &known.document
            && found.server.client_id_metadata_document_supported
        {
            return Ok(Registration::public(document));
        }
        if let Some(made) = self.made(&found.issuer)
            && made.redirect == redirect.as_str()
            && made.ends.is_none_or(|ends| ends > now())
        {
            return Ok(made.client);
        }
        let (client, ends) = self.register(found, known, redirect).await?;
        let made = Made { client: client.clone(), redirect: redirect.to_string(), ends };
        if let Some(vault) = &self.vault
            && let Err(error) = vault.save(Kept::Client(&found.issuer), &made)
        {
            tracing::warn!("the client's registration is not kept: {error}");
        }
        self.lock().made.insert(found.issuer.clone(), made);
        Ok(client)
    }

    /// Forgets the registration that was made with an issuer.
    pub(super) fn forget_client(&self, issuer: &str) {
        self.lock().made.remove(issuer);
        if let Some(vault) = &self.vault
            && let Err(error) = vault.remove(Kept::Client(issuer))
        {
            tracing::warn!("the client's registration is not forgotten: {error}");
        }
    }

    /// The registration that was made with an issuer.
    pub(super) fn made(&self, issuer: &str) -> Option<Made> {
        let known = self.lock().made.get(issuer).cloned();
        known.or_else(|| self.vault.as_ref()?.load(Kept::Client(issuer)))
    }

    async fn register(
        &self,
        found: &Found,
        known: &Registered,
        redirect: &Url,
    ) -> Result<(Registration, Option<u64>), String> {
        let issuer = &found.issuer;
        let place = found.server.registration_endpoint.as_ref().ok_or_else(|| {
            format!("`{issuer}` registers no clients: register one there, and give its id")
        })?;
        let offered = found.server.token_endpoint_auth_methods_supported.as_deref();
        let methods = ["none", "client_secret_basic", "client_secret_post"];
        let method = methods
            .iter()
            .find(|method| offered.is_none_or(|all| all.iter().any(|one| one == *method)))
            .unwrap_or(&"none");
        let wish = json!({
            "client_name": known.name,
            "redirect_uris": [redirect.as_str()],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": application_type(redirect),
        });
        let request =
            self.policy.post(self.policy.safe(place)?, "application/json", wish.to_string())?;
        let answered = url_policy::send(request).await?;
        if !answered.status.is_success() {
            let text = &answered.text[..answered.text.len().min(400)];
            let why = String::from_utf8_lossy(text);
            return Err(format!(
                "`{issuer}` refuses to register a client that is sent back to `{redirect}`: {why}"
            ));
        }
        let answer: Answer = serde_json::from_slice(&answered.text).map_err(|error| {
            format!("`{issuer}` registers clients in a way of its own: {error}")
        })?;
        let ends = answer.client_secret_expires_at.filter(|ends| *ends > 0);
        let client = Registration {
            id: answer.client_id,
            proof: match (answer.client_secret, answer.token_endpoint_auth_method.as_deref()) {
                (_, Some("none")) | (None, _) => Proof::None,
                (Some(secret), method) => Proof::Secret {
                    secret,
                    in_form: method.map(|method| method == "client_secret_post"),
                },
            },
        };
        Ok((client, ends))
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_with_a_site_of_their_own_register_as_web() {
        for (redirect, expected) in [
            ("https://app.example.com/back", "web"),
            ("http://127.0.0.1:1/callback", "native"),
            ("http://[::1]:1/callback", "native"),
            ("https://localhost/callback", "native"),
            ("com.example.app:/back", "native"),
            ("http://app.example.com/back", "native"),
        ] {
            assert_eq!(application_type(&Url::parse(redirect).unwrap()), expected, "{redirect}");
        }
    }
}
