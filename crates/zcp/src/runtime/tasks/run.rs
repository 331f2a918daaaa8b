//! Runs tasks in this process: now, when it is their turn, or after their caller waited a while.

use super::{
    Asked, End,
    args::MAX_ARGS,
    engine::{Engine, scope, unavailable},
    record::Record,
    slots::{Full, Slot, Turn},
    work::{Place, Work},
};
use crate::{
    runtime::{
        Core,
        call::{Fault, Outcome},
        ctx::Ctx,
        gave_up,
        presence::Needed,
    },
    store::{StoreError, StoreResult},
};
use bytestring::ByteString;
use futures_util::{StreamExt, future::BoxFuture};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, sleep_until},
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

/// A call that is to be a task.
pub(in crate::runtime) struct Wanted {
    pub(in crate::runtime) name: ByteString,
    pub(in crate::runtime) args: Option<ByteString>,
    pub(in crate::runtime) asked: Box<Asked>,
}

/// A task that is kept, and not running yet.
struct Created {
    place: Place,
    record: Record,
    here: Here,
}

/// A task this process runs, or is about to. Nobody takes it over while this is there.
pub(super) struct Here {
    engine: Arc<Engine>,
    claim: Claim,
    pub(super) needed: Needed,
}

impl Here {
    pub(super) fn new(claim: Claim) -> Self {
        let needed = claim.engine.presence.need();
        Self { engine: claim.engine.clone(), claim, needed }
    }

    fn id(&self) -> &str {
        &self.claim.id
    }
}

/// A task that nobody else in this process runs, or is about to.
pub(super) struct Claim {
    engine: Arc<Engine>,
    id: String,
}

impl Claim {
    /// None if somebody does.
    pub(super) fn of(engine: &Arc<Engine>, id: &str) -> Option<Self> {
        let is_first = engine.running().insert(id.to_owned());
        is_first.then(|| Self { engine: engine.clone(), id: id.to_owned() })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.engine.running().remove(&self.id);
    }
}

/// Begins a call as a task. It is kept before anyone hears of it.
pub(in crate::runtime) async fn begin(core: &Core, wanted: Wanted, ctx: &Ctx) -> Outcome {
    if core.engine.tracker.is_closed() {
        return busy("the server is about to stop: try again");
    }
    let mut record = record_of(core, &wanted, ctx);
    let slot = match core.engine.slots.take(record.share()) {
        Ok(slot) => slot,
        Err(Full::All) => return busy("too many tasks wait for their turn: try again later"),
        Err(Full::Caller) => {
            return busy("you have too many tasks: try again when one of them is finished");
        }
    };
    if let Turn::Later(_) = slot.turn {
        record.status = TaskStatus::Queued;
    }
    let created = match create(&core.engine, record).await {
        Ok(Ok(created)) => created,
        Ok(Err(error)) => return Outcome::Fault(unavailable(&error)),
        Err(_) => return busy("the server is about to stop: try again"),
    };
    let Created { place, record, here } = created;
    let task = record.view(&place.id, core.engine.settings.poll_interval);
    let work = Arc::new(Work::of_task(ctx.about().beside(), place, &record));
    let (name, args) = detached(&wanted, ctx);
    let running = core.clone().run_tool(name, args, Ctx::new(work.clone()));
    start(here, work, running, slot);
    Outcome::Begun(Box::new(task))
}

/// Runs a call for a while, and makes it a task if it takes longer, or wishes so.
pub(in crate::runtime) async fn run_or_begin(core: &Core, wanted: Wanted, ctx: &Ctx) -> Outcome {
    let work = Arc::new(Work::in_front(ctx.reporter().clone()));
    // Whoever waits may go away: then the call stops.
    let mut waiting = StopOnDrop(Some(work.clone()));
    let (name, args) = detached(&wanted, ctx);
    let mut running: BoxFuture<'static, Outcome> =
        Box::pin(core.clone().run_tool(name, args, Ctx::new(work.clone())));
    let mut patience = Patience::new(core, &wanted);
    let (created, slot) = loop {
        let promoted = async {
            patience.ends(&work).await.map_err(gave_up)?;
            Ok(promote(core, &wanted, ctx, &work).await)
        };
        tokio::select! {
            biased;
            outcome = &mut running => return outcome,
            promoted = promoted => match promoted {
                Ok(Some(promoted)) => break promoted,
                Ok(None) => (),
                Err(gave_up) => return gave_up,
            }
        }
    };
    let Created { place, record, here } = created;
    let task = record.view(&place.id, core.engine.settings.poll_interval);
    work.becomes(place);
    waiting.0 = None;
    start(here, work, running, slot);
    Outcome::Begun(Box::new(task))
}

/// How long a caller waits for a call.
struct Patience {
    /// When the call is to become a task.
    due: Option<Instant>,
    /// When it is given up, and how long it had.
    limit: Option<(Instant, Duration)>,
}

impl Patience {
    fn new(core: &Core, wanted: &Wanted) -> Self {
        let begun = Instant::now();
        // Arguments that are too large for a task stay those of a call.
        let fits = wanted.args.as_ref().is_none_or(|args| args.len() <= MAX_ARGS);
        let promote_after = core.engine.settings.promote_after.filter(|_| fits);
        Self {
            due: promote_after.and_then(|time| begun.checked_add(time)),
            limit: core.call_timeout.and_then(|limit| Some((begun.checked_add(limit)?, limit))),
        }
    }

    /// Waits until the call is to become a task; an error is how long a call had that is given up.
    async fn ends(&mut self, work: &Work) -> Result<(), Duration> {
        tokio::select! {
            biased;
            () = work.detached() => (),
            () = until(self.due) => (),
            () = until(self.limit.map(|(end, _)| end)) => {
                return Err(self.limit.map_or(Duration::ZERO, |(_, limit)| limit));
            }
        }
        // Once it is due it stays so, until there is room.
        self.due = Some(Instant::now() + RETRY);
        Ok(())
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Keeps a slow call as a task, if it may become one and there is room.
async fn promote(core: &Core, wanted: &Wanted, ctx: &Ctx, work: &Work) -> Option<(Created, Slot)> {
    let engine = &core.engine;
    if !work.may_become_a_task() || engine.tracker.is_closed() {
        return None;
    }
    let mut record = record_of(core, wanted, ctx);
    let (seat, permit) = engine.slots.now(record.share())?;
    work.remembered_in(&mut record);
    match create(engine, record).await {
        Ok(Ok(created)) => Some((created, Slot { seat, turn: Turn::Now(permit) })),
        Ok(Err(error)) => {
            tracing::warn!("a slow call could not be made a task: {error}");
            None
        }
        Err(_) => None,
    }
}

/// The name and the arguments of a call, apart from the rest of its message.
fn detached(wanted: &Wanted, ctx: &Ctx) -> (ByteString, Option<ByteString>) {
    let apart = |part| ctx.about().detached(part, usize::MAX);
    (apart(&wanted.name).unwrap_or_default(), wanted.args.as_ref().and_then(apart))
}

struct StopOnDrop(Option<Arc<Work>>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.iter().for_each(|work| work.stop());
    }
}

fn record_of(core: &Core, wanted: &Wanted, ctx: &Ctx) -> Record {
    let (about, asked) = (ctx.about(), &wanted.asked);
    let args = wanted.args.as_ref().map(ToString::to_string);
    let scope = scope(about.caller.principal(), asked.conversation.as_deref());
    Record::new(wanted.name.to_string(), args, about, asked, &core.engine.settings, scope)
}

/// Keeps a task that is new. Whoever waits for it may go away: then it is forgotten again.
fn create(engine: &Arc<Engine>, mut record: Record) -> oneshot::Receiver<StoreResult<Created>> {
    let (sender, receiver) = oneshot::channel();
    let creating = engine.clone();
    engine.tracker.spawn(async move {
        let (id, claim) = loop {
            let id = crate::token();
            if let Some(claim) = Claim::of(&creating, &id) {
                break (id, claim);
            }
        };
        let here = Here::new(claim);
        let created = match here.needed.name().await {
            Err(error) => Err(error),
            Ok(runner) => {
                record.runner = runner.to_string();
                let kept = match creating.put_args(&id, &mut record).await {
                    Ok(()) => creating.create(&id, &record).await,
                    Err(error) => Err(error),
                };
                let place = Place { engine: creating.clone(), id: id.clone(), runner };
                kept.map(|()| Created { place, record, here })
            }
        };
        let failed = created.is_err();
        if sender.send(created).is_err() || failed {
            creating.forget(&id).await;
        }
    });
    receiver
}

/// Runs a task to its end here.
pub(super) fn start(
    here: Here,
    work: Arc<Work>,
    running: impl Future<Output = Outcome> + Send + 'static,
    slot: Slot,
) {
    let engine = here.engine.clone();
    let tracker = engine.tracker.clone();
    tracker.spawn(async move {
        // All of `here` is moved into this task. A use of one of its fields would move that alone,
        // and this server would not be known to be alive.
        let here = here;
        let id = here.id();
        let seat = Arc::new(slot.seat);
        work.sit(&seat);
        let turn = async {
            let permit = match slot.turn {
                Turn::Now(permit) => permit,
                Turn::Later(waiting) => {
                    let permit = seat.turn().await;
                    drop(waiting);
                    work.begin_turn().await;
                    permit
                }
            };
            work.hold(permit);
            running.await
        };
        let outcome = tokio::select! {
            outcome = turn => Some(outcome),
            () = engine.attend(id, &work) => None,
            () = engine.stop.cancelled() => None,
        };
        work.stop();
        if let Some(outcome) = outcome {
            engine.flush(id, &work).await;
            let end = End::of(outcome, engine.settings.max_result);
            work.persist(|record| {
                record.finish(end.clone());
                true
            })
            .await;
        }
    });
}

impl Engine {
    /// Changes a task, however long the store is away. Gives it as it is then, if it is there.
    pub(super) async fn persist(
        &self,
        id: &str,
        mut change: impl FnMut(&mut Record) -> bool,
    ) -> Option<Record> {
        loop {
            match self.change(id, &mut change).await {
                Ok(record) => return record,
                Err(StoreError::TooLarge { bytes, limit, .. }) => {
                    let why = format!("the task is too large: {bytes} bytes, the limit is {limit}");
                    return self.end_early(id, &why).await;
                }
                Err(error) => tracing::error!("a task's state waits to be written: {error}"),
            }
            if self.stop.is_cancelled() {
                return None;
            }
            sleep(RETRY).await;
        }
    }

    /// Ends a task that cannot go on.
    async fn end_early(&self, id: &str, why: &str) -> Option<Record> {
        tracing::warn!("a task ends early: {why}");
        let end = End::Fault(Fault::Failed(why.to_owned()));
        let ended = self.change(id, |record| {
            let goes_on = !record.status.is_over();
            if goes_on {
                record.finish(end.clone());
            }
            goes_on
        });
        ended.await.ok().flatten()
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
                    // Whoever was asked has as long as the task is kept.
                    if record.fades() && !record.is_asking() {
                        self.keep_on(id, work).await;
                    }
                }
                Ok(_) => return,
                Err(error) => error.log("a task cannot be looked at"),
            }
            let soon = async {
                sleep(PAUSE.saturating_sub(told.elapsed())).await;
                work.has_news().await;
            };
            tokio::select! {
                Some(()) = grown.next() => (),
                () = soon => {
                    self.flush(id, work).await;
                    told = Instant::now();
                }
                () = sleep(pause) => (),
            }
        }
    }

    /// Keeps a task for longer that still runs.
    async fn keep_on(&self, id: &str, work: &Work) {
        let keep_on = |record: &mut Record| {
            let ours = work.runs(record);
            if ours {
                record.keep_on();
            }
            ours
        };
        match self.change(id, keep_on).await {
            Ok(Some(record)) => {
                let _ = self.keep_args(id, &record).await;
                drop(self.note(id, &record).await);
            }
            Ok(None) => (),
            Err(error) => tracing::warn!("a task cannot be kept for longer: {error}"),
        }
    }

    /// Writes down what a task has to tell.
    async fn flush(&self, id: &str, work: &Work) {
        let news = work.news();
        if news.is_empty() {
            return;
        }
        let words = news.words();
        let say = |record: &mut Record| {
            let changed = words.is_some() && record.message != words && work.runs(record);
            if changed {
                record.message.clone_from(&words);
            }
            changed
        };
        if let Ok(Some(record)) = self.change(id, say).await {
            if record.has_listeners {
                for one in news.to_tell() {
                    self.tell(id, &one, record.left()).await;
                }
            }
            work.told(&news);
        }
    }
}

fn busy(why: &str) -> Outcome {
    Outcome::Fault(Fault::Busy { why: why.to_owned(), wait: Some(BUSY) })
}
