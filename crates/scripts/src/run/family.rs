//! The processes that came of a run, wherever they went: counted while it lasts, ended after it.

use super::{
    bystander::{filters, is_bystander},
    leader::Group,
};
use rustix::{
    param::page_size,
    process::{
        Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, waitpid,
    },
};
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
/// Numbers of runs that are told apart by the mark that stays.
const NUMBERS: u64 = 1_000_000;
/// The limit that carries the mark, as the system calls it: time as a kind of process that scripts
/// never are. So high that nobody is bounded by it, it is inherited by all that come of a process.
pub(crate) const LIMIT: &str = "Max realtime timeout";
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
    /// The same as a number of twelve digits.
    badge: u64,
    /// When this process was started, in the system's ticks: what is older is of no run.
    since: u64,
    next: AtomicU64,
    runs: Mutex<HashMap<u64, Arc<Run>>>,
    begun: Notify,
}

/// One run.
#[derive(Debug)]
struct Run {
    /// Its processes, once there are any.
    group: OnceLock<Arc<Group>>,
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
        let tag = zcp::random_name();
        let number = tag.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
        Arc::new(Self {
            badge: 100_000_000_000 + number % 900_000_000_000,
            since: process(own_id()).map_or(0, |own| own.started),
            tag,
            next: AtomicU64::default(),
            runs: Mutex::default(),
            begun: Notify::new(),
        })
    }

    /// What all runs of this server are marked with.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// How the mark that stays begins.
    pub(crate) fn badge(&self) -> u64 {
        self.badge
    }

    /// When this server was started, in ticks of the system.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// The process groups of all runs.
    pub(super) fn groups(&self) -> Vec<Arc<Group>> {
        self.runs().values().filter_map(|run| run.group.get().cloned()).collect()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<u64, Arc<Run>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a run that is about to begin: none of its processes is taken for one that was left.
    pub(crate) fn begin(self: &Arc<Self>, share: Share) -> Member {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % NUMBERS;
        let run = Run {
            group: OnceLock::new(),
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
        let marked = self.marked(&processes, strangers);
        for (number, run) in &runs {
            let Some(leader) = run.group.get().and_then(|group| group.id()) else { continue };
            let leader = leader.as_raw_pid();
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
            // Those that left the tree and the group still have the mark.
            let left = marked.iter().filter(|(one, of)| of == number && !one.is_dead);
            all.extend(left.map(|(process, _)| (process.id, *process)));
            run.judge(all.values().copied());
        }
        self.end_the_left(&marked, &runs);
    }

    /// The processes of runs by their marks, and of which. Those that have none are strangers from
    /// now on.
    fn marked<'a>(
        &self,
        processes: &'a [Process],
        strangers: &mut HashSet<(i32, u64)>,
    ) -> Vec<(&'a Process, u64)> {
        let mut marked = vec![];
        let mut others = vec![];
        for process in processes {
            let known = (process.id, process.started);
            if strangers.contains(&known) {
                continue;
            }
            match self.whose(process) {
                Some(_) if self.is_of_others(process, processes) => (),
                None => others.push(known),
                Some(number) => marked.push((process, number)),
            }
        }
        strangers.extend(others);
        // Those that are gone need not be known any longer.
        let there: HashSet<_> = processes.iter().map(|one| (one.id, one.started)).collect();
        strangers.retain(|known| there.contains(known));
        marked
    }

    /// Ends processes whose run is over: those that went where its group does not reach.
    fn end_the_left(&self, marked: &[(&Process, u64)], runs: &[(u64, Arc<Run>)]) {
        for (process, number) in marked {
            let was_running = runs.iter().any(|(running, _)| running == number);
            // It may have begun after the runs were looked at.
            if !was_running && !self.runs().contains_key(number) {
                end(process);
            }
        }
    }

    /// The run a process is marked with: by what stays whatever it does to its environment, or by
    /// its environment.
    fn whose(&self, process: &Process) -> Option<u64> {
        // Others may set the limits of a process, so one that is older may have the mark, too.
        if process.started < self.since {
            return None;
        }
        let process = process.id;
        let limits = fs::read_to_string(format!("/proc/{process}/limits")).unwrap_or_default();
        let mark = limits.lines().find_map(|line| line.strip_prefix(LIMIT));
        let mark = mark.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        if let Some(mark) = mark.filter(|mark| mark / NUMBERS == self.badge) {
            return Some(mark % NUMBERS);
        }
        self.said_to_be(process)
    }

    /// The run a process is of by its environment.
    fn said_to_be(&self, process: i32) -> Option<u64> {
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let marked = environment.split(|byte| *byte == 0).find_map(|variable| {
            let variable = std::str::from_utf8(variable).ok()?;
            variable.strip_prefix(MARK)?.strip_prefix('=')
        })?;
        let (tag, number) = marked.rsplit_once('-')?;
        (tag == self.tag).then(|| number.parse().ok())?
    }

    /// Whether a process is this one, or one that was started here and not for a run, or came of such
    /// a one: it may have been started while another was marked. What the system made a child of this
    /// process when its parent ended is told from those.
    fn is_of_others(&self, process: &Process, all: &[Process]) -> bool {
        let own = own_id();
        let mut one = process;
        loop {
            if one.id == own {
                return true;
            }
            if one.parent == own {
                let is_said_to_be = self.said_to_be(one.id).is_some();
                return is_bystander(is_said_to_be, filters(one.id), filters(own));
            }
            let parent = all.iter().find(|other| other.id == one.parent);
            let Some(parent) = parent else { return false };
            one = parent;
        }
    }

    /// Ends every process of a run, wherever it went. Its first has ended.
    fn end_run(&self, number: u64) {
        let all = processes();
        let is_of_it = |process: &&Process| self.whose(process) == Some(number);
        all.iter().filter(is_of_it).filter(|one| !self.is_of_others(one, &all)).for_each(end);
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

fn own_id() -> i32 {
    i32::try_from(std::process::id()).unwrap_or_default()
}

fn end(process: &Process) {
    let Some(id) = Pid::from_raw(process.id) else { return };
    let _ = kill_process(id, Signal::KILL);
    if process.parent == own_id() {
        let _ = waitpid(Some(id), WaitOptions::empty());
    }
}

impl Run {
    /// Says so if all of it together is more than it may be.
    fn judge<'a>(&self, all: impl Iterator<Item = &'a Process>) {
        let (mut count, mut memory, mut ticks) = (0, 0, 0);
        for process in all {
            count += 1;
            memory += process.pages * page_size() as u64;
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

    /// Whatever is started while this is held has the mark that stays, from its beginning.
    pub(crate) fn marking(&self) -> Marking {
        let before = getrlimit(Resource::Rttime);
        let mark = Some(self.family.badge * NUMBERS + self.number);
        let limit = Rlimit { current: mark, maximum: before.maximum };
        if let Err(error) = setrlimit(Resource::Rttime, limit) {
            tracing::debug!("a process is marked by its environment alone: {error}");
        }
        Marking(before)
    }

    /// It has begun, with these processes.
    pub(super) fn leads(&self, group: &Arc<Group>) {
        let _ = self.run.group.set(group.clone());
    }

    /// Ends all that is left of it.
    pub(crate) async fn end_rest(&self) {
        let (family, number) = (self.family.clone(), self.number);
        let _ = tokio::task::spawn_blocking(move || family.end_run(number)).await;
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

/// Takes the mark from this process when it is dropped.
#[must_use]
pub(crate) struct Marking(Rlimit);

impl Drop for Marking {
    fn drop(&mut self) {
        if let Err(error) = setrlimit(Resource::Rttime, self.0) {
            tracing::warn!("a limit could not be set back: {error}");
        }
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
    /// It has ended, and nobody has asked how.
    is_dead: bool,
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
        is_dead: matches!(fields.first(), Some(&("Z" | "X"))),
    })
}
