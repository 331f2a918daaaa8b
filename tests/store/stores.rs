//! What every store promises, kept by each of them; and what each does when it is in trouble.
#![expect(clippy::unwrap_used, reason = "a contract is a long row of assertions")]

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::join_all};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    task::JoinSet,
};
use zcp::{
    Ctx, KeyRing, Server,
    operate::{self, OldKeys},
    store::{
        Bound, Browse, If, MAX_KEY, MAX_VALUE, Memory, Store, StoreError, redis::Redis,
        sqlite::Sqlite,
    },
    tool,
};
use zcp_tests::{
    away::{at, first_id, pair, resumable, resume},
    call,
    examples::zcp,
    folder::Folder,
    http::HttpServer,
    modern,
    redis::RedisServer,
    request, response,
    socket::Socket,
    text,
};

const SHORT: Option<Duration> = Some(Duration::from_millis(400));

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A file of a test's own, in a folder that is made with it.
struct File {
    path: PathBuf,
    _folder: Folder,
}

impl File {
    fn new(name: &str) -> Self {
        let folder = Folder::new(&format!("store-{name}"));
        Self { path: folder.0.join("made/store.sqlite"), _folder: folder }
    }

    fn open(&self) -> Sqlite {
        Sqlite::open(&self.path).expect("it opens")
    }
}

/// Everything the trait says, of one store that two may use.
async fn contract(one: Arc<dyn Browse>, two: Arc<dyn Browse>) {
    writes_have_conditions(&*one, &*two).await;
    values_expire(&*one).await;
    logs_grow(&*one, &*two).await;
    logs_are_bounded_and_expire(&*one).await;
    logs_are_bounded_in_bytes(&*one, &*two).await;
    what_is_too_large_is_refused(&*one).await;
    watchers_wake(&*one, &*two).await;
    let (left, right): (Arc<dyn Store>, Arc<dyn Store>) = (one.clone(), two.clone());
    only_one_wins(&left, &right).await;
    anything_can_be_kept(&*one).await;
    keys_can_be_looked_through(&*one, &*two).await;
}

async fn keys_can_be_looked_through(one: &dyn Browse, two: &dyn Browse) {
    for key in ["odd*/b", "odd*/a", "odd*", "odd", "oddx/c", "other"] {
        one.put(key, bytes("1"), If::Always, None).await.unwrap();
    }
    one.put("odd*/short", bytes("1"), If::Always, SHORT).await.unwrap();
    one.append("odd*/log", bytes("1"), Bound::entries(1), None).await.unwrap();
    assert_eq!(two.keys("odd*/").await.unwrap(), ["odd*/a", "odd*/b", "odd*/short"]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(two.keys("odd*").await.unwrap(), ["odd*", "odd*/a", "odd*/b"]);
    assert_eq!(two.keys("nothing").await, Ok(vec![]));
    for key in ["odd*/b", "odd*/a", "odd*", "odd", "oddx/c", "other", "odd*/log"] {
        one.remove(key).await.unwrap();
    }
}

async fn writes_have_conditions(one: &dyn Store, two: &dyn Store) {
    assert_eq!(one.get("a").await, Ok(None));
    assert_eq!(one.put("a", bytes("0"), If::Version(1), None).await, Ok(false));
    assert_eq!(one.put("a", bytes("1"), If::Absent, None).await, Ok(true));
    assert_eq!(two.put("a", bytes("2"), If::Absent, None).await, Ok(false));
    let read = two.get("a").await.unwrap().unwrap();
    assert_eq!(read.value, bytes("1"));
    assert_eq!(two.put("a", bytes("3"), If::Version(read.version), None).await, Ok(true));
    assert_eq!(one.put("a", bytes("4"), If::Version(read.version), None).await, Ok(false));
    assert_eq!(one.get("a").await.unwrap().unwrap().value, bytes("3"));
    let last = one.get("a").await.unwrap().unwrap();
    assert_eq!(one.remove("a").await, Ok(()));
    assert_eq!(two.get("a").await, Ok(None));
    assert_eq!(one.put("a", bytes("5"), If::Always, None).await, Ok(true));
    // A version does not come back, not even after a removal.
    assert_eq!(one.put("a", bytes("6"), If::Version(last.version), None).await, Ok(false));
    assert_eq!(one.remove("a").await, Ok(()));
    assert_eq!(one.remove("a").await, Ok(()));
}

async fn values_expire(store: &dyn Store) {
    store.put("short", bytes("1"), If::Always, SHORT).await.unwrap();
    store.put("long", bytes("1"), If::Always, SHORT).await.unwrap();
    store.put("long", bytes("2"), If::Always, None).await.unwrap();
    store.put("never", bytes("3"), If::Always, Some(Duration::MAX)).await.unwrap();
    assert!(store.get("short").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(store.get("short").await, Ok(None));
    assert_eq!(store.get("long").await.unwrap().unwrap().value, bytes("2"));
    assert!(store.get("never").await.unwrap().is_some());
    assert_eq!(store.put("short", bytes("4"), If::Absent, SHORT).await, Ok(true));
    for key in ["short", "long", "never"] {
        store.remove(key).await.unwrap();
    }
}

async fn logs_grow(one: &dyn Store, two: &dyn Store) {
    assert_eq!(one.after("log", 0).await, Ok(vec![]));
    assert_eq!(one.after("log", 7).await, Ok(vec![]), "an absent log is empty");
    let first = one.append("log", bytes("a"), Bound::entries(9), None).await.unwrap();
    let second = two.append("log", bytes("b"), Bound::entries(9), None).await.unwrap();
    assert!(first > 0 && second > first);
    let both = vec![(first, bytes("a")), (second, bytes("b"))];
    assert_eq!(one.after("log", 0).await, Ok(both.clone()));
    assert_eq!(two.after("log", first).await, Ok(both[1..].to_vec()));
    assert_eq!(one.after("log", second).await, Ok(vec![]));
    assert_eq!(one.after("log", second + 1).await, Err(StoreError::Gone));
    assert_eq!(one.after("log", u64::MAX).await, Err(StoreError::Gone));
    one.remove("log").await.unwrap();
    assert_eq!(two.after("log", 0).await, Ok(vec![]));
    // Positions go on growing.
    let third = one.append("log", bytes("c"), Bound::entries(9), None).await.unwrap();
    assert!(third > second);
    assert_eq!(one.after("log", first).await, Err(StoreError::Gone));
    assert_eq!(one.after("log", 0).await, Ok(vec![(third, bytes("c"))]));
    one.remove("log").await.unwrap();
}

async fn logs_are_bounded_and_expire(store: &dyn Store) {
    let mut positions = vec![];
    for text in ["a", "b", "c", "d"] {
        positions.push(store.append("few", bytes(text), Bound::entries(2), None).await.unwrap());
    }
    let held = vec![(positions[2], bytes("c")), (positions[3], bytes("d"))];
    assert_eq!(store.after("few", 0).await, Ok(held.clone()));
    assert_eq!(store.after("few", positions[0]).await, Err(StoreError::Gone));
    assert_eq!(store.after("few", positions[1]).await, Ok(held.clone()), "nothing is missing");
    assert_eq!(store.after("few", positions[2]).await, Ok(held[1..].to_vec()));
    store.remove("few").await.unwrap();

    store.append("brief", bytes("a"), Bound::entries(9), SHORT).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    let last = store.append("brief", bytes("b"), Bound::entries(9), SHORT).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(store.after("brief", 0).await.unwrap().len(), 2, "the last append counts");
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(store.after("brief", 0).await, Ok(vec![]));
    let next = store.append("brief", bytes("c"), Bound::entries(9), None).await.unwrap();
    assert!(next > last);
    assert_eq!(store.after("brief", 0).await, Ok(vec![(next, bytes("c"))]));
    store.remove("brief").await.unwrap();
}

async fn logs_are_bounded_in_bytes(one: &dyn Store, two: &dyn Store) {
    let bound = Bound { entries: 5, bytes: 10 };
    let mut positions = vec![];
    for (store, text) in [(one, "aaaa"), (two, "bbbb"), (one, "cccc"), (two, "")] {
        positions.push(store.append("heavy", bytes(text), bound, None).await.unwrap());
    }
    let held = vec![
        (positions[1], bytes("bbbb")),
        (positions[2], bytes("cccc")),
        (positions[3], bytes("")),
    ];
    assert_eq!(one.after("heavy", 0).await, Ok(held.clone()), "the oldest goes first");
    assert_eq!(two.after("heavy", positions[0]).await, Ok(held), "nothing is missing");
    let refused = one.append("heavy", bytes("eleven byte"), bound, None).await;
    let too_large = StoreError::TooLarge { what: "entry", bytes: 11, limit: 10 };
    assert_eq!(refused, Err(too_large));
    assert_eq!(one.after("heavy", 0).await.unwrap().len(), 3, "a refused entry changes nothing");
    let last = one.append("heavy", bytes("ten bytes!"), bound, None).await.unwrap();
    let held = vec![(positions[3], bytes("")), (last, bytes("ten bytes!"))];
    assert_eq!(two.after("heavy", 0).await, Ok(held));
    assert_eq!(two.after("heavy", positions[1]).await, Err(StoreError::Gone));
    // What was dropped is not counted any more, and a removed log begins anew.
    for text in ["dddd", "eeee"] {
        one.append("heavy", bytes(text), bound, None).await.unwrap();
    }
    assert_eq!(one.after("heavy", 0).await.unwrap().len(), 2);
    one.remove("heavy").await.unwrap();
    for text in ["ffff", "gggg", "hh"] {
        two.append("heavy", bytes(text), bound, SHORT).await.unwrap();
    }
    assert_eq!(one.after("heavy", 0).await.unwrap().len(), 3);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let alone = one.append("heavy", bytes("ten bytes!"), bound, None).await.unwrap();
    assert_eq!(two.after("heavy", 0).await, Ok(vec![(alone, bytes("ten bytes!"))]));
    one.remove("heavy").await.unwrap();
}

async fn what_is_too_large_is_refused(store: &dyn Store) {
    let large = Bytes::from(vec![7; MAX_VALUE + 1]);
    let too_large = |what, limit| Err(StoreError::TooLarge { what, bytes: limit + 1, limit });
    let put = store.put("huge", large.clone(), If::Always, None).await;
    assert_eq!(put.map(drop), too_large("value", MAX_VALUE));
    let boundless = Bound { entries: 5, bytes: usize::MAX };
    let appended = store.append("huge", large, boundless, None).await;
    assert_eq!(appended.map(drop), too_large("entry", MAX_VALUE));
    let key = "k".repeat(MAX_KEY + 1);
    let put = store.put(&key, bytes("1"), If::Always, None).await;
    assert_eq!(put.map(drop), too_large("key", MAX_KEY));
    let appended = store.append(&key, bytes("1"), boundless, None).await;
    assert_eq!(appended.map(drop), too_large("key", MAX_KEY));
    assert_eq!(store.get(&key).await, Ok(None));
    assert_eq!(store.after(&key, 0).await, Ok(vec![]));
    assert_eq!(store.remove(&key).await, Ok(()));
    let key = "k".repeat(MAX_KEY);
    assert_eq!(store.put(&key, bytes("1"), If::Always, None).await, Ok(true));
    store.append(&key, bytes("1"), boundless, None).await.unwrap();
    assert_eq!(store.after(&key, 0).await.unwrap().len(), 1);
    store.remove(&key).await.unwrap();
}

async fn watchers_wake(one: &dyn Store, two: &dyn Store) {
    let mut grew = one.watch("watched");
    for writer in [one, two] {
        // News from before may still be under way.
        while tokio::time::timeout(Duration::from_millis(300), grew.next()).await.is_ok() {}
        writer.append("other", bytes("a"), Bound::entries(9), None).await.unwrap();
        writer.append("watched", bytes("a"), Bound::entries(9), None).await.unwrap();
        let woken = tokio::time::timeout(Duration::from_secs(5), grew.next()).await;
        assert_eq!(woken.expect("in time"), Some(()));
    }
    drop(grew);
    one.remove("watched").await.unwrap();
    one.remove("other").await.unwrap();
}

async fn only_one_wins(one: &Arc<dyn Store>, two: &Arc<dyn Store>) {
    let tries = (0..50).map(|number| {
        let store = if number % 2 == 0 { one.clone() } else { two.clone() };
        async move { store.put("once", Bytes::new(), If::Absent, SHORT).await.unwrap() }
    });
    let won = join_all(tries).await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
    // Each adds one, however many try: nobody's is lost.
    one.put("sum", bytes("0"), If::Always, None).await.unwrap();
    let adding = (0..20).map(|number| {
        let store = if number % 2 == 0 { one.clone() } else { two.clone() };
        async move {
            loop {
                let held = store.get("sum").await.unwrap().unwrap();
                let sum: u32 = str::from_utf8(&held.value).unwrap().parse().unwrap();
                let next = bytes(&(sum + 1).to_string());
                if store.put("sum", next, If::Version(held.version), None).await.unwrap() {
                    return;
                }
            }
        }
    });
    join_all(adding).await;
    assert_eq!(one.get("sum").await.unwrap().unwrap().value, bytes("20"));
    // Appends of many have an order, the same for all.
    let appending = (0..50).map(|number| {
        let store = if number % 2 == 0 { one.clone() } else { two.clone() };
        async move {
            store
                .append("many", bytes(&number.to_string()), Bound::entries(100), None)
                .await
                .unwrap()
        }
    });
    let mut positions = join_all(appending).await;
    positions.sort_unstable();
    positions.dedup();
    assert_eq!(positions.len(), 50);
    let seen = one.after("many", 0).await.unwrap();
    assert_eq!(seen.iter().map(|(position, _)| *position).collect::<Vec<_>>(), positions);
    assert_eq!(two.after("many", 0).await.unwrap(), seen);
    for key in ["once", "sum", "many"] {
        one.remove(key).await.unwrap();
    }
}

async fn anything_can_be_kept(store: &dyn Store) {
    let odd: Vec<u8> = (0..=255).collect();
    for key in ["", "a b", "é\u{1F600}", "a:b*c?[d]", "\0", "'; DROP TABLE kept; --"] {
        store.put(key, Bytes::from(odd.clone()), If::Always, None).await.unwrap();
        assert_eq!(store.get(key).await.unwrap().unwrap().value, odd, "{key:?}");
        let position =
            store.append(key, Bytes::from(odd.clone()), Bound::entries(9), None).await.unwrap();
        assert_eq!(store.after(key, 0).await, Ok(vec![(position, Bytes::from(odd.clone()))]));
        store.remove(key).await.unwrap();
        assert_eq!(store.get(key).await, Ok(None));
        assert_eq!(store.after(key, 0).await, Ok(vec![]));
    }
    let large = Bytes::from(vec![7; 4 * 1024 * 1024]);
    store.put("large", large.clone(), If::Always, None).await.unwrap();
    assert_eq!(store.get("large").await.unwrap().unwrap().value, large);
    store.remove("large").await.unwrap();
}

#[tokio::test]
async fn memory_keeps_the_contract() {
    let store: Arc<dyn Browse> = Arc::new(Memory::new());
    contract(store.clone(), store).await;
}

#[tokio::test]
async fn sqlite_keeps_the_contract() {
    let file = File::new("contract");
    let (one, two) = (Arc::new(file.open()), Arc::new(file.open()));
    contract(one.clone(), one.clone()).await;
    contract(one, two).await;
}

#[tokio::test]
async fn redis_keeps_the_contract() {
    let server = RedisServer::new().await;
    let (one, two) = (Redis::new(&server.url()).unwrap(), Redis::new(&server.url()).unwrap());
    contract(Arc::new(one), Arc::new(two)).await;
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let (file, mut server) = (File::new("restart"), RedisServer::new().await);
    let write = async |store: &dyn Store| {
        store.put("a", bytes("1"), If::Always, None).await.unwrap();
        store.append("log", bytes("x"), Bound::entries(9), None).await.unwrap()
    };
    let position = {
        let store = file.open();
        write(&store).await
    };
    let store = file.open();
    assert_eq!(store.get("a").await.unwrap().unwrap().value, bytes("1"));
    assert_eq!(store.after("log", 0).await, Ok(vec![(position, bytes("x"))]));
    assert!(store.append("log", bytes("y"), Bound::entries(9), None).await.unwrap() > position);

    let store = Redis::new(&server.url()).unwrap();
    let position = write(&store).await;
    server.kill();
    let error = store.get("a").await.expect_err("it is not there");
    assert!(matches!(&error, StoreError::Unavailable(why) if why.contains("redis")), "{error}");
    let mut grew = store.watch("log");
    server.start().await;
    // It comes back by itself.
    let reading = async {
        while store.get("a").await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        store.get("a").await.unwrap().unwrap().value
    };
    let value = tokio::time::timeout(Duration::from_secs(10), reading).await.expect("in time");
    assert_eq!(value, bytes("1"));
    assert_eq!(store.after("log", 0).await, Ok(vec![(position, bytes("x"))]));
    let woken = tokio::time::timeout(Duration::from_secs(10), grew.next()).await;
    assert_eq!(woken.expect("whoever waits looks again"), Some(()));
}

/// What an earlier version made of a log, which did not count its bytes.
const EARLIER: &str = "
    CREATE TABLE logs (
        log TEXT PRIMARY KEY, last INTEGER NOT NULL, ends INTEGER
    ) WITHOUT ROWID;
    CREATE TABLE items (
        log TEXT NOT NULL, position INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (log, position)
    ) WITHOUT ROWID;
    INSERT INTO logs VALUES ('log', 4, NULL);
    INSERT INTO items VALUES ('log', 3, x'61616161'), ('log', 4, x'62626262');
";

#[tokio::test]
async fn logs_of_an_earlier_version_are_kept_and_bounded() {
    let (file, server) = (File::new("earlier"), RedisServer::new().await);
    std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
    let earlier = rusqlite::Connection::open(&file.path).unwrap();
    earlier.execute_batch(EARLIER).unwrap();
    server
        .say(&[
            "XADD {zcp}:items:log 3-0 v aaaa",
            "XADD {zcp}:items:log 4-0 v bbbb",
            "HSET {zcp}:log:log dropped 2 last 4",
            "SET {zcp}:counter:position 4",
        ])
        .await;
    let redis = Redis::new(&server.url()).unwrap();
    let stores: [&dyn Store; 2] = [&file.open(), &redis];
    for store in stores {
        let held = vec![(3, bytes("aaaa")), (4, bytes("bbbb"))];
        assert_eq!(store.after("log", 2).await, Ok(held));
        let bound = Bound { entries: 9, bytes: 10 };
        assert_eq!(store.append("log", bytes("cc"), bound, None).await, Ok(5));
        assert_eq!(store.after("log", 2).await.unwrap().len(), 3, "ten bytes fit");
        assert_eq!(store.append("log", bytes("d"), bound, None).await, Ok(6));
        let held = vec![(4, bytes("bbbb")), (5, bytes("cc")), (6, bytes("d"))];
        assert_eq!(store.after("log", 0).await, Ok(held));
    }
    drop(earlier);
    assert_eq!(file.open().after("log", 0).await.unwrap().len(), 3, "it opens again");
}

#[tokio::test]
async fn a_write_that_fails_fails_alone() {
    let file = File::new("alone");
    let store = file.open();
    let other = rusqlite::Connection::open(&file.path).unwrap();
    let trigger = "CREATE TRIGGER no BEFORE INSERT ON kept WHEN new.key = 'bad'
         BEGIN SELECT RAISE(ABORT, 'not this one'); END;";
    other.execute_batch(trigger).unwrap();
    let writes = (0..200).map(|number| {
        let key = if number == 77 { "bad".to_owned() } else { format!("good {number}") };
        let store = &store;
        async move { (store.put(&key, bytes("1"), If::Always, None).await, key) }
    });
    for (written, key) in join_all(writes).await {
        match &*key {
            "bad" => assert!(written.unwrap_err().to_string().contains("not this one")),
            _ => assert_eq!(written, Ok(true), "{key}"),
        }
    }
    assert_eq!(store.keys("good").await.unwrap().len(), 199);
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_is_added_once() {
    let server = RedisServer::new().await;
    let way = LossyWay::to(server.address()).await;
    let store = Redis::new(&way.url()).unwrap();
    let first = store.append("log", bytes("first"), Bound::entries(9), None).await.unwrap();
    way.lose_the_answer_to("second");
    let second = store.append("log", bytes("second"), Bound::entries(9), None).await.unwrap();
    assert!(way.has_lost_it(), "the answer came through");
    // Equal bytes are another entry, unless they are the same request.
    let third = store.append("log", bytes("second"), Bound::entries(9), None).await.unwrap();
    let held = [(first, bytes("first")), (second, bytes("second")), (third, bytes("second"))];
    assert_eq!(store.after("log", 0).await.unwrap(), held);
}

/// A way to Redis that can lose an answer, and the connection with it.
struct LossyWay {
    port: u16,
    losing: Arc<Mutex<Option<&'static str>>>,
    _carrying: JoinSet<()>,
}

impl LossyWay {
    async fn to(address: String) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let losing = Arc::new(Mutex::new(None));
        let lost = losing.clone();
        let mut carrying = JoinSet::new();
        carrying.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let redis = tokio::net::TcpStream::connect(&address).await.unwrap();
                connections.spawn(carry(client, redis, lost.clone()));
            }
        });
        Self { port, losing, _carrying: carrying }
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    fn lose_the_answer_to(&self, text: &'static str) {
        *self.losing.lock().unwrap() = Some(text);
    }

    fn has_lost_it(&self) -> bool {
        self.losing.lock().unwrap().is_none()
    }
}

/// Carries bytes both ways, until it has lost the answer to what is to be lost.
async fn carry(
    mut client: tokio::net::TcpStream,
    mut redis: tokio::net::TcpStream,
    losing: Arc<Mutex<Option<&'static str>>>,
) {
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    let mut loses = false;
    loop {
        tokio::select! {
            length = client.read(&mut asked) => {
                let Ok(length @ 1..) = length else { return };
                let text = String::from_utf8_lossy(&asked[..length]).into_owned();
                loses = losing.lock().unwrap().is_some_and(|lost| text.contains(lost));
                redis.write_all(&asked[..length]).await.unwrap();
            }
            length = redis.read(&mut answered) => {
                let Ok(length @ 1..) = length else { return };
                if loses {
                    *losing.lock().unwrap() = None;
                    return;
                }
                client.write_all(&answered[..length]).await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_node_of_a_redis_cluster_is_refused_by_name() {
    let server = RedisServer::with(&["--cluster-enabled", "yes"]).await;
    let store = Redis::new(&server.url()).unwrap();
    let error = store.get("a").await.expect_err("it has no slots").to_string();
    assert!(error.contains("Redis Cluster, which is not supported"), "{error}");
}

#[tokio::test]
async fn a_file_is_its_users_own() {
    use std::os::unix::fs::PermissionsExt;
    let file = File::new("own");
    let store = file.open();
    store.put("a", bytes("1"), If::Always, None).await.unwrap();
    let folder = file.path.parent().unwrap();
    assert_eq!(std::fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
    for one in std::fs::read_dir(folder).unwrap().flatten() {
        assert_eq!(one.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{one:?}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_named_and_left_alone() {
    let file = File::new("damaged");
    std::fs::create_dir_all(file.path.parent().unwrap()).unwrap();
    std::fs::write(&file.path, "this is no database, and somebody may want it".repeat(100))
        .unwrap();
    let before = std::fs::read(&file.path).unwrap();
    let error = Sqlite::open(&file.path).expect_err("it is no database").to_string();
    assert!(error.contains("store.sqlite"), "{error}");
    assert!(error.contains("move it away"), "{error}");
    assert_eq!(std::fs::read(&file.path).unwrap(), before);
}

#[tokio::test]
async fn a_redis_without_room_says_so_and_what_needs_none_goes_on() {
    let server = RedisServer::with(&["--maxmemory", "6mb"]).await;
    let store = Redis::new(&server.url()).unwrap();
    store.put("small", bytes("1"), If::Always, None).await.unwrap();
    let large = Bytes::from(vec![7; 1024 * 1024]);
    let mut refused = None;
    for number in 0..20 {
        let key = format!("large {number}");
        if let Err(error) = store.put(&key, large.clone(), If::Always, None).await {
            refused = Some((number, error));
            break;
        }
    }
    let (number, error) = refused.expect("it is full");
    assert!(error.to_string().contains("OOM"), "{error}");
    assert_eq!(store.get(&format!("large {number}")).await, Ok(None), "nothing is half-written");
    assert_eq!(store.get("small").await.unwrap().unwrap().value, bytes("1"));
    store.remove("large 0").await.unwrap();
}

#[tokio::test]
async fn a_store_gives_its_room_back() {
    let file = File::new("room");
    let store = file.open();
    let value = Bytes::from(vec![7; 64 * 1024]);
    for number in 0..200 {
        let (key, log) = (format!("value {number}"), format!("log {number}"));
        store.put(&key, value.clone(), If::Always, SHORT).await.unwrap();
        store.append(&log, value.clone(), Bound::entries(9), SHORT).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Clearing goes along with other writes.
    for _ in 0..400 {
        store.put("other", bytes("x"), If::Always, None).await.unwrap();
    }
    drop(store);
    let size = std::fs::metadata(&file.path).unwrap().len();
    assert!(size < 1024 * 1024, "{size} bytes are left");
    assert!(file.open().watch("log 1").next().now_or_never().is_none());
}

/// Says how far it is, and then gives a text of so many bytes.
#[tool]
async fn give(bytes: usize, ctx: Ctx) -> String {
    ctx.progress(1.0, None);
    tokio::time::sleep(Duration::from_millis(200)).await;
    "x".repeat(bytes)
}

fn call_give(bytes: usize) -> Value {
    let meta = json!({ "progressToken": 1 });
    let params = json!({ "name": "give", "arguments": { "bytes": bytes }, "_meta": meta });
    request(1, "tools/call", params)
}

#[tokio::test]
async fn a_result_too_large_to_be_resumed_says_so() {
    let server = HttpServer::new(Server::new("large").tool(give)).await;
    let session = server.open("2025-11-25").await;
    let mut calling = session.post(&call_give(Bound::BYTES)).send().await;
    let first = first_id(&mut calling).await;
    drop(calling);
    let answer = resume(&session, &first).await.messages().await.pop().unwrap();
    let why = answer["error"]["message"].as_str().unwrap();
    assert!(why.contains("too large to be resumed"), "{answer}");
    // Whoever stays gets it, and a smaller one can be resumed as always.
    let whole = session.post(&call_give(Bound::BYTES)).send().await.messages().await.pop();
    assert_eq!(text(&whole.unwrap()["result"]).len(), Bound::BYTES);
    let mut calling = session.post(&call_give(1000)).send().await;
    let first = first_id(&mut calling).await;
    drop(calling);
    let answer = resume(&session, &first).await.messages().await.pop().unwrap();
    assert_eq!(text(&answer["result"]).len(), 1000);
}

#[tokio::test]
async fn a_socket_cannot_be_resumed_before_a_message_too_large() {
    let server = HttpServer::new(Server::new("large").tool(give)).await;
    let (mut socket, id) = resumable(&server).await;
    let result = socket.ask(call_give(Bound::BYTES)).await;
    assert_eq!(text(&result["result"]).len(), Bound::BYTES, "whoever stays gets it");
    socket.cut();
    // The handshake, the progress and the result are three.
    let missed = format!("/ws?session={id}&last_event_id=2");
    let upgrade = |path: &str| {
        let call = server.get(path).header("connection", "upgrade").header("upgrade", "websocket");
        call.header("sec-websocket-version", "13").header("sec-websocket-key", KEY).send()
    };
    assert_eq!(upgrade(&missed).await.status, 410);
    let mut socket = Socket::connect(&server, &format!("?session={id}&last_event_id=3")).await;
    assert_eq!(text(&socket.ask(call_give(10)).await["result"]), "xxxxxxxxxx");
}

/// Any sixteen bytes.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

#[tokio::test]
async fn an_answer_too_large_for_another_server_is_an_error() {
    let (a, b) = pair().await;
    let session = a.open("2025-11-25").await;
    let asks = request(1, "tools/call", call("test_list_roots", json!({})));
    let mut asking = session.post(&asks).send().await;
    let question = asking.message().await.unwrap();
    let root = json!({ "uri": format!("file:///{}", "r".repeat(1024 * 1024)) });
    let answer = response(&question["id"], json!({ "roots": [root] }));
    assert_eq!(at(&b, &session.id, &answer).send().await.status, 202);
    let answer = asking.message().await.unwrap();
    assert!(text(&answer["result"]).contains("too large"), "{answer}");
}

// The sealing key

/// Does nothing, and neither does the other.
#[tool]
async fn first_tool() -> &'static str {
    "one"
}

/// Does nothing, and neither does the other.
#[tool]
async fn second_tool() -> &'static str {
    "two"
}

/// A server whose list has two pages, with the keys of a store.
async fn two_pages(store: &Arc<dyn Store>) -> HttpServer {
    let keys = KeyRing::kept_in(&**store).await.unwrap();
    let server = Server::new("pages").tool(first_tool).tool(second_tool).page_size(1).keys(keys);
    HttpServer::new(server.shared_store(store.clone())).await
}

async fn page(server: &HttpServer, cursor: Option<&str>) -> Value {
    let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
    server.post(&modern(1, "tools/list", params)).send().await.response().await
}

async fn cursor(server: &HttpServer) -> String {
    page(server, None).await["result"]["nextCursor"].as_str().unwrap().to_owned()
}

/// Asks for a page until it is there: servers read the keys again a moment after they meet a new one.
async fn opens_in_time(server: &HttpServer, cursor: &str) {
    for _ in 0..100 {
        if page(server, Some(cursor)).await.get("result").is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it is not opened: {}", page(server, Some(cursor)).await);
}

#[tokio::test]
async fn servers_follow_a_key_that_is_revoked() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let (a, b) = (two_pages(&store).await, two_pages(&store).await);
    let old = cursor(&a).await;
    opens_in_time(&b, &old).await;
    let rotated = operate::rotate_keys(&*store, OldKeys::Revoke).await.unwrap();
    assert_eq!(rotated.keys, 1);
    // A server that is started now has the new key; the others read it when they meet it.
    let c = two_pages(&store).await;
    let new = cursor(&c).await;
    assert_ne!(old[..5], new[..5], "another key");
    for server in [&a, &b] {
        opens_in_time(server, &new).await;
        assert_eq!(page(server, Some(&old)).await["error"]["code"], -32602);
        assert_eq!(cursor(server).await, new, "and seal with it, also what they had encoded");
    }
}

#[tokio::test]
async fn a_rotated_key_is_known_before_it_is_used() {
    let store: Arc<dyn Store> = Arc::new(Memory::new());
    let a = two_pages(&store).await;
    let before = cursor(&a).await;
    let rotated = operate::rotate_keys(&*store, OldKeys::Retire).await.unwrap();
    assert_eq!(rotated.keys, 2);
    assert!(rotated.seals_from > SystemTime::now() + Duration::from_secs(60));
    let b = two_pages(&store).await;
    assert_eq!(cursor(&b).await, before, "the old key still seals");
    // As if that had been an hour ago.
    let held = store.get("keys").await.unwrap().unwrap();
    let mut keys: Value = serde_json::from_slice(&held.value).unwrap();
    let created = keys["keys"][1]["created"].as_u64().unwrap();
    keys["keys"][1]["created"] = json!(created - 60 * 60 * 1000);
    store.put("keys", Bytes::from(keys.to_string()), If::Always, None).await.unwrap();
    let c = two_pages(&store).await;
    let after = cursor(&c).await;
    assert_ne!(before[..5], after[..5], "the new key seals");
    for server in [&a, &b, &c] {
        opens_in_time(server, &after).await;
        opens_in_time(server, &before).await;
    }
}

#[tokio::test]
async fn the_command_rotates_the_keys_of_a_store() {
    let folder = Folder::new("rotated");
    let data = folder.0.to_string_lossy().into_owned();
    let run = |args: &[&str]| {
        let mut command = std::process::Command::new(zcp());
        command.args(["store"]).args(args).args(["--data", &data]).output().unwrap()
    };
    assert_eq!(run(&["rotate-keys"]).status.code(), Some(1), "there is no store");
    assert!(run(&["check"]).status.success());
    let rotate = |args: &[&str]| {
        let output = run(&[&["rotate-keys", "--json"], args].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(rotate(&[])["keys"], 1);
    let second = rotate(&[]);
    assert_eq!((&second["keys"], &second["revoked"]), (&json!(2), &json!(false)));
    assert!(second["sealsFrom"].as_str().unwrap().ends_with('Z'));
    assert_eq!(rotate(&["--revoke"])["keys"], 1);
    let words = run(&["rotate-keys"]).stdout;
    let words = String::from_utf8_lossy(&words);
    assert!(words.contains("Added key") && words.contains("one of 2"), "{words}");
    let held = Sqlite::open(folder.0.join("zcp.sqlite")).unwrap().get("keys").await;
    let held: Value = serde_json::from_slice(&held.unwrap().unwrap().value).unwrap();
    for kept in held["keys"].as_array().unwrap() {
        assert!(!words.contains(kept["key"].as_str().unwrap()), "it tells no key");
    }
}
