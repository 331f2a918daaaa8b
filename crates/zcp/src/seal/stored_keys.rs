//! Keys in a store: all servers that share it use the same ones, and follow when they are replaced.

use super::{Key, KeyRing, Keys, random};
use crate::{
    clock,
    store::{If, Store, StoreError, StoreResult},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::time::{sleep, timeout};

/// Where a store has the keys of all who use it.
const KEYS: &str = "keys";
/// How often a server reads the keys again.
const READ_EVERY: Duration = Duration::from_secs(30);
/// How often at most, if tokens come whose key is not known.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// How long a new key is known before tokens are sealed with it: several times [`READ_EVERY`], so
/// that whoever receives such a token has read the key.
const KNOWN_FIRST: Duration = Duration::from_secs(2 * 60);
/// How long tokens of a key are opened after another has taken its place.
const OPENS_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// The most keys that are kept.
const MOST: usize = 16;

/// What becomes of the keys that a new one replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OldKeys {
    /// They open what they have sealed for 24 hours after the new key is first used, which is two
    /// minutes after the rotation. Nobody notices.
    Retire,
    /// They are removed, and the new key is used at once: for keys that somebody else may know.
    /// Request states and cursors that are under way become invalid.
    Revoke,
}

/// What came of a rotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotated {
    /// The id of the new key, which its tokens begin with. It is no secret.
    pub id: String,
    /// When servers begin to seal with it.
    pub seals_from: SystemTime,
    /// How many keys there are, the new one included.
    pub keys: usize,
}

/// The keys of a store, oldest first.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    keys: Vec<Kept>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// 32 bytes, as base64url.
    key: String,
    /// In milliseconds since 1970; 0 for one that is known everywhere.
    created: u64,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("created", &self.created).finish_non_exhaustive()
    }
}

impl Kept {
    fn new(created: u64) -> Self {
        Self { key: URL_SAFE_NO_PAD.encode(random::<32>()), created }
    }

    fn key(&self) -> Option<Key> {
        let bytes = URL_SAFE_NO_PAD.decode(&self.key).ok()?;
        Some(Key::new(<[u8; 32]>::try_from(bytes).ok()?))
    }

    /// When tokens begin to be sealed with it.
    fn seals_from(&self) -> u64 {
        match self.created {
            0 => 0,
            created => created.saturating_add(milliseconds(KNOWN_FIRST)),
        }
    }
}

impl Record {
    fn read(bytes: &[u8]) -> StoreResult<Self> {
        // Earlier versions kept one key, and nothing else.
        if bytes.len() == 32 {
            let kept = Kept { key: URL_SAFE_NO_PAD.encode(bytes), created: 0 };
            return Ok(Self { keys: vec![kept] });
        }
        let record: Option<Self> = serde_json::from_slice(bytes).ok();
        let record = record.filter(|one| one.keys.iter().all(|kept| kept.key().is_some()));
        record
            .filter(|record| !record.keys.is_empty())
            .ok_or_else(|| StoreError::Unavailable("the sealing keys in it cannot be read".into()))
    }

    /// The keys as they are used at a time: the newest that everybody knows seals, and those that
    /// have not been replaced for long open.
    fn at(&self, now: u64) -> Option<Keys> {
        let seals = self.keys.iter().rposition(|kept| kept.seals_from() <= now).unwrap_or(0);
        let current = self.keys.get(seals)?.key()?;
        let mut old: Vec<Key> = self.keys.iter().skip(seals + 1).filter_map(Kept::key).collect();
        for (kept, next) in self.keys.iter().zip(&self.keys[1..]).take(seals) {
            if !is_retired(next, now) {
                old.extend(kept.key());
            }
        }
        Some(Keys { current, old })
    }

    /// Adds a key, and drops those that open nothing any more.
    fn rotate(&mut self, new: Kept, old: OldKeys, now: u64) {
        if old == OldKeys::Revoke {
            self.keys.clear();
        }
        let replaced: Vec<bool> =
            self.keys.iter().skip(1).map(|next| is_retired(next, now)).collect();
        let mut replaced = replaced.into_iter();
        self.keys.retain(|_| !replaced.next().unwrap_or(false));
        self.keys.push(new);
        let surplus = self.keys.len().saturating_sub(MOST);
        self.keys.drain(..surplus);
    }

    fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// Whether the key before this one has been replaced for so long that it opens nothing.
fn is_retired(next: &Kept, now: u64) -> bool {
    next.seals_from().saturating_add(milliseconds(OPENS_FOR)) <= now
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The keys of a store, which are made if there are none.
pub(super) async fn read(store: &dyn Store) -> StoreResult<Keys> {
    loop {
        if let Some(entry) = store.get(KEYS).await? {
            let keys = Record::read(&entry.value)?.at(clock::now_ms());
            let none = || StoreError::Unavailable("there are no sealing keys in it".into());
            return keys.ok_or_else(none);
        }
        let first = Record { keys: vec![Kept::new(0)] };
        store.put(KEYS, first.to_bytes(), If::Absent, None).await?;
    }
}

/// Puts a new key into a store.
pub(crate) async fn rotate(store: &dyn Store, old: OldKeys) -> StoreResult<Rotated> {
    loop {
        let held = store.get(KEYS).await?;
        let condition = held.as_ref().map_or(If::Absent, |held| If::Version(held.version));
        let mut record = match held {
            Some(held) => Record::read(&held.value)?,
            None => Record { keys: vec![] },
        };
        let now = clock::now_ms();
        let is_known = old == OldKeys::Revoke || record.keys.is_empty();
        let new = Kept::new(if is_known { 0 } else { now });
        let id = new.key().map(|key| URL_SAFE_NO_PAD.encode(key.id)).unwrap_or_default();
        let seals_from = new.seals_from().max(now);
        record.rotate(new, old, now);
        if store.put(KEYS, record.to_bytes(), condition, None).await? {
            let seals_from = SystemTime::UNIX_EPOCH + Duration::from_millis(seals_from);
            return Ok(Rotated { id, seals_from, keys: record.keys.len() });
        }
    }
}

impl KeyRing {
    /// Reads the keys again, now and then and when a token comes whose key is not known, if they
    /// are a store's.
    pub(crate) async fn follow(self, store: Arc<dyn Store>) {
        if !self.is_kept {
            return;
        }
        loop {
            let _ = timeout(READ_EVERY, self.unknown.notified()).await;
            match read(&*store).await {
                Ok(keys) => self.replace(keys),
                Err(error) => error.log("the sealing keys cannot be read again"),
            }
            sleep(READ_AGAIN).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Memory;

    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;

    fn ring(record: &Record, now: u64) -> KeyRing {
        KeyRing::of(record.at(now).unwrap())
    }

    #[test]
    fn a_new_key_seals_when_everybody_knows_it() {
        let mut record = Record { keys: vec![Kept::new(0)] };
        let begun = 1000 * HOUR;
        let before = ring(&record, begun);
        record.rotate(Kept::new(begun), OldKeys::Retire, begun);
        let (early, late) = (ring(&record, begun + MINUTE), ring(&record, begun + 3 * MINUTE));
        let (old, new) = (early.seal(b"x", b""), late.seal(b"x", b""));
        assert!(before.open(&old, b"").is_some(), "the old key still seals");
        assert!(before.open(&new, b"").is_none(), "the new key seals");
        assert!(early.open(&new, b"").is_some() && late.open(&old, b"").is_some());
        let (day, later) = (ring(&record, begun + 23 * HOUR), ring(&record, begun + 25 * HOUR));
        assert!(day.open(&old, b"").is_some());
        assert!(later.open(&old, b"").is_none() && later.open(&new, b"").is_some());
    }

    #[test]
    fn a_revoked_key_opens_nothing_and_old_ones_are_dropped() {
        let mut record = Record { keys: vec![Kept::new(0)] };
        let old = ring(&record, HOUR).seal(b"x", b"");
        record.rotate(Kept::new(0), OldKeys::Revoke, HOUR);
        assert!(ring(&record, HOUR).open(&old, b"").is_none());
        assert_eq!(record.keys.len(), 1);
        for day in 1..100 {
            record.rotate(Kept::new(day * 48 * HOUR), OldKeys::Retire, day * 48 * HOUR);
            assert!(record.keys.len() <= 3, "{} keys on day {day}", record.keys.len());
        }
        for second in 0..100 {
            record.rotate(Kept::new(9000 * HOUR + second), OldKeys::Retire, 9000 * HOUR + second);
        }
        assert_eq!(record.keys.len(), MOST);
        assert!(!format!("{record:?}").contains(&record.keys[0].key));
    }

    #[tokio::test]
    async fn a_key_of_an_earlier_version_opens_and_can_be_rotated() {
        let store = Memory::new();
        store.put(KEYS, Bytes::copy_from_slice(&[7; 32]), If::Always, None).await.unwrap();
        let token = KeyRing::new([7; 32]).seal(b"x", b"");
        assert!(KeyRing::kept_in(&store).await.unwrap().open(&token, b"").is_some());
        let rotated = rotate(&store, OldKeys::Retire).await.unwrap();
        assert_eq!(rotated.keys, 2);
        let ring = KeyRing::kept_in(&store).await.unwrap();
        assert!(ring.open(&token, b"").is_some());
        store.put(KEYS, Bytes::from("{}"), If::Always, None).await.unwrap();
        assert!(KeyRing::kept_in(&store).await.is_err(), "what is no key is an error");
    }
}
