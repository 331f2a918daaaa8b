//! Runs tasks in this process: now, when it is their turn, or after their caller waited a while.

use super::{
    Asked, End,
    engine::{Engine, scope, unavailable},
    record::Record,
    work::{Place, Work},
};
use crate::{
    runtime::{
        Core,
        call::{Fault, Outcome},
        ctx::Ctx,
    },
    store::StoreResult,
};
use bytestring::ByteString;
use futures_util::{StreamExt, future::BoxFuture};
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep},
};
use zcp_wire::mcp::tasks::TaskStatus;

/// How often a task's record is looked at, whatever its news say.
const LOOK: Duration = Duration::from_secs(5);
/// Progress and logs are written down at most this often.
const PAUSE: Duration = Duration::from_millis(200);
/// How often the store is tried again while it is away.
const RETRY: Duration = Duration::from_millis(500);
/// How long a caller is told to wait when too many tasks do.
const BUSY: Duration = Duration::from_secs(2);

/// A task's turn.
pub(super) enum Slot {
    Now(OwnedSemaphorePermit),
    Later(Turn),
}

/// One task that waits for its turn.
pub(super) struct Turn(Arc<AtomicUsize>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Begins a call as a task. It is kept before anyone hears of it.
pub(in crate::runtime) async fn begin(
    core: &Core,
    name: &ByteString,
    args: Option<ByteString>,
    ctx: &Ctx,
    asked: &Asked,
) -> Outcome {
    let Some(slot) = core.engine.slot() else { return busy() };
    let begun = new_task(core, name, args.as_ref(), ctx, asked, |record| {
        if let Slot::Later(_) = slot {
            record.status = TaskStatus::Queued;
        }
    });
    let (place, record) = match begun.await {
        Ok(begun) => begun,
        Err(error) => return Outcome::Fault(unavailable(&error)),
    };
    let task = record.view(&place.id, core.engine.settings.poll);
    let work = Arc::new(Work::of_task(ctx.about().beside(), place, &record));
    let running = core.clone().run_tool(name.clone(), args, Ctx::new(work.clone()));
    start(core, task.id.clone(), work, running, slot);
    Outcome::Begun(Box::new(task))
}

/// Runs a call for a while, and makes it a task if it takes longer, or wishes so.
pub(in crate::runtime) async fn run_or_begin(
    core: &Core,
    name: ByteString,
    args: Option<ByteString>,
    ctx: &Ctx,
) -> Outcome {
    let engine = &core.engine;
    let work = Arc::new(Work::in_front(ctx.reporter().clone()));
    // Whoever waits may go away: then the call stops.
    let mut waiting = StopOnDrop(Some(work.clone()));
    let mut running: BoxFuture<'static, Outcome> =
        Box::pin(core.clone().run_tool(name.clone(), args.clone(), Ctx::new(work.clone())));
    let patience = engine.settings.promoted_after;
    loop {
        tokio::select! {
            outcome = &mut running => return outcome,
            () = work.detached() => (),
            () = sleep(patience.unwrap_or_default()), if patience.is_some() => (),
        }
        let Some(slot @ Slot::Now(_)) = engine.slot() else {
            // Somebody waits already, and goes on to.
            tokio::select! {
                outcome = &mut running => return outcome,
                () = sleep(RETRY) => continue,
            }
        };
        let remembered = |record: &mut Record| work.remembered_in(record);
        match new_task(core, &name, args.as_ref(), ctx, &Asked::default(), remembered).await {
            Ok((place, record)) => {
                let task = record.view(&place.id, engine.settings.poll);
                work.becomes(place);
                waiting.0 = None;
                start(core, task.id.clone(), work, running, slot);
                return Outcome::Begun(Box::new(task));
            }
            Err(error) => {
                tracing::warn!("a slow call could not be made a task: {error}");
                return running.await;
            }
        }
    }
}

struct StopOnDrop(Option<Arc<Work>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(|work| work.stop());
    }
}

async fn new_task(
    core: &Core,
    name: &ByteString,
    args: Option<&ByteString>,
    ctx: &Ctx,
    asked: &Asked,
    fill: impl FnOnce(&mut Record),
) -> StoreResult<(Place, Record)> {
    let engine = core.engine.clone();
    let (runner, about) = (engine.enlist().await?, ctx.about());
    let args = args.map(ToString::to_string);
    let mut record = Record::new(name.to_string(), args, about, asked, engine.settings.kept_for);
    record.runner = runner.to_string();
    fill(&mut record);
    let id = crate::token();
    let scope = scope(&about.principal, asked.conversation.as_deref());
    engine.create(&id, &record, scope).await?;
    Ok((Place { engine, id, runner }, record))
}

/// Runs a task to its end here.
pub(super) fn start(
    core: &Core,
    id: String,
    work: Arc<Work>,
    running: impl Future<Output = Outcome> + Send + 'static,
    slot: Slot,
) {
    let engine = core.engine.clone();
    core.engine.tracker.spawn(async move {
        let turn = async {
            let _permit = match slot {
                Slot::Now(permit) => permit,
                Slot::Later(turn) => {
                    let permit = engine.slots.clone().acquire_owned().await;
                    drop(turn);
                    engine.begin_turn(&id).await;
                    let Ok(permit) = permit else { std::future::pending().await };
                    permit
                }
            };
            running.await
        };
        let outcome = tokio::select! {
            outcome = turn => Some(outcome),
            () = engine.attend(&id, &work) => None,
            () = engine.stop.cancelled() => None,
        };
        if let Some(outcome) = outcome {
            engine.flush(&id, &work).await;
            let end = End::of(outcome);
            engine
                .persist(&id, |record| {
                    let ours = work.runs(record);
                    if ours {
                        record.finish(end.clone());
                    }
                    ours
                })
                .await;
        }
        work.stop();
    });
    core.engine.begun.notify_one();
}

impl Engine {
    /// Room for one more task, now or later.
    fn slot(&self) -> Option<Slot> {
        if let Ok(permit) = self.slots.clone().try_acquire_owned() {
            return Some(Slot::Now(permit));
        }
        let turn = Turn(self.waiting.clone());
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        (before < self.settings.waiting).then_some(Slot::Later(turn))
    }

    /// Room for one that was accepted, however many wait.
    pub(super) fn turn(&self) -> Slot {
        self.slot().unwrap_or_else(|| {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            Slot::Later(Turn(self.waiting.clone()))
        })
    }

    async fn begin_turn(&self, id: &str) {
        self.persist(id, |record| {
            let queued = record.status == TaskStatus::Queued;
            if queued {
                record.status = TaskStatus::Working;
            }
            queued
        })
        .await;
    }

    /// Changes a task, however long the store is away.
    pub(super) async fn persist(&self, id: &str, mut change: impl FnMut(&mut Record) -> bool) {
        while !self.stop.is_cancelled() {
            match self.change(id, &mut change).await {
                Ok(_) => return,
                Err(error) => {
                    tracing::error!("a task's state waits to be written: {error}");
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Follows a task's record for as long as it is to be run here.
    async fn attend(&self, id: &str, work: &Work) {
        let mut grown = self.watch(id);
        let mut told = Instant::now();
        loop {
            let mut pause = LOOK;
            match self.load(id).await {
                Ok(Some((record, _))) if work.runs(&record) => {
                    work.learn(&record);
                    // It must not fade away between two looks.
                    pause = LOOK.min(record.left() / 4);
                    if record.fades() {
                        let keep_on = |record: &mut Record| {
                            record.keep_on();
                            true
                        };
                        let _ = self.change(id, keep_on).await;
                    }
                }
                Ok(_) => return,
                Err(error) => tracing::warn!("a task cannot be looked at: {error}"),
            }
            tokio::select! {
                Some(()) = grown.next() => (),
                () = async { sleep(PAUSE.saturating_sub(told.elapsed())).await; work.has_news().await } => {
                    self.flush(id, work).await;
                    told = Instant::now();
                }
                () = sleep(pause) => (),
            }
        }
    }

    /// Writes down what a task has to tell.
    async fn flush(&self, id: &str, work: &Work) {
        let (news, words) = work.take_news();
        if news.is_empty() {
            return;
        }
        let say = |record: &mut Record| {
            let changed = words.is_some() && record.message != words && work.runs(record);
            if changed {
                record.message.clone_from(&words);
            }
            changed
        };
        if let Ok(Some(record)) = self.change(id, say).await {
            for one in &news {
                self.tell(id, one, record.left()).await;
            }
        }
    }
}

fn busy() -> Outcome {
    let why = "too many tasks wait for their turn: try again later".to_owned();
    Outcome::Fault(Fault::Busy { why, wait: Some(BUSY) })
}
