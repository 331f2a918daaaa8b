//! Sealed tokens: what a server hands out and takes back without remembering it.

mod stored_keys;

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use chacha20poly1305::{
    KeyInit, XChaCha20Poly1305, XNonce,
    aead::{Aead, Payload},
};
use sha2::{Digest, Sha256};

use tokio::sync::Notify;

use crate::store::{Store, StoreResult};

pub(crate) use stored_keys::rotate;
pub use stored_keys::{OldKeys, Rotated};

const ID: usize = 4;
const NONCE: usize = 24;

/// The keys that seal and open tokens. The current key seals; every key opens, so that tokens
/// outlive a rotation. Replicas that share the keys open each other's tokens.
///
/// A token is the key's id, a random nonce and the ciphertext, as base64url.
#[derive(Clone)]
pub struct KeyRing {
    // A std lock, never held across an await. Clones share the keys: they may be replaced.
    keys: Arc<RwLock<Keys>>,
    /// They are a store's.
    is_kept: bool,
    /// A token came whose key is not known.
    unknown: Arc<Notify>,
}

struct Keys {
    current: Key,
    old: Vec<Key>,
}

impl Keys {
    fn all(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.current).chain(&self.old)
    }
}

impl KeyRing {
    /// A ring with a random key: tokens are good until this process ends.
    #[must_use]
    pub fn generate() -> Self {
        Self::new(random())
    }

    /// The ring of all servers that share a store: the first makes the keys. They are stored
    /// unencrypted, so whoever can read the store can open what they seal.
    ///
    /// The keys can be rotated while servers run ([`operate::rotate_keys`]). A server reads them
    /// again every 30 seconds from the store it was given ([`Server::shared_store`]), and when a
    /// token comes whose key it does not know.
    ///
    /// [`operate::rotate_keys`]: crate::operate::rotate_keys
    /// [`Server::shared_store`]: crate::Server::shared_store
    pub async fn kept_in(store: &dyn Store) -> StoreResult<Self> {
        Ok(Self { is_kept: true, ..Self::of(stored_keys::read(store).await?) })
    }

    fn of(keys: Keys) -> Self {
        Self { keys: Arc::new(RwLock::new(keys)), is_kept: false, unknown: Arc::default() }
    }

    /// A ring with one key, which must be random.
    #[must_use]
    pub fn new(current: [u8; 32]) -> Self {
        Self::of(Keys { current: Key::new(current), old: Vec::new() })
    }

    /// Also opens what this key has sealed.
    #[must_use]
    pub fn with_old(self, key: [u8; 32]) -> Self {
        let keys = self.keys();
        let old = keys.old.iter().cloned().chain([Key::new(key)]).collect();
        Self::of(Keys { current: keys.current.clone(), old })
    }

    /// A ring that seals with a new key and still opens what this one has sealed.
    #[must_use]
    pub fn rotate(&self, new: [u8; 32]) -> Self {
        let old = self.keys().all().cloned().collect();
        Self::of(Keys { current: Key::new(new), old })
    }

    /// Makes a token that nobody else can read or change, and that opens only with the same
    /// `bound_to`.
    #[must_use]
    pub fn seal(&self, plain: &[u8], bound_to: &[u8]) -> String {
        seal_with(&self.keys().current, random(), plain, bound_to)
    }

    /// Like [`seal`](Self::seal), but the same for the same input: for what is compared or kept.
    #[must_use]
    pub fn seal_stable(&self, plain: &[u8], bound_to: &[u8]) -> String {
        let keys = self.keys();
        let mut hash = Sha256::new_with_prefix(keys.current.nonces);
        hash.update(bound_to.len().to_le_bytes());
        hash.update(bound_to);
        hash.update(plain);
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&hash.finalize()[..NONCE]);
        seal_with(&keys.current, nonce, plain, bound_to)
    }

    /// What a token holds, if a key of this ring sealed it with the same `bound_to`.
    #[must_use]
    pub fn open(&self, token: &str, bound_to: &[u8]) -> Option<Vec<u8>> {
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (id, token) = token.split_first_chunk::<ID>()?;
        let (nonce, sealed) = token.split_first_chunk::<NONCE>()?;
        let nonce = XNonce::from(*nonce);
        let keys = self.keys();
        let mut known = keys.all().filter(|key| key.id == *id).peekable();
        if known.peek().is_none() {
            self.unknown.notify_one();
        }
        known
            .find_map(|key| key.cipher.decrypt(&nonce, Payload { msg: sealed, aad: bound_to }).ok())
    }

    /// The id of the key that seals: what was sealed before with another is to be made anew.
    pub(crate) fn current_id(&self) -> [u8; ID] {
        self.keys().current.id
    }

    fn keys(&self) -> RwLockReadGuard<'_, Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}

fn seal_with(key: &Key, nonce: [u8; NONCE], plain: &[u8], bound_to: &[u8]) -> String {
    let sealed = key
        .cipher
        .encrypt(&XNonce::from(nonce), Payload { msg: plain, aad: bound_to })
        .expect("the text is shorter than the cipher's 256 GiB");
    URL_SAFE_NO_PAD.encode([&key.id[..], &nonce, &sealed].concat())
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing").field("keys", &self.keys().all().count()).finish()
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
