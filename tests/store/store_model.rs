//! Stores agree: whatever is done to them, SQLite and Redis answer as memory does.

use bytes::Bytes;
use proptest::{collection::vec, prelude::*};
use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};
use tokio::runtime::Runtime;
use zcp::store::{Bound, If, Memory, Store, StoreError, redis::Redis, sqlite::Sqlite};
use zcp_tests::redis::RedisServer;

/// Something done to a store.
#[derive(Debug, Clone)]
enum Deed {
    Get(usize),
    Put {
        key: usize,
        value: u8,
        when: When,
    },
    Remove(usize),
    Append {
        log: usize,
        /// How long the entry is.
        length: usize,
        entries: usize,
        bytes: usize,
    },
    /// After the position that was given so many appends ago.
    After {
        log: usize,
        ago: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum When {
    Always,
    Absent,
    /// At the version last read.
    Read,
    /// At one that was never given.
    Never,
}

/// What came of it, without what each store numbers for itself.
#[derive(Debug, PartialEq)]
enum Outcome {
    Value(Option<Bytes>),
    Written(bool),
    Done,
    Items(Vec<Bytes>),
    Gone,
    TooLarge,
}

fn deed() -> impl Strategy<Value = Deed> {
    let when =
        prop_oneof![Just(When::Always), Just(When::Absent), Just(When::Read), Just(When::Never)];
    prop_oneof![
        2 => (0..3usize).prop_map(Deed::Get),
        4 => (0..3usize, any::<u8>(), when)
            .prop_map(|(key, value, when)| Deed::Put { key, value, when }),
        1 => (0..3usize).prop_map(Deed::Remove),
        6 => (0..3usize, 0..12usize, 0..5usize, 0..30usize).prop_map(
            |(log, length, entries, bytes)| Deed::Append { log, length, entries, bytes }
        ),
        4 => (0..3usize, 0..7usize).prop_map(|(log, ago)| Deed::After { log, ago }),
    ]
}

/// A store, and the numbers it gave.
struct Numbered<'a> {
    store: &'a dyn Store,
    appended: u8,
    versions: HashMap<usize, u64>,
    positions: HashMap<usize, Vec<u64>>,
}

impl<'a> Numbered<'a> {
    fn new(store: &'a dyn Store) -> Self {
        Self { store, appended: 0, versions: HashMap::new(), positions: HashMap::new() }
    }

    async fn do_it(&mut self, deed: &Deed) -> Outcome {
        match *deed {
            Deed::Get(key) => {
                let entry = self.store.get(&name(key)).await.expect("it is there");
                if let Some(entry) = &entry {
                    self.versions.insert(key, entry.version);
                }
                Outcome::Value(entry.map(|entry| entry.value))
            }
            Deed::Put { key, value, when } => {
                let condition = match when {
                    When::Always => If::Always,
                    When::Absent => If::Absent,
                    When::Read => If::Version(self.versions.get(&key).copied().unwrap_or(0)),
                    When::Never => If::Version(u64::MAX / 2),
                };
                let (key, value) = (name(key), Bytes::from(vec![value]));
                let put = self.store.put(&key, value, condition, None).await;
                Outcome::Written(put.expect("it is there"))
            }
            Deed::Remove(key) => {
                self.store.remove(&name(key)).await.expect("it is there");
                // Positions of an earlier life may be gone, or lead to the beginning of this one.
                self.positions.remove(&key);
                Outcome::Done
            }
            Deed::Append { log, length, entries, bytes } => {
                // Entries differ, so that none passes for another.
                self.appended = self.appended.wrapping_add(1);
                let value = Bytes::from(vec![self.appended; length]);
                let bound = Bound { entries, bytes };
                let position = match self.store.append(&name(log), value, bound, None).await {
                    Err(StoreError::TooLarge { bytes, limit, .. }) => {
                        assert_eq!((bytes, limit), (length, bound.bytes));
                        return Outcome::TooLarge;
                    }
                    position => position.expect("it is there"),
                };
                let given = self.positions.entry(log).or_default();
                assert!(given.last().is_none_or(|last| *last < position), "positions grow");
                given.push(position);
                Outcome::Done
            }
            Deed::After { log, ago } => {
                let given = self.positions.get(&log).map(Vec::as_slice).unwrap_or_default();
                let position = match ago {
                    0 => 0,
                    1 => given.last().map_or(0, |last| last + 1),
                    _ => given.len().checked_sub(ago - 1).map_or(0, |at| given[at]),
                };
                match self.store.after(&name(log), position).await {
                    Ok(items) => {
                        let sorted = items.windows(2).all(|two| two[0].0 < two[1].0);
                        assert!(sorted && items.iter().all(|(at, _)| *at > position));
                        Outcome::Items(items.into_iter().map(|(_, value)| value).collect())
                    }
                    Err(StoreError::Gone) => Outcome::Gone,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

fn name(key: usize) -> String {
    format!("key {key}")
}

/// Does the same to memory and to another store, and expects the same of both.
async fn agree(other: &dyn Store, deeds: &[Deed]) {
    let memory = Memory::new();
    let (mut one, mut two) = (Numbered::new(&memory), Numbered::new(other));
    for (at, deed) in deeds.iter().enumerate() {
        let (ours, theirs) = (one.do_it(deed).await, two.do_it(deed).await);
        assert_eq!(ours, theirs, "at {at}, {deed:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn sqlite_answers_as_memory_does(deeds in vec(deed(), 1..60)) {
        let folder = std::env::temp_dir().join(format!("zcp-model-{}", std::process::id()));
        {
            let store = Sqlite::open(folder.join("store.sqlite")).expect("it opens");
            Runtime::new().expect("a runtime").block_on(agree(&store, &deeds));
        }
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}

#[test]
fn redis_answers_as_memory_does() {
    let runtime = Runtime::new().expect("a runtime");
    let server = runtime.block_on(RedisServer::new());
    let case = AtomicUsize::new(0);
    proptest!(ProptestConfig { cases: 64, ..ProptestConfig::default() }, |(deeds in vec(deed(), 1..60))| {
        let name = format!("case {}", case.fetch_add(1, Ordering::Relaxed));
        runtime.block_on(async {
            let store = Redis::named(&server.url(), &name).expect("a URL");
            agree(&store, &deeds).await;
        });
    });
}
