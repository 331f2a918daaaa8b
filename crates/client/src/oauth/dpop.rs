//! Proofs that a token is one's own, one for each request.

use super::sign::{SigningKey, digest, secret};
use crate::support::clock::now;
use ::http::{HeaderMap, Method};
use reqwest::Url;
use serde_json::json;
use std::{collections::BTreeMap, fmt, sync::Mutex};
use zcp_wire::sync::lock;

/// A key, and what servers want to see beside its signature.
pub(super) struct Proofs {
    key: SigningKey,
    /// The last nonce of each server.
    nonces: Mutex<BTreeMap<String, String>>,
}

impl Default for Proofs {
    fn default() -> Self {
        Self { key: SigningKey::random(), nonces: Mutex::default() }
    }
}

impl Proofs {
    /// A proof for one request, and for the token it shows.
    pub(super) fn make(&self, method: &Method, url: &Url, token: Option<&str>) -> String {
        let mut place = url.clone();
        place.set_query(None);
        place.set_fragment(None);
        let mut claims = json!({
            "jti": secret(),
            "htm": method.as_str(),
            "htu": place.as_str(),
            "iat": now(),
        });
        if let Some(token) = token {
            claims["ath"] = digest(token).into();
        }
        let nonces = lock(&self.nonces);
        if let Some(nonce) = nonces.get(&url.origin().ascii_serialization()) {
            claims["nonce"] = nonce.as_str().into();
        }
        self.key.sign(json!({ "typ": "dpop+jwt", "jwk": self.key.public() }), &claims)
    }

    /// Remembers the nonce a server wants to see; true when there is one.
    pub(super) fn learn(&self, url: &Url, headers: &HeaderMap) -> bool {
        let nonce = headers.get("dpop-nonce").and_then(|nonce| nonce.to_str().ok());
        let Some(nonce) = nonce else { return false };
        let origin = url.origin().ascii_serialization();
        let mut nonces = lock(&self.nonces);
        nonces.insert(origin, nonce.to_owned());
        true
    }
}

impl fmt::Debug for Proofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proofs(..)")
    }
}
