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
    proc_stat::{Identity, Process, own_id, process, processes},
};
use rustix::{param::page_size, process::Pid};
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
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
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
                // Processes that are known to belong to no run.
                let mut others = HashSet::new();
                loop {
                    tokio::time::sleep(LOOK).await;
                    let tree = tree.clone();
                    // Once more when all is over: for what the last run left.
                    let is_last = tree.runs().is_empty();
                    let looked = tokio::task::spawn_blocking(move || {
                        tree.look(&mut others);
                        others
                    });
                    match looked.await {
                        Ok(known) => others = known,
                        Err(_) => return,
                    }
                    if is_last {
                        break;
                    }
                }
            }
        });
    }

    /// Looks at all processes once: holds each run to its share, and ends what ended runs left.
    fn look(&self, others: &mut HashSet<Identity>) {
        let processes = processes();
        let runs: Vec<(u64, Arc<Run>)> =
            self.runs().iter().map(|(number, run)| (*number, run.clone())).collect();
        let seen = Seen::new(&processes, self.tagged(&processes, others));
        for (number, run) in &runs {
            if let Some(leader) = run.group.get().and_then(|group| group.id()) {
                run.judge(seen.of_run(leader, *number).into_values());
            }
        }
        for (process, number) in seen.tagged {
            let was_running = runs.iter().any(|(running, _)| *running == number);
            // It may have begun after the runs were looked at.
            if !was_running && !self.runs().contains_key(&number) {
                process.end();
            }
        }
    }

    /// The processes with a tag of this server. Those that have none are among the `others` from now
    /// on, and are not looked at again.
    fn tagged<'a>(
        &self,
        processes: &'a [Process],
        others: &mut HashSet<Identity>,
    ) -> Vec<Tagged<'a>> {
        let mut tagged = vec![];
        for process in processes {
            if others.contains(&process.identity()) {
                continue;
            }
            match self.run_of(process) {
                None => drop(others.insert(process.identity())),
                Some(_) if self.is_no_script(process, processes) => (),
                Some(number) => tagged.push((process, number)),
            }
        }
        // Processes that are gone need not be known any longer.
        let there: HashSet<Identity> = processes.iter().map(Process::identity).collect();
        others.retain(|known| there.contains(known));
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
    fn is_no_script(&self, process: &Process, all: &[Process]) -> bool {
        let server = own_id();
        let mut ancestor = process;
        loop {
            if ancestor.id == server {
                return true;
            }
            if ancestor.parent == server {
                let has_variable = self.run_by_variable(ancestor.id).is_some();
                let is_bystander =
                    is_bystander(has_variable, filters(ancestor.id), filters(server));
                // Otherwise what was read may be of another process, which has its number by now.
                return is_bystander || !ancestor.is_there();
            }
            let Some(parent) = all.iter().find(|other| other.id == ancestor.parent) else {
                return false;
            };
            ancestor = parent;
        }
    }

    /// Ends every process of a run, wherever it went. Its first has ended.
    fn end_run(&self, number: u64) {
        let all = processes();
        let is_of_it = |process: &&Process| self.run_of(process) == Some(number);
        all.iter()
            .filter(is_of_it)
            .filter(|one| !self.is_no_script(one, &all))
            .for_each(Process::end);
    }
}

/// All processes at one time.
struct Seen<'a> {
    by_group: HashMap<i32, Vec<&'a Process>>,
    by_parent: HashMap<i32, Vec<&'a Process>>,
    tagged: Vec<Tagged<'a>>,
}

impl<'a> Seen<'a> {
    fn new(processes: &'a [Process], tagged: Vec<Tagged<'a>>) -> Self {
        let (mut by_group, mut by_parent) =
            (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        for process in processes {
            by_group.entry(process.group).or_default().push(process);
            by_parent.entry(process.parent).or_default().push(process);
        }
        Self { by_group, by_parent, tagged }
    }

    /// The processes of a run: those of its group, all that came of them, and those that left both
    /// and still have the tag.
    fn of_run(&self, leader: Pid, number: u64) -> HashMap<i32, &'a Process> {
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
        let left = self.tagged.iter().filter(|(one, of)| *of == number && !one.is_dead);
        all.extend(left.map(|(process, _)| (process.id, *process)));
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
    /// Notes what it has more of than its share.
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
            let why = self.run.exceeded.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(why) = why {
                return why;
            }
            changed.await;
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.tree.runs().remove(&self.number);
        // What it left is looked for once more.
        self.tree.changed.notify_one();
    }
}
