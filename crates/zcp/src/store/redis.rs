//! A store on Redis or Valkey: several machines share it.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream::BoxStream};
use redis::{
    Client, RedisError, Script, ScriptInvocation, Value,
    aio::{ConnectionManager, ConnectionManagerConfig},
    from_redis_value,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Bound, Browse, Entry, If, Store, StoreError, StoreResult, check_entry, check_value,
    wakes::Wakes,
};

/// How long Redis may take to answer, or to be connected to.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is seen to that news still arrive.
const PING: Duration = Duration::from_secs(5);
/// How long to wait before news are subscribed to again.
const AGAIN: Duration = Duration::from_millis(200);
/// How often an append is tried whose answer was lost.
const TRIES: usize = 3;
/// The longest that anything is kept; more is for ever.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Keys: a value. Arguments: the value, when it may be written, its milliseconds.
const PUT: &str = "
    local held = redis.call('HGET', KEYS[1], 'n')
    if ARGV[2] == 'absent' then
        if held then return 0 end
    elseif ARGV[2] ~= 'always' and held ~= ARGV[2] then
        return 0
    end
    redis.call('HSET', KEYS[1], 'v', ARGV[1], 'n', redis.call('INCR', KEYS[2]))
    if ARGV[3] == '' then redis.call('PERSIST', KEYS[1])
    else redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
    return 1";

/// Keys: a log's items, what is known of it, the counter. Arguments: the value, how many entries to
/// keep, its milliseconds, the log's name, the channel, how many bytes to keep, the request's id,
/// whether the request may have been done before.
///
/// An item's one field is named for the request that added it, and a request that is made again is
/// looked for among the newest. Logs of earlier versions have no count of their bytes: it is made
/// when they first grow.
const APPEND: &str = "
    local function position_of(item) return tonumber(string.match(item[1], '^%d+')) end
    if ARGV[8] == 'again' then
        for _, item in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 256)) do
            if item[2][1] == ARGV[7] then return position_of(item) end
        end
    end
    local bytes, from = tonumber(redis.call('HGET', KEYS[2], 'bytes')), '-'
    if not bytes then
        bytes = 0
        repeat
            local some = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 32)
            for _, item in ipairs(some) do
                bytes = bytes + #item[2][2]
                from = position_of(item) + 1 .. '-0'
            end
        until #some == 0
    end
    local position = redis.call('INCR', KEYS[3])
    redis.call('HSETNX', KEYS[2], 'dropped', position - 1)
    redis.call('XADD', KEYS[1], position .. '-0', ARGV[7], ARGV[1])
    bytes = bytes + #ARGV[1]
    local left, dropped = redis.call('XLEN', KEYS[1]), nil
    from = '-'
    while left > 0 and (left > tonumber(ARGV[2]) or bytes > tonumber(ARGV[6])) do
        local oldest = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1)[1]
        dropped = position_of(oldest)
        bytes, left, from = bytes - #oldest[2][2], left - 1, dropped + 1 .. '-0'
    end
    if dropped then
        redis.call('HSET', KEYS[2], 'dropped', dropped)
        redis.call('XTRIM', KEYS[1], 'MAXLEN', left)
    end
    redis.call('HSET', KEYS[2], 'last', position, 'bytes', bytes)
    for i = 1, 2 do
        if ARGV[3] == '' then redis.call('PERSIST', KEYS[i])
        else redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
    end
    redis.call('PUBLISH', ARGV[5], ARGV[4])
    return position";

/// Keys: a log's items, what is known of it. Arguments: the position, the one after it.
const AFTER: &str = "
    local known = redis.call('HMGET', KEYS[2], 'last', 'dropped')
    if not known[1] then return {} end
    local position = tonumber(ARGV[1])
    if position ~= 0 and (position > tonumber(known[1]) or position < tonumber(known[2])) then
        return 'gone'
    end
    return redis.call('XRANGE', KEYS[1], ARGV[2] .. '-0', '+')";

/// Keeps everything in Redis, or Valkey. A write is there when it is answered; whether it outlives
/// Redis itself is Redis' own to say (`appendonly yes`). When Redis cannot be reached, every verb
/// says so, and works again when it can. An append whose answer is lost with its connection is
/// tried again under the same id, and added once.
///
/// Redis Cluster is not supported: use a Redis with replicas, or name the one node that has the
/// keys (they are all in one slot).
pub struct Redis {
    connection: ConnectionManager,
    scripts: Arc<Scripts>,
    wakes: Arc<Wakes>,
    names: Names,
    /// What the ids of this store's requests begin with, and how many there were.
    requests: (String, AtomicU64),
    news: TaskTracker,
    stop: CancellationToken,
}

struct Scripts {
    put: Script,
    append: Script,
    after: Script,
}

/// A position, and the one field it has.
type Item = (String, (Vec<u8>, Vec<u8>));

/// How keys are called. The braces keep all of them in one slot: a script has several keys.
#[derive(Clone)]
struct Names(String);

impl Names {
    fn of(&self, kind: &str, key: &str) -> String {
        format!("{{{}}}:{kind}:{key}", self.0)
    }

    fn channel(&self) -> String {
        self.of("grew", "")
    }
}

impl Redis {
    /// The Redis at a URL, such as `redis://127.0.0.1/`. It is reached when it is first needed.
    pub fn new(url: &str) -> StoreResult<Self> {
        Self::named(url, "zcp")
    }

    /// The same, for servers that share a Redis and nothing in it: each has a name.
    pub fn named(url: &str, name: &str) -> StoreResult<Self> {
        if url.trim_start().to_ascii_lowercase().starts_with("rediss:") {
            let why = "rediss:// is not supported: use redis:// on a private network, or through a \
                TLS tunnel such as stunnel";
            return Err(StoreError::Unavailable(why.to_owned()));
        }
        let client = Client::open(url).map_err(|error| unavailable(&error))?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE))
            .set_number_of_retries(1);
        let connection = ConnectionManager::new_lazy_with_config(client.clone(), config)
            .map_err(|error| unavailable(&error))?;
        let names = Names(name.to_owned());
        let (news, stop) = (TaskTracker::new(), CancellationToken::new());
        let wakes = Arc::new(Wakes::default());
        let hearing = hear(client, names.channel(), wakes.clone());
        news.spawn(stop.clone().run_until_cancelled_owned(hearing));
        let scripts = Arc::new(Scripts {
            put: Script::new(PUT),
            append: Script::new(APPEND),
            after: Script::new(AFTER),
        });
        let requests = (crate::token()[..12].to_owned(), AtomicU64::new(0));
        Ok(Self { connection, scripts, wakes, names, requests, news, stop })
    }

    async fn invoke<T: redis::FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> StoreResult<T> {
        let mut connection = self.connection.clone();
        script.invoke_async(&mut connection).await.map_err(|error| unavailable(&error))
    }

    /// Adds to a log once, though the answer may be lost and the request be made again.
    async fn append_once(&self, script: &mut ScriptInvocation<'_>) -> StoreResult<u64> {
        let mut connection = self.connection.clone();
        let mut added = script.invoke_async(&mut connection).await;
        for again in 1..TRIES {
            match &added {
                Err(error) if error.is_io_error() && !error.is_connection_refusal() => (),
                _ => break,
            }
            if again == 1 {
                script.arg("again");
            }
            added = script.invoke_async(&mut connection).await;
        }
        added.map_err(|error| unavailable(&error))
    }
}

// What Redis says, without where it is: that may hold a password.
fn unavailable(error: &RedisError) -> StoreError {
    if error.is_cluster_error() {
        let why = "redis: this is a node of a Redis Cluster, which is not supported: use a Redis \
             with replicas, or the URL of the node that has the keys";
        return StoreError::Unavailable(why.to_owned());
    }
    StoreError::Unavailable(format!("redis: {error}"))
}

/// Wakes whoever waits for a log that grew, anywhere.
async fn hear(client: Client, channel: String, wakes: Arc<Wakes>) {
    loop {
        let lost = hear_once(&client, &channel, &wakes).await;
        tracing::debug!("news of redis are lost: {lost:?}");
        tokio::time::sleep(AGAIN).await;
    }
}

async fn hear_once(client: &Client, channel: &str, wakes: &Wakes) -> Result<(), RedisError> {
    let (mut sink, mut news) = client.get_async_pubsub().await?.split();
    sink.subscribe(channel).await?;
    // Nobody knows what was said before.
    wakes.wake_all();
    let mut tick = tokio::time::interval(PING);
    loop {
        tokio::select! {
            message = news.next() => match message {
                Some(message) => wakes.wake(&message.get_payload::<String>()?),
                None => return Ok(()),
            },
            _ = tick.tick() => {
                let pong = tokio::time::timeout(PATIENCE, sink.ping::<Value>()).await;
                if pong.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

fn milliseconds(ttl: Option<Duration>) -> String {
    let ttl = ttl.filter(|ttl| *ttl < LONGEST);
    ttl.map_or_else(String::new, |ttl| ttl.as_millis().max(1).to_string())
}

impl Store for Redis {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let asked = redis::cmd("HMGET")
                .arg(self.names.of("value", key))
                .arg(&["v", "n"])
                .query_async(&mut connection)
                .await;
            let (value, version): (Option<Vec<u8>>, Option<u64>) =
                asked.map_err(|error| unavailable(&error))?;
            Ok(value.zip(version).map(|(value, version)| Entry { value: value.into(), version }))
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
            check_value(key, &value)?;
            let condition = match condition {
                If::Always => "always".to_owned(),
                If::Absent => "absent".to_owned(),
                If::Version(version) => version.to_string(),
            };
            let mut script = self.scripts.put.key(self.names.of("value", key));
            script.key(self.names.of("counter", "version"));
            script.arg(&value[..]).arg(condition).arg(milliseconds(ttl));
            self.invoke(&script).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let keys = ["value", "items", "log"].map(|kind| self.names.of(kind, key));
            let removed = redis::cmd("UNLINK").arg(&keys).query_async(&mut connection).await;
            removed.map_err(|error| unavailable(&error))
        })
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        bound: Bound,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        Box::pin(async move {
            check_entry(log, &value, bound)?;
            let (prefix, made) = &self.requests;
            let request = format!("{prefix}-{}", made.fetch_add(1, Ordering::Relaxed));
            let mut script = self.scripts.append.key(self.names.of("items", log));
            script.key(self.names.of("log", log)).key(self.names.of("counter", "position"));
            script.arg(&value[..]).arg(bound.entries).arg(milliseconds(ttl));
            script.arg(log).arg(self.names.channel()).arg(bound.bytes).arg(request);
            let position = self.append_once(&mut script).await?;
            self.wakes.wake(log);
            Ok(position)
        })
    }

    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>> {
        Box::pin(async move {
            let Some(next) = position.checked_add(1) else { return Err(StoreError::Gone) };
            let mut script = self.scripts.after.key(self.names.of("items", log));
            script.key(self.names.of("log", log)).arg(position).arg(next);
            let items: Value = self.invoke(&script).await?;
            if let Value::BulkString(_) | Value::SimpleString(_) = items {
                return Err(StoreError::Gone);
            }
            let items: Vec<Item> =
                from_redis_value(items).map_err(|error| unavailable(&error.into()))?;
            let items = items.into_iter().map(|(id, (_, value))| {
                let position = id.split('-').next().and_then(|position| position.parse().ok());
                (position.unwrap_or_default(), Bytes::from(value))
            });
            Ok(items.collect())
        })
    }

    fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        self.wakes.watch(log)
    }
}

impl Browse for Redis {
    fn keys<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>> {
        Box::pin(async move {
            let (all, pattern) =
                (self.names.of("value", ""), glob(&self.names.of("value", prefix)));
            let mut connection = self.connection.clone();
            let (mut keys, mut cursor) = (BTreeSet::new(), 0_u64);
            loop {
                let mut scan = redis::cmd("SCAN");
                scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1000);
                let scanned = scan.query_async(&mut connection).await;
                let (next, found): (u64, Vec<String>) =
                    scanned.map_err(|error| unavailable(&error))?;
                keys.extend(
                    found.iter().filter_map(|key| key.strip_prefix(&all)).map(str::to_owned),
                );
                if next == 0 {
                    break;
                }
                cursor = next;
            }
            Ok(keys.into_iter().collect())
        })
    }
}

/// A pattern for all that begins so.
fn glob(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for character in prefix.chars() {
        if "*?[]\\^-".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('*');
    pattern
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop.cancel();
        self.news.close();
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("name", &self.names.0).finish_non_exhaustive()
    }
}
