//! Signed statements: JSON Web Tokens with ES256.

use crate::error::Error;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use p256::{
    ecdsa::{Signature, signature::Signer},
    pkcs8::DecodePrivateKey,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt;

/// A private key for ES256.
#[derive(Clone)]
pub struct SigningKey(p256::ecdsa::SigningKey);

impl SigningKey {
    /// A key of PEM text, in PKCS#8.
    pub fn from_pem(pem: &str) -> Result<Self, Error> {
        p256::ecdsa::SigningKey::from_pkcs8_pem(pem)
            .map(Self)
            .map_err(|error| Error::Unable(format!("the key cannot be read: {error}")))
    }

    /// A new key.
    pub(super) fn random() -> Self {
        loop {
            // Nearly every number is a key.
            if let Ok(key) = p256::ecdsa::SigningKey::from_slice(&random::<32>()) {
                return Self(key);
            }
        }
    }

    /// The public half.
    pub(super) fn public(&self) -> Value {
        let point = self.0.verifying_key().to_sec1_point(false);
        let part = |bytes: Option<&[u8]>| coded(bytes.unwrap_or_default());
        json!({
            "kty": "EC",
            "crv": "P-256",
            "x": part(point.x().map(|x| &x[..])),
            "y": part(point.y().map(|y| &y[..])),
        })
    }

    /// A statement, signed.
    pub(super) fn sign(&self, mut header: Value, claims: &Value) -> String {
        header["alg"] = "ES256".into();
        let said = format!("{}.{}", coded(header.to_string()), coded(claims.to_string()));
        let signature: Signature = self.0.sign(said.as_bytes());
        format!("{said}.{}", coded(signature.to_bytes()))
    }
}

pub(super) fn coded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The digest of a text, as it is written in tokens.
pub(super) fn digest(text: &str) -> String {
    coded(Sha256::digest(text))
}

/// Bytes nobody can guess.
pub(super) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    bytes
}

/// A name nobody can guess.
pub(super) fn secret() -> String {
    coded(random::<32>())
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}
