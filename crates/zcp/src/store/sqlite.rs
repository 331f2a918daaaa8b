//! A store in a file: it outlives the process, and several processes of one machine may share it.

mod tables;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{
    Bound, Browse, Entry, If, Store, StoreError, StoreResult, check_entry, check_value,
    wakes::Wakes,
};

/// Jobs that may wait; more wait outside.
const QUEUE: usize = 1024;
/// Jobs that are made durable together.
const BATCH: usize = 256;
/// How often it is looked whether another process wrote.
const LOOK: Duration = Duration::from_millis(50);

/// Keeps everything in a SQLite database. What was answered outlives this process, however it ends;
/// whether it outlives a power cut too is for [`Sync`] to say. One thread does the work, and writes
/// that come together are made together.
pub struct Sqlite {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
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

/// Something to do with the database. It may be done more than once: of a batch that failed each
/// job is done again by itself.
trait Job: Send {
    fn kind(&self) -> Kind;

    fn run(&mut self, connection: &Connection) -> Result<(), String>;

    /// Tells whoever waits: it was done, and is on the disk, or it was not.
    fn tell(self: Box<Self>, written: Result<(), String>);
}

/// A verb of the store that somebody waits for.
struct Verb<T, F> {
    kind: Kind,
    work: F,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, String>>,
}

impl<T, F> Job for Verb<T, F>
where
    T: Send,
    F: Fn(&Connection) -> rusqlite::Result<T> + Send,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn run(&mut self, connection: &Connection) -> Result<(), String> {
        self.done = Some((self.work)(connection).map_err(|error| error.to_string())?);
        Ok(())
    }

    fn tell(self: Box<Self>, written: Result<(), String>) {
        let done = self.done.ok_or_else(|| "it was not done".to_owned());
        let _ = self.reply.send(written.and(done));
    }
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
        let connection =
            tables::connect(&file, sync).map_err(|error| match error.sqlite_error_code() {
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
        work: impl Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> StoreResult<T> {
        let stopped = || StoreError::Unavailable("the store has stopped".into());
        let (reply, answer) = oneshot::channel();
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.send(Box::new(Verb { kind, work, done: None, reply })).await.map_err(|_| stopped())?;
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

/// Does the jobs in the order they come, as many at a time as are there.
fn work(connection: &Connection, mut queue: mpsc::Receiver<Box<dyn Job>>) {
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

fn do_all(connection: &Connection, mut batch: Vec<Box<dyn Job>>) {
    if batch.iter().all(|job| job.kind() == Kind::Read) {
        for mut job in batch {
            let read = job.run(connection);
            job.tell(read);
        }
        return;
    }
    match together(connection, &mut batch, Sweep::Some) {
        // What spoils a batch may be one of its jobs, and the others are good.
        Err(Failed::Work(_)) => {
            for mut job in batch {
                let written = together(connection, std::slice::from_mut(&mut job), Sweep::Nothing);
                job.tell(written.map_err(Failed::why));
            }
        }
        written => {
            let written = written.map_err(Failed::why);
            batch.into_iter().for_each(|job| job.tell(written.clone()));
        }
    }
}

/// Why jobs were not done.
enum Failed {
    /// The database could not be written to at all.
    Begin(String),
    /// One of them, or what goes with them.
    Work(String),
}

impl Failed {
    fn why(self) -> String {
        let (Self::Begin(why) | Self::Work(why)) = self;
        why
    }
}

/// Whether expired entries are cleared away along with a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sweep {
    Some,
    Nothing,
}

/// Does jobs in one transaction: all of them, or none.
fn together(
    connection: &Connection,
    jobs: &mut [Box<dyn Job>],
    sweep: Sweep,
) -> Result<(), Failed> {
    let begun = connection.execute_batch("BEGIN IMMEDIATE");
    begun.map_err(|error| Failed::Begin(error.to_string()))?;
    let mut done = jobs.iter_mut().try_for_each(|job| job.run(connection));
    if done.is_ok() && sweep == Sweep::Some {
        done = tables::sweep(connection).map_err(|error| error.to_string());
    }
    let done =
        done.and_then(|()| connection.execute_batch("COMMIT").map_err(|error| error.to_string()));
    if done.is_err() && !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    done.map_err(Failed::Work)
}

/// Looks whether another process wrote, and wakes everybody if so: which log, it does not say.
struct Look {
    wakes: Arc<Wakes>,
    seen: Arc<AtomicI64>,
}

impl Job for Look {
    fn kind(&self) -> Kind {
        Kind::Read
    }

    fn run(&mut self, connection: &Connection) -> Result<(), String> {
        let asked = connection.query_row("PRAGMA data_version", [], |row| row.get(0));
        let version: i64 = asked.unwrap_or_default();
        if self.seen.swap(version, Ordering::Relaxed) != version {
            self.wakes.wake_all();
        }
        Ok(())
    }

    fn tell(self: Box<Self>, _: Result<(), String>) {}
}

/// Looks now and then, for as long as somebody uses the store and waits for a log.
fn look(jobs: &mpsc::WeakSender<Box<dyn Job>>, wakes: &Arc<Wakes>) {
    let seen = Arc::new(AtomicI64::new(0));
    loop {
        thread::sleep(LOOK);
        let Some(jobs) = jobs.upgrade() else { return };
        if wakes.is_empty() {
            continue;
        }
        let _ = jobs.blocking_send(Box::new(Look { wakes: wakes.clone(), seen: seen.clone() }));
    }
}

impl Store for Sqlite {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<Option<Entry>>> {
        let key = key.to_owned();
        Box::pin(self.run(Kind::Read, move |connection| tables::get(connection, &key)))
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        condition: If,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<bool>> {
        let key = key.to_owned();
        Box::pin(async move {
            check_value(&key, &value)?;
            let write = move |connection: &Connection| {
                tables::put(connection, &key, &value, condition, ttl)
            };
            self.run(Kind::Write, write).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, StoreResult<()>> {
        let key = key.to_owned();
        Box::pin(self.run(Kind::Write, move |connection| tables::remove(connection, &key)))
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        value: Bytes,
        bound: Bound,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, StoreResult<u64>> {
        let name = log.to_owned();
        Box::pin(async move {
            check_entry(&name, &value, bound)?;
            let write = move |connection: &Connection| {
                tables::append(connection, &name, &value, bound, ttl)
            };
            let position = self.run(Kind::Write, write).await?;
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
            let read = move |connection: &Connection| tables::after(connection, &log, position);
            let held = self.run(Kind::Read, read).await?;
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
        Box::pin(self.run(Kind::Read, move |connection| tables::keys(connection, &prefix)))
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
