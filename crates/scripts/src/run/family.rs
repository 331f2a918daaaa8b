//! The processes that came of a run, wherever they went: counted while it lasts, ended after it.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

/// How often processes are looked at while scripts run, and once after.
const LOOK: Duration = Duration::from_millis(250);
/// The variable that tells whose a process is, whatever becomes of its parents.
pub(crate) const MARK: &str = "ZCP_CALL";
/// Bytes of a page of memory.
const PAGE: u64 = 4096;
/// Parts of a second that processor time is counted in.
const TICKS: u64 = 100;

/// What all processes of a run may have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) processes: usize,
    pub(crate) memory: Option<u64>,
    pub(crate) cpu: Option<Duration>,
}

/// All runs of a server.
#[derive(Debug)]
pub(crate) struct Family {
    /// What this server's runs are marked with.
    tag: String,
    next: AtomicU64,
    runs: Mutex<HashMap<u64, Arc<Run>>>,
    begun: Notify,
}

/// One run.
#[derive(Debug)]
struct Run {
    /// Its first process, once there is one.
    leader: OnceLock<i32>,
    share: Share,
    exceeded: Mutex<Option<String>>,
    changed: Notify,
}

/// A run that counts for as long as this is there.
#[derive(Debug)]
pub(crate) struct Member {
    family: Arc<Family>,
    number: u64,
    run: Arc<Run>,
}

impl Family {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            tag: zcp::random_name(),
            next: AtomicU64::default(),
            runs: Mutex::default(),
            begun: Notify::new(),
        })
    }

    /// What all runs of this server are marked with.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// The first processes of all runs.
    pub(crate) fn leaders(&self) -> Vec<i32> {
        self.runs().values().filter_map(|run| run.leader.get().copied()).collect()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<u64, Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a run that is about to begin: none of its processes is taken for one that was left.
    pub(crate) fn begin(self: &Arc<Self>, share: Share) -> Member {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let run = Run {
            leader: OnceLock::new(),
            share,
            exceeded: Mutex::default(),
            changed: Notify::new(),
        };
        let run = Arc::new(run);
        self.runs().insert(number, run.clone());
        self.begun.notify_one();
        Member { family: self.clone(), number, run }
    }

    /// Looks after the runs for as long as there is anybody to look after.
    pub(crate) fn keep(self: &Arc<Self>, tracker: &TaskTracker) {
        let family = Arc::downgrade(self);
        tracker.spawn(async move {
            while let Some(begun) = wait(&family).await {
                let mut strangers = HashSet::new();
                loop {
                    tokio::time::sleep(LOOK).await;
                    let family = begun.clone();
                    let is_over = family.runs().is_empty();
                    let looked = tokio::task::spawn_blocking(move || {
                        family.look(&mut strangers);
                        strangers
                    });
                    match looked.await {
                        Ok(known) => strangers = known,
                        Err(_) => return,
                    }
                    if is_over {
                        break;
                    }
                }
            }
        });
    }

    /// Looks at all processes once. `strangers` are known to be none of ours.
    fn look(&self, strangers: &mut HashSet<(i32, u64)>) {
        let processes: Vec<Process> = processes();
        let runs: Vec<(u64, Arc<Run>)> =
            self.runs().iter().map(|(number, run)| (*number, run.clone())).collect();
        let mut children: HashMap<i32, Vec<&Process>> = HashMap::new();
        for process in &processes {
            children.entry(process.parent).or_default().push(process);
        }
        for (_, run) in &runs {
            let Some(leader) = run.leader.get().copied() else { continue };
            let group = processes.iter().filter(|process| process.group == leader);
            let mut all: HashMap<i32, &Process> =
                group.map(|process| (process.id, process)).collect();
            let mut open: Vec<i32> = all.keys().copied().chain([leader]).collect();
            while let Some(parent) = open.pop() {
                for child in children.get(&parent).into_iter().flatten() {
                    if all.insert(child.id, child).is_none() {
                        open.push(child.id);
                    }
                }
            }
            run.judge(all.values().copied());
        }
        self.end_the_left(&processes, &runs, strangers);
    }

    /// Ends processes whose run is over: those that went where its group does not reach.
    fn end_the_left(
        &self,
        processes: &[Process],
        runs: &[(u64, Arc<Run>)],
        strangers: &mut HashSet<(i32, u64)>,
    ) {
        let known = |process: &Process| strangers.contains(&(process.id, process.started));
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let mut others = vec![];
        for process in processes.iter().filter(|process| process.id != own && !known(process)) {
            match self.whose(process.id) {
                None => others.push((process.id, process.started)),
                Some(number) if runs.iter().any(|(running, _)| *running == number) => (),
                // It began after the runs were looked at.
                Some(number) if self.runs().contains_key(&number) => (),
                Some(_) => end(process, own),
            }
        }
        strangers.extend(others);
        // Those that are gone need not be known any longer.
        let there: HashSet<_> = processes.iter().map(|one| (one.id, one.started)).collect();
        strangers.retain(|known| there.contains(known));
    }

    /// The run a process is marked with.
    fn whose(&self, process: i32) -> Option<u64> {
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let marked = environment.split(|byte| *byte == 0).find_map(|variable| {
            let variable = std::str::from_utf8(variable).ok()?;
            variable.strip_prefix(MARK)?.strip_prefix('=')
        })?;
        let (tag, number) = marked.rsplit_once('-')?;
        (tag == self.tag).then(|| number.parse().ok())?
    }
}

/// Waits until something runs.
async fn wait(family: &Weak<Family>) -> Option<Arc<Family>> {
    loop {
        let there = family.upgrade()?;
        if !there.runs().is_empty() {
            return Some(there);
        }
        let begun = there.begun.notified();
        // Held for a while only, so that it can go when nothing runs.
        tokio::select! {
            () = begun => (),
            () = tokio::time::sleep(LOOK * 40) => (),
        }
    }
}

fn end(process: &Process, own: i32) {
    let Some(id) = Pid::from_raw(process.id) else { return };
    let _ = kill_process(id, Signal::KILL);
    if process.parent == own {
        let _ = waitpid(Some(id), WaitOptions::empty());
    }
}

impl Run {
    /// Says so if all of it together is more than it may be.
    fn judge<'a>(&self, all: impl Iterator<Item = &'a Process>) {
        let (mut count, mut memory, mut ticks) = (0, 0, 0);
        for process in all {
            count += 1;
            memory += process.pages * PAGE;
            ticks += process.ticks;
        }
        let share = self.share;
        let cpu = Duration::from_millis(ticks * 1000 / TICKS);
        let why = if count > share.processes {
            format!("it had more than {} processes", share.processes)
        } else if let Some(most) = share.memory.filter(|most| memory > *most) {
            format!("it took more than {} MiB of memory", most >> 20)
        } else if let Some(most) = share.cpu.filter(|most| cpu > *most) {
            format!("it computed for more than {} s", most.as_secs())
        } else {
            return;
        };
        self.exceeded.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.changed.notify_one();
    }
}

impl Member {
    /// What its processes are marked with.
    pub(crate) fn mark(&self) -> String {
        format!("{}-{}", self.family.tag, self.number)
    }

    /// It has begun, with this process.
    pub(crate) fn leads(&self, leader: i32) {
        let _ = self.run.leader.set(leader);
    }

    /// Waits until it has more than it may: what that is.
    pub(crate) async fn exceeded(&self) -> String {
        loop {
            let changed = self.run.changed.notified();
            let why = self.run.exceeded.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(why) = why {
                return why;
            }
            changed.await;
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.family.runs().remove(&self.number);
        // Whatever it left is looked for once more.
        self.family.begun.notify_one();
    }
}

/// A process, as far as it matters.
#[derive(Debug)]
struct Process {
    id: i32,
    parent: i32,
    group: i32,
    ticks: u64,
    started: u64,
    pages: u64,
}

/// All processes, where the system tells.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(process).collect()
}

fn process(id: i32) -> Option<Process> {
    let line = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in brackets, may have anything in it.
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    Some(Process {
        id,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        ticks: number(11)? + number(12)?,
        started: number(19)?,
        pages: number(21)?,
    })
}
