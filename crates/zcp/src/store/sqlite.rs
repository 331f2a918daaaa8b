//! A store in a file: it outlives the process, and several processes of one machine may share it.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{mpsc, oneshot};

use super::{Browse, Entry, If, Store, StoreError, StoreResult, wakes::Wakes};

/// Jobs that may wait; more wait outside.
const QUEUE: usize = 1024;
/// Jobs that are made durable together.
const BATCH: usize = 256;
/// Expired values, and expired logs, that a batch clears away.
const SWEEP: i64 = 64;
/// Pages that are kept though nothing is on them.
const SPARE: i64 = 128;
/// How often it is looked whether another process wrote.
const LOOK: Duration = Duration::from_millis(50);
/// How long another process may take with a write.
const BUSY: Duration = Duration::from_secs(5);

const TABLES: &str = "
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    PRAGMA journal_size_limit = 16777216;
    CREATE TABLE IF NOT EXISTS kept (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, ends INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS kept_ends ON kept (ends) WHERE ends IS NOT NULL;
    CREATE TABLE IF NOT EXISTS logs (
        log TEXT PRIMARY KEY, last INTEGER NOT NULL, ends INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS logs_ends ON logs (ends) WHERE ends IS NOT NULL;
    CREATE TABLE IF NOT EXISTS items (
        log TEXT NOT NULL, position INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (log, position)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
    INSERT OR IGNORE INTO counters VALUES ('version', 0), ('forgotten', 0);
";

/// Keeps everything in a SQLite database. What was answered outlives this process, however it ends;
/// whether it outlives a power cut too is for [`Sync`] to say. One thread does the work, and writes
/// that come together are made together.
pub struct Sqlite {
    jobs: Option<mpsc::Sender<Job>>,
    wakes: Arc<Wakes>,
    thread: Option<JoinHandle<()>>,
    file: PathBuf,
}

/// When what is written goes to the disk itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sync {
    /// Soon: a power cut may take the last moments, and nothing else.
    #[default]
    Later,
    /// Before a write is answered.
    First,
}

/// Work, and what to do once it is on the disk.
struct Job {
    kind: Kind,
    work: Work,
}

/// Given the connection, or why there is nothing to be done with it.
type Work = Box<dyn FnOnce(Result<&Connection, String>) -> Finish + Send>;

/// What is done with the outcome of a batch: work that failed spoils all of it.
struct Finish {
    error: Option<String>,
    tell: Box<dyn FnOnce(Result<(), String>) + Send>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
}

impl Sqlite {
    /// Opens the database of a file, which is made if it is not there.
    pub fn open(file: impl AsRef<Path>) -> StoreResult<Self> {
        Self::with(file, Sync::default())
    }

    /// The same, with another wish for the disk.
    pub fn with(file: impl AsRef<Path>, sync: Sync) -> StoreResult<Self> {
        let file = file.as_ref().to_owned();
        let named =
            |why: &dyn fmt::Display| StoreError::Unavailable(format!("{}: {why}", file.display()));
        make(&file).map_err(|error| named(&error))?;
        let connection = connect(&file, sync).map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                named(&"it is damaged, or no database: move it away to begin anew")
            }
            _ => named(&error),
        })?;
        let (jobs, queue) = mpsc::channel(QUEUE);
        let wakes = Arc::new(Wakes::default());
        let (waking, looking) = (wakes.clone(), jobs.downgrade());
        let thread = thread::Builder::new()
            .name("zcp-sqlite".into())
            .spawn(move || {
                thread::scope(|scope| {
                    scope.spawn(|| look(&looking, &waking));
                    work(&connection, queue);
                });
            })
            .map_err(|error| named(&error))?;
        Ok(Self { jobs: Some(jobs), wakes, thread: Some(thread), file })
    }

    async fn run<T: Send + 'static>(
        &self,
        kind: Kind,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let stopped = || StoreError::Unavailable("the store has stopped".into());
        let (reply, answer) = oneshot::channel();
        let work = Box::new(move |connection: Result<&Connection, String>| {
            let done = connection.and_then(|it| work(it).map_err(|error| error.to_string()));
            let error = done.as_ref().err().cloned();
            let tell = Box::new(move |written: Result<(), String>| {
                let _ = reply.send(done.and_then(|value| written.map(|()| value)));
            });
            Finish { error, tell }
        });
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(Job { kind, work }).await.map_err(|_| stopped())?;
        let answer = answer.await.map_err(|_| stopped())?;
        answer.map_err(|why| StoreError::Unavailable(format!("{}: {why}", self.file.display())))
    }
}

/// Makes a file that only its user can read, if it is not there: it holds keys. What SQLite puts
/// beside it is made alike.
fn make(file: &Path) -> std::io::Result<()> {
    let (mut folder, mut options) = (std::fs::DirBuilder::new(), std::fs::OpenOptions::new());
    folder.recursive(true);
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folder.mode(0o700);
        options.mode(0o600);
    }
    if let Some(parent) = file.parent() {
        folder.create(parent)?;
    }
    options.open(file).map(drop)
}

fn connect(file: &Path, sync: Sync) -> rusqlite::Result<Connection> {
    let connection = Connection::open(file)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(TABLES)?;
    connection.pragma_update(
        None,
        "synchronous",
        match sync {
            Sync::Later => "NORMAL",
            Sync::First => "FULL",
        },
    )?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Does the jobs in the order they come, as many at a time as are there.
fn work(connection: &Connection, mut queue: mpsc::Receiver<Job>) {
    while let Some(first) = queue.blocking_recv() {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Ok(job) = queue.try_recv()
        {
            batch.push(job);
        }
        do_all(connection, batch);
    }
}

fn do_all(connection: &Connection, batch: Vec<Job>) {
    let mut finishing = Vec::with_capacity(batch.len());
    if batch.iter().all(|job| job.kind == Kind::Read) {
        batch.into_iter().for_each(|job| ((job.work)(Ok(connection)).tell)(Ok(())));
        return;
    }
    if let Err(error) = connection.execute_batch("BEGIN IMMEDIATE") {
        let why = error.to_string();
        batch.into_iter().for_each(|job| ((job.work)(Err(why.clone())).tell)(Ok(())));
        return;
    }
    batch.into_iter().for_each(|job| finishing.push((job.work)(Ok(connection))));
    let swept = sweep(connection).map_err(|error| error.to_string());
    let failed = finishing.iter().find_map(|finish| finish.error.clone()).or(swept.err());
    let written = match failed {
        None => connection.execute_batch("COMMIT").map_err(|error| error.to_string()),
        Some(why) => Err(why),
    };
    if written.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    finishing.into_iter().for_each(|finish| (finish.tell)(written.clone()));
}

/// Wakes everybody when another process wrote: which log, it does not say.
fn look(jobs: &mpsc::WeakSender<Job>, wakes: &Arc<Wakes>) {
    let seen = Arc::new(std::sync::atomic::AtomicI64::new(0));
    loop {
        thread::sleep(LOOK);
        let Some(jobs) = jobs.upgrade() else { return };
        if wakes.is_empty() {
            continue;
        }
        let (wakes, seen) = (wakes.clone(), seen.clone());
        let work = Box::new(move |connection: Result<&Connection, String>| {
            let asked =
                connection.map(|it| it.query_row("PRAGMA data_version", [], |row| row.get(0)));
            let version: i64 = asked.map_or(0, Result::unwrap_or_default);
            if seen.swap(version, std::sync::atomic::Ordering::Relaxed) != version {
                wakes.wake_all();
            }
            Finish { error: None, tell: Box::new(drop) }
        });
        let _ = jobs.blocking_send(Job { kind: Kind::Read, work });
    }
}

/// Clears away some of what has expired, and gives the room back.
fn sweep(connection: &Connection) -> rusqlite::Result<()> {
    let now = now();
    let mut values = connection.prepare_cached(
        "DELETE FROM kept WHERE key IN (SELECT key FROM kept WHERE ends <= ?1 LIMIT ?2)",
    )?;
    values.execute(params![now, SWEEP])?;
    let mut logs = connection.prepare_cached("SELECT log FROM logs WHERE ends <= ?1 LIMIT ?2")?;
    let expired: Vec<String> =
        logs.query_map(params![now, SWEEP], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for log in &expired {
        forget(connection, log)?;
    }
    let free: i64 =
        connection.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| row.get(0))?;
    if free > SPARE {
        // It gives back a page a row.
        let mut vacuum = connection.prepare_cached("PRAGMA incremental_vacuum(256)")?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(())
}

/// Forgets a log. New ones begin after the highest position of any that was forgotten, so that a
/// position of a log's earlier life never means something else in its next.
fn forget(connection: &Connection, log: &str) -> rusqlite::Result<()> {
    let last: Option<i64> = connection
        .prepare_cached("DELETE FROM logs WHERE log = ?1 RETURNING last")?
        .query_row([log], |row| row.get(0))
        .optional()?;
    let Some(last) = last else { return Ok(()) };
    connection.prepare_cached("DELETE FROM items WHERE log = ?1")?.execute([log])?;
    connection
        .prepare_cached("UPDATE counters SET n = max(n, ?1) WHERE name = 'forgotten'")?
        .execute([last])?;
    Ok(())
}

fn put(
    connection: &Connection,
    key: &str,
    value: &[u8],
    condition: If,
    ends: Option<i64>,
) -> rusqlite::Result<bool> {
    let version: Option<i64> = connection
        .prepare_cached("SELECT version FROM kept WHERE key = ?1 AND (ends IS NULL OR ends > ?2)")?
        .query_row(params![key, now()], |row| row.get(0))
        .optional()?;
    let holds = match condition {
        If::Always => true,
        If::Absent => version.is_none(),
        If::Version(wanted) => version == Some(wanted.cast_signed()),
    };
    if !holds {
        return Ok(false);
    }
    connection
        .prepare_cached("UPDATE counters SET n = n + 1 WHERE name = 'version'")?
        .execute([])?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO kept
             SELECT ?1, ?2, n, ?3 FROM counters WHERE name = 'version'",
        )?
        .execute(params![key, value, ends])?;
    Ok(true)
}

fn append(
    connection: &Connection,
    log: &str,
    value: &[u8],
    keep: usize,
    ends: Option<i64>,
) -> rusqlite::Result<u64> {
    let is_over = connection
        .prepare_cached("SELECT 1 FROM logs WHERE log = ?1 AND ends <= ?2")?
        .exists(params![log, now()])?;
    if is_over {
        forget(connection, log)?;
    }
    let position: i64 = connection
        .prepare_cached(
            "INSERT INTO logs SELECT ?1, n + 1, ?2 FROM counters WHERE name = 'forgotten'
             ON CONFLICT (log) DO UPDATE SET last = last + 1, ends = excluded.ends RETURNING last",
        )?
        .query_row(params![log, ends], |row| row.get(0))?;
    connection
        .prepare_cached("INSERT INTO items VALUES (?1, ?2, ?3)")?
        .execute(params![log, position, value])?;
    let keep = i64::try_from(keep).unwrap_or(i64::MAX);
    connection
        .prepare_cached("DELETE FROM items WHERE log = ?1 AND position <= ?2")?
        .execute(params![log, position.saturating_sub(keep)])?;
    Ok(position.cast_unsigned())
}

/// What a log holds after a position; none if that is gone.
fn after(
    connection: &Connection,
    log: &str,
    position: u64,
) -> rusqlite::Result<Option<Vec<(u64, Bytes)>>> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT last FROM logs WHERE log = ?1 AND (ends IS NULL OR ends > ?2)")?
        .query_row(params![log, now()], |row| row.get(0))
        .optional()?;
    let Some(last) = last else { return Ok(Some(Vec::new())) };
    let first: Option<i64> = connection
        .prepare_cached("SELECT min(position) FROM items WHERE log = ?1")?
        .query_row([log], |row| row.get(0))?;
    let dropped = first.map_or(last, |first| first - 1);
    let Ok(position) = i64::try_from(position) else { return Ok(None) };
    if position != 0 && !(dropped..=last).contains(&position) {
        return Ok(None);
    }
    connection
        .prepare_cached(
            "SELECT position, value FROM items WHERE log = ?1 AND position > ?2 ORDER BY position",
        )?
        .query_map(params![log, position], |row| {
            let (position, value): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            Ok((position.cast_unsigned(), Bytes::from(value)))
        })?
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

/// Milliseconds since 1970: the file may be read by another process, and after a restart.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

// An end too far away to be counted is none.
fn end(ttl: Option<Duration>) -> Option<i64> {
    now().checked_add(i64::try_from(ttl?.as_millis()).ok()?)
}

impl Store for Sqlite {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        let key = key.to_owned();
        Box::pin(self.run(Kind::Read, move |connection| {
            connection
                .prepare_cached(
                    "SELECT value, version FROM kept
                     WHERE key = ?1 AND (ends IS NULL OR ends > ?2)",
                )?
                .query_row(params![key, now()], |row| {
                    let (value, version): (Vec<u8>, i64) = (row.get(0)?, row.get(1)?);
                    Ok(Entry { value: value.into(), version: version.cast_unsigned() })
                })
                .optional()
        }))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        let key = key.to_owned();
        Box::pin(
            self.run(Kind::Write, move |connection| {
                put(connection, &key, &value, condition, end(ttl))
            }),
        )
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        let key = key.to_owned();
        Box::pin(self.run(Kind::Write, move |connection| {
            connection.prepare_cached("DELETE FROM kept WHERE key = ?1")?.execute([&key])?;
            forget(connection, &key)
        }))
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        keep: usize,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let name = log.to_owned();
        Box::pin(async move {
            let position = self
                .run(Kind::Write, move |connection| {
                    append(connection, &name, &value, keep, end(ttl))
                })
                .await?;
            self.wakes.wake(log);
            Ok(position)
        })
    }

    fn after<'a>(
        &'a self,
        log: &'a str,
        position: u64,
    ) -> BoxFuture<'a, StoreResult<Vec<(u64, Bytes)>>> {
        let log = log.to_owned();
        Box::pin(async move {
            let held =
                self.run(Kind::Read, move |connection| after(connection, &log, position)).await?;
            held.ok_or(StoreError::Gone)
        })
    }

    fn watch(&self, log: &str) -> BoxStream<'static, ()> {
        self.wakes.watch(log)
    }
}

impl Browse for Sqlite {
    fn keys<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, StoreResult<Vec<String>>> {
        let prefix = prefix.to_owned();
        Box::pin(self.run(Kind::Read, move |connection| {
            let known = "SELECT key FROM kept WHERE key >= ?1 AND substr(key, 1, ?2) = ?1
                 AND (ends IS NULL OR ends > ?3) ORDER BY key";
            let length = i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX);
            let mut known = connection.prepare_cached(known)?;
            known.query_map(params![prefix, length, now()], |row| row.get(0))?.collect()
        }))
    }
}

impl Drop for Sqlite {
    /// What was asked for is written first.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sqlite").field("file", &self.file).finish_non_exhaustive()
    }
}
