//! The thread that writes audit logs: a bounded queue of lines, written in order.
//!
//! Nothing here makes a caller's thread wait for a disk. `append` puts a line into the queue and
//! returns. Lines of logs that are required wait until they can be written; others are lost if they
//! cannot. A line that found no room, or was lost, is counted, and the log says how many are missing
//! as soon as it can be written again.

use crate::log_file::{LARGEST, open, write};
use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;
use zcp::wire::sync::lock;

/// How many bytes of lines wait to be written. One line may be longer.
const MOST: usize = 16 * 1024 * 1024;
/// How long anybody waits for the disk.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often lines that could not be written are tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// The audit logs of a server. The thread is started with the first line.
#[derive(Debug, Default)]
pub(crate) struct Log {
    queue: Arc<Queue>,
    started: OnceLock<()>,
}

/// A line on its way to a log.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) text: Vec<u8>,
    pub(crate) fate: Fate,
}

/// What becomes of a line that cannot be written now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is lost.
    Lost,
    /// It waits, if there is room.
    Waits,
    /// It waits, also beyond the limit: something was done that must be in the log. As many calls as
    /// can be under way, since none is begun beyond the limit.
    Stays,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    grown: Condvar,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    /// Of lines in the queue, and of those that wait for their log.
    bytes: usize,
    /// Lines that were lost, by log.
    lost: BTreeMap<PathBuf, u64>,
    is_closing: bool,
    has_ended: bool,
}

#[derive(Debug)]
enum Item {
    Line(Entry),
    /// Whether everything before this was written to a log, and more can be.
    Ask(PathBuf, oneshot::Sender<io::Result<()>>),
}

impl Log {
    /// Adds a line to the queue.
    pub(crate) fn append(&self, entry: Entry) {
        self.start();
        let mut state = self.queue.state();
        if state.has_ended {
            tracing::error!("a call is not written down: {}: nobody writes", entry.path.display());
            return;
        }
        let is_full = state.bytes > 0 && state.bytes + entry.text.len() > MOST;
        if is_full && entry.fate != Fate::Stays {
            *state.lost.entry(entry.path).or_default() += 1;
            return;
        }
        state.bytes += entry.text.len();
        state.items.push_back(Item::Line(entry));
        self.queue.grown.notify_one();
    }

    /// Waits until everything so far is written to a log, and says whether more can be.
    pub(crate) async fn written(&self, path: &Path) -> io::Result<()> {
        self.start();
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.queue.state();
            if state.has_ended {
                return Err(io::Error::other("nobody writes"));
            }
            if state.bytes > MOST {
                return Err(io::Error::other("too many lines wait to be written"));
            }
            state.items.push_back(Item::Ask(path.to_path_buf(), reply));
            self.queue.grown.notify_one();
        }
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(written)) => written,
            Ok(Err(_)) => Err(io::Error::other("nobody writes it")),
            Err(_) => Err(io::Error::other("it takes too long to write")),
        }
    }

    /// Waits until the queue is written, when the server ends.
    pub(crate) async fn close(&self) {
        if self.started.get().is_none() {
            return;
        }
        self.queue.state().is_closing = true;
        self.queue.grown.notify_one();
        let queue = self.queue.clone();
        let _ = tokio::task::spawn_blocking(move || queue.wait_for_end()).await;
    }

    fn start(&self) {
        self.started.get_or_init(|| {
            let queue = self.queue.clone();
            let writer = Writer { queue, backlog: VecDeque::new(), failing: BTreeMap::new() };
            let begun = thread::Builder::new().name("zcp-audit".into()).spawn(|| writer.run());
            if let Err(error) = begun {
                tracing::error!("calls are not written down: {error}");
                self.queue.state().has_ended = true;
            }
        });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let is_closing = std::mem::replace(&mut self.queue.state().is_closing, true);
        if self.started.get().is_some() && !is_closing {
            self.queue.grown.notify_one();
            self.queue.wait_for_end();
        }
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for the thread, but not for a disk that does not answer.
    fn wait_for_end(&self) {
        let state = self.state();
        let waited = self.ended.wait_timeout_while(state, PATIENCE, |state| !state.has_ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.has_ended || state.bytes > 0 {
            tracing::error!("{} bytes of the audit log were not written", state.bytes);
        }
    }

    /// What is there to do. Nothing after `AGAIN` if something waits, and none at the end.
    fn next(&self, is_waiting: bool) -> Option<VecDeque<Item>> {
        let state = self.state();
        let is_idle = |state: &mut State| state.items.is_empty() && !state.is_closing;
        let mut state = match is_waiting {
            true => {
                let waited = self.grown.wait_timeout_while(state, AGAIN, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            false => {
                let waited = self.grown.wait_while(state, is_idle);
                waited.unwrap_or_else(PoisonError::into_inner)
            }
        };
        let is_over = state.is_closing && state.items.is_empty();
        (!is_over).then(|| std::mem::take(&mut state.items))
    }
}

/// The thread: it alone opens the files.
struct Writer {
    queue: Arc<Queue>,
    /// Lines that are not written yet, in order.
    backlog: VecDeque<Entry>,
    /// Logs that could not be written, which is told once.
    failing: BTreeMap<PathBuf, String>,
}

impl Writer {
    fn run(mut self) {
        while let Some(items) = self.queue.next(!self.backlog.is_empty()) {
            for item in items {
                match item {
                    Item::Line(entry) => self.backlog.push_back(entry),
                    Item::Ask(path, reply) => {
                        self.write();
                        let _ = reply.send(self.can_write(&path));
                    }
                }
            }
            self.write();
        }
        self.write();
        self.queue.state().has_ended = true;
        self.queue.ended.notify_all();
    }

    fn can_write(&self, path: &Path) -> io::Result<()> {
        let is_waiting = self.backlog.iter().any(|entry| entry.path == path);
        match self.failing.get(path).filter(|_| is_waiting) {
            Some(why) => Err(io::Error::other(why.clone())),
            None => open(path).map(drop),
        }
    }

    /// Writes what waits, each log in its order, until it fails.
    fn write(&mut self) {
        let mut failed: BTreeMap<PathBuf, String> = BTreeMap::new();
        let failing = &mut self.failing;
        let mut done = 0;
        let mut lost: Vec<PathBuf> = vec![];
        self.backlog.retain(|entry| {
            let is_written = !failed.contains_key(&entry.path)
                && write(&entry.path, &entry.text, LARGEST)
                    .map(|()| failing.remove(&entry.path))
                    .map_err(|error| failed.insert(entry.path.clone(), error.to_string()))
                    .is_ok();
            let is_lost = !is_written && entry.fate == Fate::Lost;
            if is_lost {
                lost.push(entry.path.clone());
            }
            if is_written || is_lost {
                done += entry.text.len();
            }
            !(is_written || is_lost)
        });
        for (path, why) in failed {
            let shown = path.display().to_string();
            if failing.insert(path, why.clone()).is_none() {
                tracing::warn!("calls are not written down: {shown}: {why}");
            }
        }
        let missing = {
            let mut state = self.queue.state();
            state.bytes -= done;
            lost.into_iter().for_each(|path| *state.lost.entry(path).or_default() += 1);
            let (kept, missing) = std::mem::take(&mut state.lost)
                .into_iter()
                .partition::<BTreeMap<_, _>, _>(|(path, _)| failing.contains_key(path));
            state.lost = kept;
            missing
        };
        missing.into_iter().for_each(|(path, count)| self.tell_of_lost(path, count));
    }

    /// Says in the log itself how many lines are missing before this one.
    fn tell_of_lost(&self, path: PathBuf, count: u64) {
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        let line = format!("{{\"time\":\"{time}\",\"lost\":{count}}}\n");
        if write(&path, line.as_bytes(), LARGEST).is_err() {
            *self.queue.state().lost.entry(path).or_default() += count;
        } else {
            tracing::warn!("{count} calls were not written down: {}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn text(path: &Path) -> String {
        fs::read_to_string(path).expect("a log")
    }

    fn entry(path: &Path, text: impl Into<Vec<u8>>, fate: Fate) -> Entry {
        Entry { path: path.to_path_buf(), text: text.into(), fate }
    }

    #[test]
    fn what_is_in_the_queue_is_written_at_the_end_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let log = Log::default();
        let lines: Vec<String> = (0..2000).map(|number| format!("{number}\n")).collect();
        lines.iter().for_each(|line| log.append(entry(&path, line.as_str(), Fate::Lost)));
        drop(log);
        assert_eq!(text(&path), lines.concat());
    }

    #[tokio::test]
    async fn a_full_queue_is_told_of_and_loses_nothing_that_was_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let (parent, log) = (folder.path().join("parent"), Log::default());
        let path = parent.join("audit.jsonl");
        fs::write(&parent, "no folder").expect("written");
        let long = "x".repeat(MOST / 2);
        for fate in [Fate::Waits, Fate::Waits, Fate::Waits, Fate::Stays] {
            log.append(entry(&path, format!("{fate:?} {long}\n"), fate));
        }
        // No call begins that could not be written down.
        assert!(log.written(&path).await.is_err());
        fs::remove_file(&parent).expect("it was there");
        log.close().await;
        let text = text(&path);
        let starts: Vec<String> = text.lines().map(|line| line.chars().take(5).collect()).collect();
        assert_eq!(starts, ["Waits", "Stays", "{\"tim"]);
        assert!(text.ends_with("\"lost\":2}\n"), "{:.100}", &text[text.len() - 60..]);
    }
}
