//! What every store promises, kept by each of them; and what each does when it is in trouble.
#![expect(clippy::unwrap_used, reason = "a contract is a long row of assertions")]

use bytes::Bytes;
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all},
    stream::BoxStream,
};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use zcp::store::{
    Browse, Entry, If, Memory, Store, StoreError, StoreResult, redis::Redis, sqlite::Sqlite,
};
use zcp::{Ctx, Result, Server, tool};
use zcp_tests::{
    all_capabilities, call, folder::Folder, http::HttpServer, modern_as, redis::RedisServer,
    request, text,
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
    one.append("odd*/log", bytes("1"), 1, None).await.unwrap();
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
    let first = one.append("log", bytes("a"), 9, None).await.unwrap();
    let second = two.append("log", bytes("b"), 9, None).await.unwrap();
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
    let third = one.append("log", bytes("c"), 9, None).await.unwrap();
    assert!(third > second);
    assert_eq!(one.after("log", first).await, Err(StoreError::Gone));
    assert_eq!(one.after("log", 0).await, Ok(vec![(third, bytes("c"))]));
    one.remove("log").await.unwrap();
}

async fn logs_are_bounded_and_expire(store: &dyn Store) {
    let mut positions = vec![];
    for text in ["a", "b", "c", "d"] {
        positions.push(store.append("few", bytes(text), 2, None).await.unwrap());
    }
    let held = vec![(positions[2], bytes("c")), (positions[3], bytes("d"))];
    assert_eq!(store.after("few", 0).await, Ok(held.clone()));
    assert_eq!(store.after("few", positions[0]).await, Err(StoreError::Gone));
    assert_eq!(store.after("few", positions[1]).await, Ok(held.clone()), "nothing is missing");
    assert_eq!(store.after("few", positions[2]).await, Ok(held[1..].to_vec()));
    store.remove("few").await.unwrap();

    store.append("brief", bytes("a"), 9, SHORT).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    let last = store.append("brief", bytes("b"), 9, SHORT).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(store.after("brief", 0).await.unwrap().len(), 2, "the last append counts");
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(store.after("brief", 0).await, Ok(vec![]));
    let next = store.append("brief", bytes("c"), 9, None).await.unwrap();
    assert!(next > last);
    assert_eq!(store.after("brief", 0).await, Ok(vec![(next, bytes("c"))]));
    store.remove("brief").await.unwrap();
}

async fn watchers_wake(one: &dyn Store, two: &dyn Store) {
    let mut grew = one.watch("watched");
    for writer in [one, two] {
        // News from before may still be under way.
        while tokio::time::timeout(Duration::from_millis(300), grew.next()).await.is_ok() {}
        writer.append("other", bytes("a"), 9, None).await.unwrap();
        writer.append("watched", bytes("a"), 9, None).await.unwrap();
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
        async move { store.append("many", bytes(&number.to_string()), 100, None).await.unwrap() }
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
        let position = store.append(key, Bytes::from(odd.clone()), 9, None).await.unwrap();
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
        store.append("log", bytes("x"), 9, None).await.unwrap()
    };
    let position = {
        let store = file.open();
        write(&store).await
    };
    let store = file.open();
    assert_eq!(store.get("a").await.unwrap().unwrap().value, bytes("1"));
    assert_eq!(store.after("log", 0).await, Ok(vec![(position, bytes("x"))]));
    assert!(store.append("log", bytes("y"), 9, None).await.unwrap() > position);

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
        store.append(&log, value.clone(), 9, SHORT).await.unwrap();
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

/// A store whose disk is full from some time on.
#[derive(Default)]
struct Full {
    memory: Memory,
    is_full: AtomicBool,
}

impl Full {
    fn room(&self) -> StoreResult<()> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Err(StoreError::Unavailable("/srv/private/zcp.sqlite: disk is full".into())),
            false => Ok(()),
        }
    }
}

impl Store for Full {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        Box::pin(async move {
            if key == "ready" {
                self.room()?;
            }
            self.memory.get(key).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(async move {
            self.room()?;
            self.memory.put(key, value, condition, ttl).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        self.memory.remove(key)
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        keep: usize,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            self.room()?;
            self.memory.append(log, value, keep, ttl).await
        })
    }

    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>> {
        self.memory.after(log, position)
    }

    fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        self.memory.watch(log)
    }
}

/// Tells of a change.
#[tool]
async fn touch(ctx: Ctx) -> Result<String> {
    ctx.updated("note://one").await?;
    Ok("told".to_owned())
}

/// Asks.
#[tool]
async fn sure(ctx: Ctx) -> Result<String> {
    let schema = json!({ "type": "object", "properties": {} });
    ctx.ask_with::<Value>("sure", "Sure?", schema).await?;
    Ok("done".to_owned())
}

/// Its reason names a file of the server, which is for the log.
#[tokio::test]
async fn a_store_that_fails_shows_clients_no_details() {
    let store = Arc::new(Full::default());
    let server = Server::new("full").tool(touch).tool(sure).single_use_answers();
    let server = server.shared_store(store.clone());
    let server = HttpServer::new(server).await;
    let session = server.open("2025-11-25").await;
    let asks = call("sure", json!({}));
    let asked = modern_as(1, "tools/call", asks.clone(), all_capabilities());
    let asked = server.post(&asked).send().await.response().await;
    let mut again = asks;
    again["inputResponses"] = json!({ "sure": { "action": "accept", "content": {} } });
    again["requestState"] = asked["result"]["requestState"].clone();
    let again = modern_as(2, "tools/call", again, all_capabilities());
    store.is_full.store(true, Ordering::Relaxed);

    let why = "the store is unavailable: try again later";
    assert_eq!(server.get("/readyz").send().await.text().await, format!("{why}\n"));
    let level = request(3, "logging/setLevel", json!({ "level": "info" }));
    let answers = [
        session.ask(&level).await["error"]["message"].clone(),
        server.post(&again).send().await.response().await["error"]["message"].clone(),
        json!(text(
            &session.ask(&request(4, "tools/call", call("touch", json!({})))).await["result"]
        )),
    ];
    assert_eq!(answers, [why, why, why]);
}
