//! Says that this process runs its tasks for as long as it does, and takes over those of processes
//! that no longer say so.

use super::{
    End,
    engine::Engine,
    record::Record,
    run::start,
    work::{Place, Work},
};
use crate::{
    auth::Principal,
    runtime::{
        Core, Runtime, Shared,
        call::Fault,
        ctx::{About, Ctx},
    },
    store::{If, StoreError, StoreResult},
};
use bytes::Bytes;
use futures_util::StreamExt;
use std::{
    collections::HashSet,
    sync::{Arc, PoisonError, Weak},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};
use zcp_wire::mcp::tasks::TaskStatus;

/// A process that has not said for so long that it runs its tasks, does not.
const LEASE: Duration = Duration::from_secs(6);
/// How often it says so, and looks after the others.
const BEAT: Duration = Duration::from_secs(2);
/// Runs of a task at most: it may be what its processes die of.
const ATTEMPTS: u32 = 10;
/// Tasks of one process that are found again when it dies without anybody asking for them.
pub(super) const RUNS: usize = 10_000;
/// The processes that run tasks.
const RUNNERS: &str = "runners";
const RUNNERS_KEPT: usize = 256;
const RUNNERS_TTL: Duration = Duration::from_secs(24 * 60 * 60);

impl Engine {
    /// The name this process runs tasks under, made known to the others. A new one if it was
    /// silent for so long that they may think it dead.
    pub(super) async fn enlist(&self) -> StoreResult<Arc<str>> {
        let (name, silent) = match self.held() {
            Some((name, beaten)) if beaten.elapsed() < BEAT / 2 => return Ok(name),
            Some((name, beaten)) if beaten.elapsed() < LEASE / 2 => (name, false),
            Some((name, _)) if !self.tracker.is_empty() => (name, true),
            _ => (crate::token().into(), true),
        };
        if silent {
            let text = Bytes::copy_from_slice(name.as_bytes());
            self.store.append(RUNNERS, text, RUNNERS_KEPT, Some(RUNNERS_TTL)).await?;
        }
        // What counts is when it began to be written.
        let now = Instant::now();
        self.store.put(&alive(&name), Bytes::new(), If::Always, Some(LEASE)).await?;
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = Some((name.clone(), now));
        Ok(name)
    }

    fn held(&self) -> Option<(Arc<str>, Instant)> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a process runs its tasks. After the store was away everyone gets time to say so.
    async fn is_alive(&self, runner: &str) -> StoreResult<bool> {
        let away = *self.away.lock().unwrap_or_else(PoisonError::into_inner);
        if away.is_some_and(|away| away.elapsed() < LEASE) {
            return Ok(true);
        }
        Ok(self.store.get(&alive(runner)).await?.is_some())
    }

    fn was_away(&self, error: &StoreError) {
        tracing::warn!("tasks cannot be looked after: {error}");
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Ends the tasks that run here; others take over what may be run again. Tasks that end by
    /// themselves within `patience` do so before.
    pub(in crate::runtime) async fn close(&self, patience: Duration) {
        self.tracker.close();
        let _ = timeout(patience, self.tracker.wait()).await;
        self.stop.cancel();
        self.tracker.wait().await;
        if let Some((name, _)) = self.held() {
            let _ = self.store.remove(&alive(&name)).await;
        }
    }
}

/// Says that this process runs its tasks, and looks after those of the others.
pub(crate) async fn keep(shared: Weak<Shared>, engine: Arc<Engine>) {
    let mut others = Others::default();
    let mut grown = engine.store.watch(RUNNERS);
    loop {
        let runs = !engine.tracker.is_empty();
        if runs && let Err(error) = engine.enlist().await {
            engine.was_away(&error);
        }
        let Some(shared) = shared.upgrade() else { return };
        let looked = others.look(&Runtime { shared }).await;
        if let Err(error) = &looked {
            engine.was_away(error);
        }
        let idle = looked.is_ok() && others.runners.is_empty() && !runs;
        tokio::select! {
            Some(()) = grown.next() => (),
            () = engine.begun.notified() => (),
            () = sleep(BEAT), if !idle => (),
        }
    }
}

/// The other processes that run tasks.
#[derive(Default)]
struct Others {
    runners: HashSet<String>,
    position: u64,
}

impl Others {
    async fn look(&mut self, runtime: &Runtime) -> StoreResult<()> {
        let engine = &runtime.core.engine;
        let new = match engine.store.after(RUNNERS, self.position).await {
            Err(StoreError::Gone) => engine.store.after(RUNNERS, 0).await?,
            new => new?,
        };
        let own = engine.held();
        for (position, name) in new {
            self.position = position;
            let name = String::from_utf8_lossy(&name).into_owned();
            if own.as_ref().is_none_or(|(own, _)| **own != *name) {
                self.runners.insert(name);
            }
        }
        let mut dead = vec![];
        for runner in &self.runners {
            if !engine.is_alive(runner).await? {
                dead.push(runner.clone());
            }
        }
        for runner in dead {
            let log = run_log(&runner);
            for (_, id) in engine.store.after(&log, 0).await? {
                take_over(runtime, &String::from_utf8_lossy(&id), &runner).await?;
            }
            engine.store.remove(&log).await?;
            self.runners.remove(&runner);
        }
        Ok(())
    }
}

/// Takes a task over that somebody looks at, if whoever ran it is dead.
pub(super) async fn heal(core: &Core, ctx: &Ctx, id: &str) {
    let engine = &core.engine;
    let Ok(Some((record, _))) = engine.load(id).await else { return };
    let own = engine.held().is_some_and(|(own, _)| *own == *record.runner);
    if own || record.status.is_over() {
        return;
    }
    if let Err(error) = take_over(&ctx.about().runtime, id, &record.runner).await {
        engine.was_away(&error);
    }
}

/// Runs a dead process's task again where that is safe; otherwise it ends here.
async fn take_over(runtime: &Runtime, id: &str, dead: &str) -> StoreResult<()> {
    let core = &runtime.core;
    let Some((record, _)) = core.engine.load(id).await? else { return Ok(()) };
    // Whoever begins a task is alive before it does.
    if !record.is_run_by(dead) || core.engine.is_alive(dead).await? {
        return Ok(());
    }
    let again = may_run_again(core, &record);
    let runner = match again {
        Ok(()) => core.engine.enlist().await?,
        Err(_) => "".into(),
    };
    if again.is_ok() {
        // Before it is this process's: whoever takes over from it must come across it.
        let (log, name) = (run_log(&runner), Bytes::copy_from_slice(id.as_bytes()));
        core.engine.store.append(&log, name, RUNS, Some(record.left() * 2)).await?;
    }
    let mut taken = None;
    let changed = core.engine.change(id, |record| {
        if !record.is_run_by(dead) {
            return false;
        }
        match &again {
            Ok(()) => {
                record.runner = runner.to_string();
                record.runs += 1;
                if record.status == TaskStatus::InputRequired {
                    record.go_on();
                }
                taken = Some(record.clone());
            }
            Err(why) => record.finish(End::Fault(Fault::Failed((*why).to_owned()))),
        }
        true
    });
    changed.await?;
    if let Some(record) = taken {
        run_again(runtime, id, &record, runner);
    }
    Ok(())
}

/// A task may run again that had not begun, that waited for an answer, or whose tool says so.
fn may_run_again(core: &Core, record: &Record) -> Result<(), &'static str> {
    let catalog = core.catalog.borrow();
    let Some(tool) = catalog.find_tool(&record.tool) else {
        return Err("the server that ran this was stopped, and the tool is no longer there");
    };
    if record.runs >= ATTEMPTS {
        return Err("the servers that ran this were stopped again and again");
    }
    match record.status {
        TaskStatus::Queued => Ok(()),
        _ if record.is_asking() || tool.may_run_twice() => Ok(()),
        _ => Err("the server that ran this was stopped before it was done: \
             call the tool again if doing it twice is safe"),
    }
}

fn run_again(runtime: &Runtime, id: &str, record: &Record, runner: Arc<str>) {
    let core = &runtime.core;
    let about = About {
        principal: match record.owner.as_str() {
            "" => Principal::ANONYMOUS,
            name => Principal::new(name),
        },
        client: Arc::new(record.client.clone()),
        ..About::of(runtime.clone())
    };
    let place = Place { engine: core.engine.clone(), id: id.to_owned(), runner };
    let work = Arc::new(Work::of_task(about, place, record));
    let (name, args) = (record.tool.clone().into(), record.args.clone().map(Into::into));
    let running = core.clone().run_tool(name, args, Ctx::new(work.clone()));
    start(core, id.to_owned(), work, running, core.engine.turn());
}

pub(super) fn run_log(runner: &str) -> String {
    ["run/", runner].concat()
}

fn alive(runner: &str) -> String {
    ["alive/", runner].concat()
}
