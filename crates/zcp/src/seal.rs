//! Sealed tokens: what a server hands out and takes back without remembering it.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use sha2::{Digest, Sha256};

use crate::store::{If, Store, StoreError, StoreResult};

const ID: usize = 4;
const NONCE: usize = 24;
/// Where a store has the key of all who use it.
const KEYS: &str = "keys";

/// The keys that seal and open tokens. The current key seals; every key opens, so that tokens
/// outlive a rotation. Replicas that share the keys open each other's tokens.
///
/// A token is the key's id, a random nonce and the ciphertext, as base64url.
#[derive(Clone)]
pub struct KeyRing {
    current: Key,
    old: Vec<Key>,
}

impl KeyRing {
    /// A ring with a random key: tokens are good until this process ends.
    #[must_use]
    pub fn generate() -> Self {
        Self::new(random())
    }

    /// The ring of all who use a store: whoever comes first makes it. Whoever can read the store
    /// can open what it seals.
    pub async fn kept_in(store: &dyn Store) -> StoreResult<Self> {
        loop {
            if let Some(entry) = store.get(KEYS).await? {
                let key = <[u8; 32]>::try_from(&entry.value[..]);
                let odd = |_| StoreError::Unavailable("what it has for a key is none".into());
                return key.map(Self::new).map_err(odd);
            }
            let new = Bytes::copy_from_slice(&random::<32>());
            store.put(KEYS, new, If::Absent, None).await?;
        }
    }

    /// A ring with one key, which must be random.
    #[must_use]
    pub fn new(current: [u8; 32]) -> Self {
        Self { current: Key::new(current), old: Vec::new() }
    }

    /// Also opens what this key has sealed.
    #[must_use]
    pub fn with_old(mut self, key: [u8; 32]) -> Self {
        self.old.push(Key::new(key));
        self
    }

    /// A ring that seals with a new key and still opens what this one has sealed.
    #[must_use]
    pub fn rotate(&self, new: [u8; 32]) -> Self {
        let old = self.keys().cloned().collect();
        Self { current: Key::new(new), old }
    }

    /// Makes a token that nobody else can read or change, and that opens only with the same
    /// `bound_to`.
    #[must_use]
    pub fn seal(&self, plain: &[u8], bound_to: &[u8]) -> String {
        self.seal_with(random(), plain, bound_to)
    }

    /// Like [`seal`](Self::seal), but the same for the same input: for what is compared or kept.
    #[must_use]
    pub fn seal_stable(&self, plain: &[u8], bound_to: &[u8]) -> String {
        let mut hash = Sha256::new_with_prefix(self.current.nonces);
        hash.update(bound_to.len().to_le_bytes());
        hash.update(bound_to);
        hash.update(plain);
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&hash.finalize()[..NONCE]);
        self.seal_with(nonce, plain, bound_to)
    }

    fn seal_with(&self, nonce: [u8; NONCE], plain: &[u8], bound_to: &[u8]) -> String {
        let sealed = self
            .current
            .cipher
            .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: bound_to })
            .expect("the text is shorter than the cipher's 256 GiB");
        URL_SAFE_NO_PAD.encode([&self.current.id[..], &nonce, &sealed].concat())
    }

    /// What a token holds, if a key of this ring sealed it with the same `bound_to`.
    #[must_use]
    pub fn open(&self, token: &str, bound_to: &[u8]) -> Option<Vec<u8>> {
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (id, token) = token.split_first_chunk::<ID>()?;
        let (nonce, sealed) = token.split_first_chunk::<NONCE>()?;
        let nonce = XNonce::from(*nonce);
        self.keys()
            .filter(|key| key.id == *id)
            .find_map(|key| key.cipher.decrypt(&nonce, Payload { msg: sealed, aad: bound_to }).ok())
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.current).chain(&self.old)
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.keys().count()).finish()
    }
}

/// One key. The cipher holds it, and wipes it when dropped.
#[derive(Clone)]
struct Key {
    id: [u8; ID],
    /// What nonces that depend on the text are made with.
    nonces: [u8; 32],
    cipher: XChaCha20Poly1305,
}

impl Key {
    fn new(key: [u8; 32]) -> Self {
        let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(key));
        let nonces = Sha256::new_with_prefix(b"nonces").chain_update(key).finalize().into();
        Self { id: [a, b, c, d], nonces, cipher: XChaCha20Poly1305::new(&key.into()) }
    }
}

/// A short name for bytes: equal bytes, equal names.
pub(crate) fn digest(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(bytes))
}

/// Bytes nobody can guess.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_only_for_what_it_is_bound_to() {
        let ring = KeyRing::generate();
        let token = ring.seal(b"state", b"alice");
        assert_eq!(ring.open(&token, b"alice"), Some(b"state".to_vec()));
        assert_eq!(ring.open(&token, b"bob"), None);
        assert_eq!(KeyRing::generate().open(&token, b"alice"), None);
        assert_eq!(ring.open(&ring.seal(b"", b""), b""), Some(Vec::new()));
    }

    #[test]
    fn a_changed_token_does_not_open() {
        let ring = KeyRing::new([7; 32]);
        let token = ring.seal(b"state", b"alice");
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(ring.open(&String::from_utf8(changed).unwrap(), b"alice"), None);
            assert_eq!(ring.open(&token[..at], b"alice"), None);
        }
        assert_eq!(ring.open("not base64 ü", b"alice"), None);
    }

    #[test]
    fn two_tokens_are_never_alike() {
        let ring = KeyRing::new([7; 32]);
        assert_ne!(ring.seal(b"state", b""), ring.seal(b"state", b""));
    }

    #[test]
    fn a_rotated_ring_opens_old_tokens_and_seals_new_ones() {
        let old = KeyRing::new([1; 32]);
        let new = old.rotate([2; 32]);
        assert!(new.open(&old.seal(b"state", b""), b"").is_some());
        assert!(old.open(&new.seal(b"state", b""), b"").is_none());
        let replica = KeyRing::new([3; 32]).with_old([2; 32]);
        assert!(replica.open(&new.seal(b"state", b""), b"").is_some());
    }

    #[test]
    fn debug_shows_no_key() {
        assert_eq!(format!("{:?}", KeyRing::new([9; 32])), "KeyRing { keys: 1 }");
    }
}
