//! Orders in which things may happen, tried by the thousand: what stores promise (shuttle), and what
//! becomes of tasks when servers crash or lose their store (turmoil).
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};
use zcp::{
    Mcp, Server, State,
    store::{Bound, Entry, If, Memory, Store, StoreError, StoreResult},
    tool,
    wire::{Frame, Peer},
};
use zcp_tests::{call, modern_as};

// What stores promise, whoever is first

const ORDERS: usize = 3000;

/// Lets everybody else do something.
async fn meanwhile() {
    shuttle::future::yield_now().await;
}

fn every_order(test: impl Fn() -> BoxFuture<'static, ()> + Send + Sync + Clone + 'static) {
    let (random, unfair) = (test.clone(), test);
    shuttle::check_random(move || shuttle::future::block_on(random()), ORDERS);
    shuttle::check_pct(move || shuttle::future::block_on(unfair()), ORDERS, 3);
}

/// Follows a log as servers do, until it has seen so many; a lost wake is a deadlock.
async fn follow(store: Arc<Memory>, wanted: usize) -> Vec<(u64, Bytes)> {
    let mut grown = store.watch("log");
    let (mut seen, mut position) = (vec![], 0);
    loop {
        meanwhile().await;
        let new = store.after("log", position).await.unwrap();
        position = new.last().map_or(position, |(position, _)| *position);
        seen.extend(new);
        if seen.len() == wanted {
            return seen;
        }
        meanwhile().await;
        grown.next().await.unwrap();
    }
}

#[test]
fn nothing_of_a_log_is_missed_in_any_order() {
    every_order(|| {
        async {
            let store = Arc::new(Memory::new());
            let writers = ["a", "b", "c"].map(|name| {
                let store = store.clone();
                shuttle::future::spawn(async move {
                    for n in 0..3 {
                        meanwhile().await;
                        let text = Bytes::from(format!("{name}{n}"));
                        store.append("log", text, Bound::entries(100), None).await.unwrap();
                    }
                })
            });
            let late = shuttle::future::spawn(follow(store.clone(), 9));
            let seen = follow(store.clone(), 9).await;
            assert_eq!(late.await.unwrap(), seen, "everybody sees the same");
            assert!(seen.is_sorted_by(|(one, _), (two, _)| one < two), "{seen:?}");
            for name in ["a", "b", "c"] {
                let own = seen.iter().filter(|(_, text)| text.starts_with(name.as_bytes()));
                assert!(own.is_sorted(), "{seen:?}");
            }
            for writer in writers {
                writer.await.unwrap();
            }
        }
        .boxed()
    });
}

#[test]
fn one_of_many_uses_up_a_nonce_in_any_order() {
    every_order(|| {
        async {
            let store = Arc::new(Memory::new());
            let claims: Vec<_> = (0..4)
                .map(|_| {
                    let store = store.clone();
                    shuttle::future::spawn(async move {
                        meanwhile().await;
                        let used = store.put("nonce/x", Bytes::new(), If::Absent, None).await;
                        meanwhile().await;
                        used.unwrap()
                    })
                })
                .collect();
            let mut won = 0;
            for claim in claims {
                won += usize::from(claim.await.unwrap());
            }
            assert_eq!(won, 1);
        }
        .boxed()
    });
}

#[test]
fn no_change_is_lost_in_any_order() {
    every_order(|| {
        async {
            let store = Arc::new(Memory::new());
            store.put("n", Bytes::from("0"), If::Absent, None).await.unwrap();
            let adders: Vec<_> = (0..3)
                .map(|_| {
                    let store = store.clone();
                    shuttle::future::spawn(async move {
                        for _ in 0..2 {
                            loop {
                                let held = store.get("n").await.unwrap().unwrap();
                                meanwhile().await;
                                let n: u32 =
                                    std::str::from_utf8(&held.value).unwrap().parse().unwrap();
                                let more = Bytes::from((n + 1).to_string());
                                let same = If::Version(held.version);
                                if store.put("n", more, same, None).await.unwrap() {
                                    break;
                                }
                            }
                        }
                    })
                })
                .collect();
            for adder in adders {
                adder.await.unwrap();
            }
            assert_eq!(store.get("n").await.unwrap().unwrap().value, "6");
        }
        .boxed()
    });
}

// What becomes of tasks

/// Numbers that are the same in every run of a seed.
#[derive(Debug)]
struct Dice(AtomicU64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1))
    }

    fn below(&self, end: u64) -> u64 {
        let mut n = self.0.load(Ordering::Relaxed);
        n ^= n << 13;
        n ^= n >> 7;
        n ^= n << 17;
        self.0.store(n, Ordering::Relaxed);
        n % end
    }
}

/// What all servers of a simulation share.
struct World {
    memory: Memory,
    /// The store has a clock of its own: that of a server begins when the server does.
    clock: tokio::runtime::Handle,
    dice: Dice,
    labels: AtomicUsize,
    /// Tasks whose clients know of them.
    begun: Mutex<Vec<(String, &'static str)>>,
    /// How often each call's handler began, and which came to their end.
    started: Mutex<BTreeMap<String, usize>>,
    done: Mutex<HashSet<String>>,
    calm: AtomicBool,
}

/// The store as one server sees it: far away, and sometimes not there.
struct Far {
    world: Arc<World>,
    away: Arc<AtomicBool>,
}

impl Far {
    /// Does something with the store. Whether it was done is not known when the answer is lost.
    async fn reach<T>(&self, verb: impl AsyncFnOnce(&Memory) -> StoreResult<T>) -> StoreResult<T> {
        self.way().await?;
        let done = {
            let _clock = self.world.clock.enter();
            verb(&self.world.memory).now_or_never().expect("memory takes no time")
        };
        self.way().await?;
        done
    }

    async fn way(&self) -> StoreResult<()> {
        tokio::time::sleep(Duration::from_millis(self.world.dice.below(40))).await;
        match self.away.load(Ordering::Relaxed) {
            true => Err(StoreError::Unavailable("it is away".into())),
            false => Ok(()),
        }
    }
}

impl Store for Far {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        Box::pin(self.reach(async move |memory| memory.get(key).await))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        Box::pin(self.reach(async move |memory| memory.put(key, value, condition, ttl).await))
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(self.reach(async move |memory| memory.remove(key).await))
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        bound: Bound,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(self.reach(async move |memory| memory.append(log, value, bound, ttl).await))
    }

    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>> {
        Box::pin(self.reach(async move |memory| memory.after(log, position).await))
    }

    fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        let away = self.away.clone();
        let heard = self.world.memory.watch(log);
        heard.filter(move |()| std::future::ready(!away.load(Ordering::Relaxed))).boxed()
    }
}

async fn work(label: &str, world: &World) -> String {
    *world.started.lock().unwrap().entry(label.to_owned()).or_default() += 1;
    tokio::time::sleep(Duration::from_millis(200 + world.dice.below(5000))).await;
    world.done.lock().unwrap().insert(label.to_owned());
    label.to_owned()
}

/// May be done twice.
#[tool(long_running, idempotent)]
async fn again(label: String, world: State<Arc<World>>) -> String {
    work(&label, &world.0).await
}

/// Must not be done twice.
#[tool(long_running)]
async fn once(label: String, world: State<Arc<World>>) -> String {
    work(&label, &world.0).await
}

fn server(world: &Arc<World>, away: &Arc<AtomicBool>) -> Mcp {
    let store = Far { world: world.clone(), away: away.clone() };
    let server = Server::new("simulated").tool(again).tool(once).state(world.clone());
    Mcp::new(server.store(store).build().unwrap())
}

async fn ask(mcp: &Mcp, method: &str, params: Value) -> Value {
    let follows = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let message = modern_as(1, method, params, follows).to_string();
    let frame = Frame::parse(&message.into()).unwrap();
    let frames = mcp.send(frame, http::Extensions::new());
    let last = frames.collect::<Vec<_>>().await.pop().expect("there is an answer");
    serde_json::from_str(&last.to_text()).unwrap()
}

/// A server whose clients begin tasks all the time.
async fn busy(world: Arc<World>, away: Arc<AtomicBool>) -> turmoil::Result {
    let mcp = server(&world, &away);
    while !world.calm.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100 + world.dice.below(1500))).await;
        let tool = if world.dice.below(2) == 0 { "again" } else { "once" };
        let label = format!("{tool} {}", world.labels.fetch_add(1, Ordering::Relaxed));
        let answer = ask(&mcp, "tools/call", call(tool, json!({ "label": label }))).await;
        if let Some(id) = answer["result"]["taskId"].as_str() {
            world.begun.lock().unwrap().push((id.to_owned(), tool));
        }
    }
    std::future::pending().await
}

/// Waits until all tasks are over, and sees to it that each came to what it should.
async fn check(world: Arc<World>) -> turmoil::Result {
    while !world.calm.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mcp = server(&world, &Arc::default());
    let begun = world.begun.lock().unwrap().clone();
    assert!(begun.len() > 5, "only {} tasks", begun.len());
    for (id, tool) in begun {
        let mut task = json!({});
        for _ in 0..600 {
            task = ask(&mcp, "tasks/get", json!({ "taskId": id })).await["result"].take();
            if task["status"] != "working" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        match (tool, task["status"].as_str()) {
            (_, Some("completed")) => {
                let label = zcp_tests::text(&task["result"]);
                assert!(world.done.lock().unwrap().contains(label), "{task}");
            }
            ("once", Some("failed")) => (),
            // Only one whose servers crashed ten times is given up.
            _ => panic!("a task of `{tool}` came to nothing: {task}"),
        }
    }
    for (label, times) in &*world.started.lock().unwrap() {
        assert!(label.starts_with("again") || *times == 1, "`{label}` was begun {times} times");
    }
    Ok(())
}

const TICK: Duration = Duration::from_millis(10);
const SERVERS: [&str; 3] = ["one", "two", "three"];

/// A minute in which servers crash, come back, and lose their store; then calm.
fn simulate(seed: u64) {
    let clock = tokio::runtime::Builder::new_current_thread();
    let clock = { clock }.enable_time().start_paused(true).build().unwrap();
    let world = Arc::new(World {
        memory: Memory::new(),
        clock: clock.handle().clone(),
        dice: Dice::new(seed),
        labels: AtomicUsize::default(),
        begun: Mutex::default(),
        started: Mutex::default(),
        done: Mutex::default(),
        calm: AtomicBool::default(),
    });
    let mut simulation = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .simulation_duration(Duration::from_secs(600))
        .build();
    let away: [Arc<AtomicBool>; 3] = Default::default();
    for (name, away) in SERVERS.into_iter().zip(&away) {
        let (world, away) = (world.clone(), away.clone());
        simulation.host(name, move || busy(world.clone(), away.clone()));
    }
    simulation.client("checker", check(world.clone()));
    let (mut ticks, mut down) = (0, [false; 3]);
    while !simulation.step().unwrap_or_else(|error| panic!("seed {seed}: {error}")) {
        clock.block_on(tokio::time::advance(TICK));
        ticks += 1;
        if ticks == 6000 {
            world.calm.store(true, Ordering::Relaxed);
            away.iter().for_each(|away| away.store(false, Ordering::Relaxed));
        }
        // Every second or so something happens to one of them.
        let one = usize::try_from(world.dice.below(3)).unwrap();
        if ticks > 6000 || world.dice.below(100) > 0 {
            continue;
        }
        match world.dice.below(4) {
            0 if !down[one] => simulation.crash(SERVERS[one]),
            1 if down[one] => simulation.bounce(SERVERS[one]),
            2 => away[one].store(true, Ordering::Relaxed),
            3 => away[one].store(false, Ordering::Relaxed),
            _ => continue,
        }
        down[one] = !simulation.is_host_running(SERVERS[one]);
    }
}

#[test]
fn tasks_of_servers_that_crash_come_to_their_end_and_none_is_done_twice() {
    for seed in 1..=40 {
        simulate(seed);
    }
}
