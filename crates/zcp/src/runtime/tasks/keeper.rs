//! Takes over the tasks of processes that died.

use super::{
    End, Task, TaskOp,
    engine::Engine,
    record::Record,
    run::{Claim, Here, start},
    slots::{Slot, Turn},
    work::{Place, Work},
};
use crate::{
    runtime::{
        Core, Runtime, Shared,
        call::{Call, Fault, Op, Outcome},
        ctx::{About, Ctx},
    },
    store::StoreResult,
};
use std::{
    collections::HashSet,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::timeout;
use zcp_wire::mcp::tasks::TaskStatus;

/// Tasks of one process that are found again when it dies without anybody asking for them.
pub(super) const RUNS: usize = 10_000;

impl Engine {
    /// Ends the tasks that run here; others take over what may be run again. Tasks that end by
    /// themselves within `patience` do so before.
    pub(in crate::runtime) async fn close(&self, patience: Duration) {
        self.tracker.close();
        let _ = timeout(patience, self.tracker.wait()).await;
        self.stop.cancel();
        self.tracker.wait().await;
        self.presence.leave().await;
    }
}

/// Says that this process is there, and looks after the tasks of those that are not.
pub(crate) async fn keep(shared: Weak<Shared>, engine: Arc<Engine>) {
    let mut others = Others::default();
    let presence = &engine.presence;
    let mut rounds = presence.rounds();
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let looked = async {
            presence.renew().await?;
            others.look(&Runtime { shared }).await
        };
        let looked = looked.await;
        if let Err(error) = &looked {
            error.log("other processes cannot be looked after");
            presence.was_away();
        }
        let idle = looked.is_ok() && others.runners.is_empty() && !presence.is_needed();
        rounds.next(idle).await;
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
        let (new, position) = engine.presence.names_after(self.position).await?;
        self.position = position;
        self.runners.extend(new);
        self.runners.retain(|runner| !engine.presence.is_own(runner));
        for runner in self.runners.clone() {
            if !engine.presence.is_alive(&runner).await? && take_all_over(runtime, &runner).await? {
                self.runners.remove(&runner);
            }
        }
        Ok(())
    }
}

/// Takes over what a dead process ran; false if it is not dead after all.
async fn take_all_over(runtime: &Runtime, dead: &str) -> StoreResult<bool> {
    let (engine, log) = (&runtime.core.engine, run_log(dead));
    for (_, id) in engine.store.after(&log, 0).await? {
        if engine.tracker.is_closed() {
            return Ok(false);
        }
        // This takes time, in which others must not think this one dead.
        engine.presence.renew().await?;
        take_over(runtime.clone(), String::from_utf8_lossy(&id).into_owned(), dead).await?;
    }
    if engine.presence.is_alive(dead).await? {
        return Ok(false);
    }
    engine.store.remove(&log).await?;
    Ok(true)
}

/// A caller's task as it is, after it was taken over if whoever ran it is dead.
pub(crate) async fn look_after(ctx: &Ctx, id: &str) -> Result<Task, Fault> {
    let engine = &ctx.about().runtime.core.engine;
    let record = engine.owned(id, ctx.principal()).await?;
    let here = engine.running().contains(id);
    if here || record.status.is_over() || engine.tracker.is_closed() {
        return Ok(record.view(id, engine.settings.poll_interval));
    }
    // Whoever looks may go away; what was begun is finished.
    let (runtime, taken) = (ctx.about().runtime.clone(), id.to_owned());
    let taking =
        engine.tracker.spawn(async move { take_over(runtime, taken, &record.runner).await });
    if let Ok(Err(error)) = taking.await {
        error.log("a task cannot be looked after");
        engine.presence.was_away();
    }
    engine.get(id, ctx.principal()).await
}

/// Runs a dead process's task again where that is safe; otherwise it ends here.
async fn take_over(runtime: Runtime, id: String, dead: &str) -> StoreResult<()> {
    let engine = &runtime.core.engine;
    let Some((mut record, claim)) = abandoned(engine, &id, dead).await? else { return Ok(()) };
    let has_args = engine.load_args(&id, &mut record).await?;
    if let Err(why) = may_run_again(&runtime.core, &record, has_args) {
        return end_of_dead(engine, &id, dead, why).await;
    }
    let here = Here::new(claim);
    let Some(slot) = engine.slots.accepted(record.share()) else { return Ok(()) };
    let runner = here.needed.name().await?;
    let status = match slot.turn {
        Turn::Now(_) => TaskStatus::Working,
        Turn::Later(_) => TaskStatus::Queued,
    };
    let args = record.args.take();
    record.run_again(&runner, status);
    // Whoever takes over from this process must come across it.
    engine.note(&id, &record).await?;
    if let Some(mut record) = move_here(engine, &id, dead, &runner, status).await? {
        record.args = args;
        run_again(&runtime, here, &record, runner, slot, id);
    }
    Ok(())
}

/// A task that a dead process ran, and that nobody takes over yet.
async fn abandoned(
    engine: &Arc<Engine>,
    id: &str,
    dead: &str,
) -> StoreResult<Option<(Record, Claim)>> {
    let Some((record, _)) = engine.load(id).await? else { return Ok(None) };
    if !record.is_run_by(dead) {
        return Ok(None);
    }
    // One at a time: whoever looks at the task meanwhile finds that it is being taken care of.
    let Some(claim) = Claim::of(engine, id) else { return Ok(None) };
    // Whoever begins a task is alive before it does; what this process does not run, nobody does.
    if !engine.presence.is_own(dead) && engine.presence.is_alive(dead).await? {
        return Ok(None);
    }
    Ok(Some((record, claim)))
}

/// Ends a task that a dead process ran, unless somebody else has taken it over.
async fn end_of_dead(engine: &Engine, id: &str, dead: &str, why: &str) -> StoreResult<()> {
    let end = End::Fault(Fault::Failed(why.to_owned()));
    let ended = engine.change(id, |record| {
        let is_dead = record.is_run_by(dead);
        if is_dead {
            record.finish(end.clone());
        }
        is_dead
    });
    ended.await.map(drop)
}

/// Makes a dead process's task one of this process. None if somebody else was faster.
async fn move_here(
    engine: &Engine,
    id: &str,
    dead: &str,
    runner: &str,
    status: TaskStatus,
) -> StoreResult<Option<Record>> {
    let mut taken = None;
    let changed = engine.change(id, |record| {
        taken = None;
        if !record.is_run_by(dead) {
            return false;
        }
        record.run_again(runner, status);
        taken = Some(record.clone());
        true
    });
    changed.await?;
    Ok(taken)
}

/// A task may run again that had not begun, that waited for an answer, or whose tool says so.
fn may_run_again(core: &Core, record: &Record, has_args: bool) -> Result<(), &'static str> {
    let catalog = core.catalog.borrow();
    let Some(tool) = catalog.find_tool(&record.tool) else {
        return Err("the server that ran this was stopped, and the tool is no longer there");
    };
    if !has_args {
        return Err("the server that ran this was stopped, and its arguments are gone");
    }
    if record.caller().is_none() {
        return Err("the server that ran this was stopped, and its caller cannot be read");
    }
    if record.is_hopeless() {
        return Err("the servers that ran this were stopped again and again");
    }
    match record.status {
        TaskStatus::Queued => Ok(()),
        _ if record.is_asking() || tool.may_run_twice() => Ok(()),
        _ => Err("the server that ran this was stopped before it was done: \
             call the tool again if doing it twice is safe"),
    }
}

fn run_again(
    runtime: &Runtime,
    here: Here,
    record: &Record,
    runner: Arc<str>,
    slot: Slot,
    id: String,
) {
    let core = &runtime.core;
    let about = About {
        caller: record.caller().unwrap_or_default(),
        client: Arc::new(record.client.clone()),
        ..About::of(runtime.clone())
    };
    let resume = TaskOp::Resume { id: id.clone(), tool: record.tool.clone() };
    let place = Place { engine: core.engine.clone(), id, runner };
    let work = Arc::new(Work::of_task(about, place, record));
    let (name, args) = (record.tool.clone().into(), record.args.clone().map(Into::into));
    let running = core.clone().run_tool(name, args, Ctx::new(work.clone()));
    let (layers, ctx) = (runtime.clone(), Ctx::new(work.clone()));
    let allowed = async move {
        if ctx.caller().is_expired() {
            let why = "the server that ran this was stopped, and the authorization of its caller \
                has expired: call the tool again";
            return Outcome::Fault(Fault::Failed(why.to_owned()));
        }
        match layers.call(Call { op: Op::Task(resume), ctx }).await {
            Outcome::Done => running.await,
            refused => refused,
        }
    };
    start(here, work, allowed, slot);
}

pub(super) fn run_log(runner: &str) -> String {
    ["run/", runner].concat()
}
