//! The processes of runs, wherever they went: counted while a run lasts, ended after it.
//!
//! A script may leave its process group and its parents, so neither tells all of its processes. Each
//! process of a run therefore has a tag, which its children inherit:
//!
//! - The soft `RLIMIT_RTTIME` of the process is `server number * 1,000,000 + run number`. The limit
//!   bounds only processes with real-time scheduling, which scripts do not use, and its values are
//!   too high to bound those. Unlike a variable it stays when a process clears its environment, and
//!   a sandbox does not allow to change it.
//! - `ZCP_CALL=NAME-NUMBER` is in its environment, for systems that do not let the limit be set.

use super::{
    bystander::{filters, is_bystander},
    leader::Group,
    proc_stat::{Identity, Process, end_all, own_id, process, processes},
};
use rustix::{
    param::page_size,
    process::{Pid, Signal},
};
use std::{
    collections::{HashMap, HashSet},
    fs,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;
use zcp::wire::sync::lock;

/// How often processes are looked at while scripts run, and once after.
const LOOK: Duration = Duration::from_millis(250);
/// The variable that has the tag of a process.
pub(super) const VARIABLE: &str = "ZCP_CALL";
/// What `/proc/PID/limits` calls `RLIMIT_RTTIME`, which has the tag as well.
pub(super) const LIMIT: &str = "Max realtime timeout";
/// Runs that a tag tells apart.
const RUNS: u64 = 1_000_000;
/// Parts of a second that processor time is counted in.
const TICKS: u64 = 100;

/// What all processes of a run may have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) processes: usize,
    pub(crate) memory: Option<u64>,
    pub(crate) cpu: Option<Duration>,
}

/// The processes of all runs of a server.
#[derive(Debug)]
pub(super) struct ProcessTree {
    /// This server in the tag that is a variable.
    name: String,
    /// This server in the tag that is a limit: a number of twelve digits.
    number: u64,
    /// When this process was started, in ticks of the system: an older one belongs to no run.
    since: u64,
    next: AtomicU64,
    runs: Mutex<HashMap<u64, Arc<Run>>>,
    /// The processes that were looked at, with the run whose tag they have: a tag is read once, as
    /// reading it takes far longer than finding out that a process is there.
    tags: Mutex<HashMap<Identity, Option<u64>>>,
    changed: Notify,
}

/// One run.
#[derive(Debug)]
struct Run {
    /// Its process group, once it is started.
    group: OnceLock<Arc<Group>>,
    share: Share,
    /// What it has more of than it may, in words.
    exceeded: Mutex<Option<String>>,
    changed: Notify,
}

/// A run that is looked after for as long as this is there.
#[derive(Debug)]
pub(crate) struct Tracked {
    tree: Arc<ProcessTree>,
    number: u64,
    run: Arc<Run>,
}

/// A process with the tag of a run: the number of that.
type Tagged<'a> = (&'a Process, u64);

impl ProcessTree {
    pub(super) fn new() -> Arc<Self> {
        let name = zcp::random_name();
        let number = name.bytes().fold(0_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(byte));
        Arc::new(Self {
            number: 100_000_000_000 + number % 900_000_000_000,
            since: process(own_id()).map_or(0, |own| own.started),
            name,
            next: AtomicU64::default(),
            runs: Mutex::default(),
            tags: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// This server in the tag that is a variable.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// This server in the tag that is a limit.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// When this server was started, in ticks of the system.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    /// The process groups of all runs.
    pub(super) fn groups(&self) -> Vec<Arc<Group>> {
        self.runs().values().filter_map(|run| run.group.get().cloned()).collect()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<u64, Arc<Run>>> {
        lock(&self.runs)
    }

    /// Tracks a run that is about to begin, so that its processes are not taken for leftovers.
    pub(super) fn track(self: &Arc<Self>, share: Share) -> Tracked {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % RUNS;
        let run = Arc::new(Run {
            group: OnceLock::new(),
            share,
            exceeded: Mutex::default(),
            changed: Notify::new(),
        });
        self.runs().insert(number, run.clone());
        self.changed.notify_one();
        Tracked { tree: self.clone(), number, run }
    }

    /// Looks after the runs, for as long as there is a tree.
    pub(super) fn keep(self: &Arc<Self>, tracker: &TaskTracker) {
        let tree = Arc::downgrade(self);
        tracker.spawn(async move {
            while let Some(tree) = until_something_runs(&tree).await {
                loop {
                    tokio::time::sleep(LOOK).await;
                    let tree = tree.clone();
                    // Once more when all is over, for what the last run left, and until that is gone.
                    let is_last = tree.runs().is_empty();
                    match tokio::task::spawn_blocking(move || tree.look()).await {
                        Ok(0) if is_last => break,
                        Ok(_) => (),
                        Err(_) => return,
                    }
                }
            }
        });
    }

    /// Looks at all processes once: holds each run to its share, and ends what ended runs left. Gives
    /// how many processes that was.
    fn look(&self) -> usize {
        let processes = processes();
        let runs: Vec<(u64, Arc<Run>)> =
            self.runs().iter().map(|(number, run)| (*number, run.clone())).collect();
        let seen = Seen::new(&processes);
        // First by groups and parents alone. A run that forks without end makes processes as fast as
        // their tags can be read, so it is ended before any is.
        let mut ended = HashSet::new();
        for (_, run) in &runs {
            let Some(leader) = run.group.get().and_then(|group| group.id()) else { continue };
            let all = seen.descendants(leader);
            if run.judge(all.values().copied()) {
                run.end(leader, all.values().copied());
                ended.extend(all.into_keys());
            }
        }
        let tagged = self.tagged(&seen, &ended);
        for (number, run) in &runs {
            if let Some(leader) = run.group.get().and_then(|group| group.id()) {
                let mut all = seen.descendants(leader);
                let left = tagged.iter().filter(|(one, of)| of == number && !one.is_dead);
                let before = all.len();
                all.extend(left.map(|(process, _)| (process.id, *process)));
                if all.len() > before && run.judge(all.values().copied()) {
                    run.end(leader, all.into_values());
                }
            }
        }
        let is_left = |number: &u64| {
            let was_running = runs.iter().any(|(running, _)| running == number);
            // It may have begun after the runs were looked at.
            !was_running && !self.runs().contains_key(number)
        };
        let left: Vec<&Process> =
            tagged.into_iter().filter(|(_, of)| is_left(of)).map(|(one, _)| one).collect();
        end_all(&left);
        left.iter().filter(|process| !process.is_dead).count()
    }

    /// The processes with a tag of this server, except `ended` ones. Blocks while tags are read.
    fn tagged<'a>(&self, seen: &Seen<'a>, ended: &HashSet<i32>) -> Vec<Tagged<'a>> {
        // Whoever looks at the same time finds what is read here.
        let mut tags = lock(&self.tags);
        let mut bystanders = HashMap::new();
        let mut tagged = vec![];
        for process in seen.all.iter().filter(|process| !ended.contains(&process.id)) {
            let tag = tags.entry(process.identity()).or_insert_with(|| self.run_of(process));
            if let Some(number) = *tag
                && !self.is_no_script(process, seen, &mut bystanders)
            {
                tagged.push((process, number));
            }
        }
        // Processes that are gone need not be known any longer.
        let there: HashSet<Identity> = seen.all.iter().map(Process::identity).collect();
        tags.retain(|known, _| there.contains(known));
        tagged
    }

    /// The run whose tag a process has.
    fn run_of(&self, process: &Process) -> Option<u64> {
        // Others may set the limits of a process, so that an older one may have the tag, too.
        if process.started < self.since {
            return None;
        }
        let limits = fs::read_to_string(format!("/proc/{}/limits", process.id)).unwrap_or_default();
        let soft = limits.lines().find_map(|line| line.strip_prefix(LIMIT));
        let soft = soft.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        match soft {
            Some(tag) if tag / RUNS == self.number => Some(tag % RUNS),
            _ => self.run_by_variable(process.id),
        }
    }

    /// The run that the environment of a process names.
    fn run_by_variable(&self, process: i32) -> Option<u64> {
        let environment = fs::read(format!("/proc/{process}/environ")).ok()?;
        let tag = environment.split(|byte| *byte == 0).find_map(|variable| {
            let variable = std::str::from_utf8(variable).ok()?;
            variable.strip_prefix(VARIABLE)?.strip_prefix('=')
        })?;
        let (name, number) = tag.rsplit_once('-')?;
        (name == self.name).then(|| number.parse().ok())?
    }

    /// Whether a process belongs to no run although it has a tag: it is the server itself, or came of
    /// a process that the server started for something else. The server has the tag of a run while it
    /// starts that, and whatever else starts meanwhile inherits it. Scripts have the variable, too.
    /// What the system made a child of the server when its parent ended is told from those.
    /// `known` has what was found out of children of the server already.
    fn is_no_script(
        &self,
        process: &Process,
        seen: &Seen<'_>,
        known: &mut HashMap<i32, bool>,
    ) -> bool {
        let server = own_id();
        let mut ancestor = process;
        loop {
            if ancestor.id == server {
                return true;
            }
            if ancestor.parent == server {
                return *known.entry(ancestor.id).or_insert_with(|| {
                    let has_variable = self.run_by_variable(ancestor.id).is_some();
                    let is_bystander =
                        is_bystander(has_variable, filters(ancestor.id), filters(server));
                    // Otherwise what was read may be of another process, which has its number by now.
                    is_bystander || !ancestor.is_there()
                });
            }
            let Some(parent) = seen.by_id.get(&ancestor.parent) else { return false };
            ancestor = parent;
        }
    }

    /// Ends every process of a run, wherever it went. Its first has ended.
    fn end_run(&self, number: u64) {
        let all = processes();
        let tagged = self.tagged(&Seen::new(&all), &HashSet::new());
        let of_it: Vec<&Process> =
            tagged.into_iter().filter(|(_, of)| *of == number).map(|(one, _)| one).collect();
        end_all(&of_it);
    }
}

/// All processes at one time.
struct Seen<'a> {
    all: &'a [Process],
    by_id: HashMap<i32, &'a Process>,
    by_group: HashMap<i32, Vec<&'a Process>>,
    by_parent: HashMap<i32, Vec<&'a Process>>,
}

impl<'a> Seen<'a> {
    fn new(all: &'a [Process]) -> Self {
        let (mut by_group, mut by_parent) =
            (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for process in all {
            by_group.entry(process.group).or_default().push(process);
            by_parent.entry(process.parent).or_default().push(process);
        }
        let by_id = all.iter().map(|process| (process.id, process)).collect();
        Self { all, by_id, by_group, by_parent }
    }

    /// The processes of a group, and all that came of them. Those that left both have the tag.
    fn descendants(&self, leader: Pid) -> HashMap<i32, &'a Process> {
        let leader = leader.as_raw_pid();
        let group = self.by_group.get(&leader).into_iter().flatten();
        let mut all: HashMap<i32, &Process> = group.map(|one| (one.id, *one)).collect();
        let mut parents: Vec<i32> = all.keys().copied().chain([leader]).collect();
        while let Some(parent) = parents.pop() {
            for child in self.by_parent.get(&parent).into_iter().flatten() {
                if all.insert(child.id, child).is_none() {
                    parents.push(child.id);
                }
            }
        }
        all
    }
}

/// Waits until something runs. Gives nothing when the tree is gone.
async fn until_something_runs(tree: &Weak<ProcessTree>) -> Option<Arc<ProcessTree>> {
    loop {
        let there = tree.upgrade()?;
        if !there.runs().is_empty() {
            return Some(there);
        }
        let changed = there.changed.notified();
        // Held for a while only, so that it can go when nothing runs.
        tokio::select! {
            () = changed => (),
            () = tokio::time::sleep(LOOK * 40) => (),
        }
    }
}

impl Run {
    /// Notes what it has more of than its share, and gives whether there is such a thing.
    fn judge<'a>(&self, all: impl Iterator<Item = &'a Process>) -> bool {
        let (mut count, mut memory, mut ticks) = (0, 0, 0);
        for process in all {
            count += 1;
            memory += process.pages * page_size() as u64;
            ticks += process.ticks;
        }
        let share = self.share;
        let cpu = Duration::from_millis(ticks * 1000 / TICKS);
        let why = if count > share.processes {
            format!("it had more than {} processes (`@limit processes`)", share.processes)
        } else if let Some(most) = share.memory.filter(|most| memory > *most) {
            format!("it took more than {} MiB of memory (`@limit memory`)", most >> 20)
        } else if let Some(most) = share.cpu.filter(|most| cpu > *most) {
            super::used_up(most)
        } else {
            return false;
        };
        lock(&self.exceeded).get_or_insert(why);
        self.changed.notify_one();
        true
    }

    /// Kills its processes at once: on a machine that they keep busy, whoever waits for the run would
    /// do so much later. The first process is reaped by that one.
    fn end<'a>(&self, leader: Pid, all: impl Iterator<Item = &'a Process>) {
        if let Some(group) = self.group.get() {
            group.signal(Signal::KILL);
        }
        let leader = leader.as_raw_pid();
        let left: Vec<&Process> = all.filter(|process| process.group != leader).collect();
        end_all(&left);
    }
}

impl Tracked {
    /// The tag of its processes that is a variable.
    pub(super) fn variable(&self) -> String {
        format!("{}-{}", self.tree.name, self.number)
    }

    /// The tag of its processes that is a limit.
    pub(super) fn limit(&self) -> u64 {
        self.tree.number * RUNS + self.number
    }

    /// It has begun, with this process group.
    pub(super) fn leads(&self, group: &Arc<Group>) {
        let _ = self.run.group.set(group.clone());
    }

    /// Ends all that is left of it.
    pub(super) async fn end_rest(&self) {
        let (tree, number) = (self.tree.clone(), self.number);
        let _ = tokio::task::spawn_blocking(move || tree.end_run(number)).await;
    }

    /// Waits until it has more than its share: of what, in words.
    pub(super) async fn exceeded(&self) -> String {
        loop {
            let changed = self.run.changed.notified();
            if let Some(why) = self.excess() {
                return why;
            }
            changed.await;
        }
    }

    /// What it has more of than its share, in words.
    pub(super) fn excess(&self) -> Option<String> {
        lock(&self.run.exceeded).clone()
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.tree.runs().remove(&self.number);
        // What it left is looked for once more.
        self.tree.changed.notify_one();
    }
}
