//! What is done with tasks that were begun, whichever process runs them.

use super::{
    Task, TaskOp, Tasks, finished, keeper,
    record::{News, Record},
    slots::Slots,
};
use crate::{
    auth::Principal,
    runtime::{
        Core,
        ask::fits,
        call::{Fault, Outcome},
        ctx::Ctx,
        presence::Presence,
    },
    seal::digest,
    store::{Bound, If, Store, StoreError, StoreResult, written::Written},
    sync::lock,
};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};
use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use zcp_wire::mcp::tasks::TaskStatus;

/// News of one task that are kept for whoever is slow.
const NEWS: Bound = Bound { entries: 64, bytes: 256 * 1024 };
/// News of a finished task: the last ones, for whoever is about to read them.
const LAST_NEWS: Bound = Bound { entries: 64, bytes: 4 * 1024 };
/// Tasks one caller's list goes back to.
const LISTED: usize = 1000;
/// Bytes of an answer: it is in the record of its task from then on.
const LARGEST_ANSWER: usize = 64 * 1024;
/// The longest id there is.
const LONGEST_ID: usize = 64;

/// Whole records that are in memory at a time for those who look at them: one may have 16 MiB.
const READING: usize = 8;

/// The tasks of one store, as one process sees them.
pub(crate) struct Engine {
    pub(super) settings: Tasks,
    pub(super) store: Arc<dyn Store>,
    pub(super) slots: Slots,
    /// The records of finished tasks that this process wrote.
    pub(super) finished: Written,
    running: Mutex<HashSet<String>>,
    /// Whole records in memory for those who look at them.
    reading: Arc<Semaphore>,
    pub(crate) presence: Arc<Presence>,
    pub(super) tracker: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// Does something with tasks for a caller.
pub(in crate::runtime) async fn call(core: &Core, op: TaskOp, ctx: &Ctx) -> Outcome {
    let (engine, principal) = (&core.engine, ctx.principal());
    let done = match op {
        TaskOp::Get { id } => {
            keeper::look_after(ctx, &id).await.map(|task| Outcome::Task(Box::new(task)))
        }
        TaskOp::Answer { id, answers } => {
            engine.answer(&id, principal, &answers).await.map(|()| Outcome::Done)
        }
        TaskOp::Cancel { id, quietly } => match engine.cancel(&id, principal).await {
            Ok(_) | Err(Fault::Over(_)) if quietly => Ok(Outcome::Done),
            cancelled => cancelled.map(|task| Outcome::Task(Box::new(task))),
        },
        // Allowed by all layers: whoever asked runs it.
        TaskOp::Resume { .. } => Ok(Outcome::Done),
        TaskOp::List { conversation, after } => {
            let scope = scope(principal, conversation.as_deref());
            engine.list(scope, after, core.page_size).await
        }
    };
    done.unwrap_or_else(Outcome::Fault)
}

impl Engine {
    pub(crate) fn new(settings: Tasks, store: Arc<dyn Store>) -> Self {
        let presence = Arc::new(Presence::new(store.clone()));
        Self {
            store,
            slots: Slots::new(&settings),
            finished: finished::written(&settings),
            running: Mutex::default(),
            reading: Arc::new(Semaphore::new(READING)),
            presence,
            tracker: TaskTracker::new(),
            stop: CancellationToken::new(),
            settings,
        }
    }

    /// Waits until a whole record may be in memory for somebody who looks at it, with its result:
    /// until this is dropped, which is to be when that is a text.
    pub(crate) async fn reading(&self) -> Option<OwnedSemaphorePermit> {
        self.reading.clone().acquire_owned().await.ok()
    }

    /// A caller's task as it is.
    pub(crate) async fn get(&self, id: &str, principal: &Principal) -> Result<Task, Fault> {
        Ok(self.owned(id, principal).await?.view(id, self.settings.poll_interval))
    }

    /// The tasks that run in this process.
    pub(super) fn running(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.running)
    }

    pub(super) async fn owned(&self, id: &str, principal: &Principal) -> Result<Record, Fault> {
        let found = self.load(id).await.map_err(|error| unavailable(&error))?;
        let own = found.filter(|(record, _)| record.belongs_to(principal));
        own.map(|(record, _)| record).ok_or_else(unknown)
    }

    /// Answers what a task asks. What it does not ask is ignored; an answer that does not fit is
    /// refused, and changes nothing.
    async fn answer(
        &self,
        id: &str,
        principal: &Principal,
        answers: &Map<String, Value>,
    ) -> Result<(), Fault> {
        let mut record = self.owned(id, principal).await?;
        for (key, answer) in answers {
            let asked = record.outstanding(key).and_then(|question| question.asked());
            let Some(asked) = asked else { continue };
            fits(&asked, answer).map_err(|why| {
                Fault::Invalid(format!("the answer to `{key}` does not fit: {why}"))
            })?;
        }
        let answers = answers.iter().map(|(key, answer)| (key.as_str(), Ok(answer.clone())));
        self.settle(id, answers.collect()).await.map_err(|error| unavailable(&error))
    }

    /// Writes down answers, or why there are none.
    pub(crate) async fn settle(
        &self,
        id: &str,
        mut answers: Vec<(&str, Result<Value, String>)>,
    ) -> StoreResult<()> {
        for (_, answer) in &mut answers {
            if answer.as_ref().is_ok_and(|answer| answer.to_string().len() > LARGEST_ANSWER) {
                *answer = Err(format!("an answer may have {LARGEST_ANSWER} bytes at most"));
            }
        }
        let settled = self.change(id, |record| {
            if record.status.is_over() {
                return false;
            }
            let mut changed = false;
            for (key, answer) in &answers {
                if let Some(question) = record.outstanding(key) {
                    question.answer = Some(answer.clone());
                    changed = true;
                }
            }
            if changed {
                record.go_on();
            }
            changed
        });
        settled.await.map(drop)
    }

    /// Any task, whoever's it is.
    pub(crate) async fn find(&self, id: &str) -> StoreResult<Option<Task>> {
        let found = self.load(id).await?;
        Ok(found.map(|(record, _)| record.view(id, self.settings.poll_interval)))
    }

    async fn cancel(&self, id: &str, principal: &Principal) -> Result<Task, Fault> {
        self.owned(id, principal).await?;
        self.give_up(id, "cancelled by its client").await
    }

    /// Gives a task up, and says why. Whoever runs it hears of it.
    pub(crate) async fn give_up(&self, id: &str, why: &str) -> Result<Task, Fault> {
        let mut over = None;
        let cancelled = self.change(id, |record| {
            over = record.status.is_over().then_some(record.status);
            if over.is_none() {
                record.status = TaskStatus::Cancelled;
                record.message = Some(why.to_owned());
                record.forget_the_call();
            }
            over.is_none()
        });
        let record = cancelled.await.map_err(|error| unavailable(&error))?.ok_or_else(unknown)?;
        match over {
            Some(status) => Err(Fault::Over(format!("the task is over: {}", status.as_str()))),
            None => Ok(record.view(id, self.settings.poll_interval)),
        }
    }

    async fn list(&self, scope: Option<String>, after: u64, size: usize) -> Result<Outcome, Fault> {
        let Some(scope) = scope else { return Ok(Outcome::Tasks(vec![], None)) };
        let held = match self.store.after(&scope, after).await {
            // What was dropped meanwhile is the oldest: the rest is still in order.
            Err(StoreError::Gone) => {
                let all = self.store.after(&scope, 0).await;
                all.map(|all| all.into_iter().filter(|(at, _)| *at > after).collect())
            }
            held => held,
        };
        let held: Vec<_> = held.map_err(|error| unavailable(&error))?;
        // One that is kept for longer is noted again, and shown where it was noted last: a page that
        // ends in between shows it once.
        let last: HashMap<_, _> = held.iter().map(|(at, id)| (id.clone(), *at)).collect();
        let (mut tasks, mut next) = (vec![], None);
        for (position, id) in held.into_iter().filter(|(at, id)| last[id] == *at) {
            if tasks.len() == size {
                return Ok(Outcome::Tasks(tasks, next));
            }
            next = Some(position);
            let id = String::from_utf8_lossy(&id);
            let found = self.load(&id).await.map_err(|error| unavailable(&error))?;
            // A list shows no results, and its tasks are in memory together.
            if let Some((mut record, _)) = found {
                record.end = record.end.map(super::End::without_content);
                tasks.push(record.view(&id, self.settings.poll_interval));
            }
        }
        Ok(Outcome::Tasks(tasks, None))
    }

    /// What is told of a task from now on, after a position: read it again with
    /// [`news_after`](Self::news_after) whenever this wakes.
    pub(crate) fn watch(&self, id: &str) -> BoxStream<'static, ()> {
        self.store.watch(&key(id))
    }

    /// News of a task, as far as they are still known.
    pub(crate) async fn news_after(&self, id: &str, position: u64) -> Vec<(u64, News)> {
        let key = key(id);
        let held = match self.store.after(&key, position).await {
            Err(StoreError::Gone) => self.store.after(&key, 0).await,
            held => held,
        };
        let held = held.unwrap_or_default().into_iter();
        held.filter_map(|(at, text)| Some((at, serde_json::from_slice(&text).ok()?))).collect()
    }

    /// Writes a task that is new, where its caller and its runner find it again.
    pub(super) async fn create(&self, id: &str, record: &Record) -> StoreResult<()> {
        self.note(id, record).await?;
        let key = key(id);
        self.store.put(&key, record.to_bytes(), If::Absent, Some(record.left())).await.map(drop)
    }

    /// Notes where a task is found again: by its caller, and by whoever takes over from its runner.
    pub(super) async fn note(&self, id: &str, record: &Record) -> StoreResult<()> {
        let name = Bytes::copy_from_slice(id.as_bytes());
        let kept = Some(self.settings.max_ttl.max(self.settings.ttl).saturating_mul(2));
        let run = keeper::run_log(&record.runner);
        self.store.append(&run, name.clone(), Bound::entries(keeper::RUNS), kept).await?;
        if let Some(scope) = &record.scope {
            self.store.append(scope, name, Bound::entries(LISTED), kept).await?;
        }
        Ok(())
    }

    /// Forgets a task: nobody has heard of it, or there are too many.
    pub(super) async fn forget(&self, id: &str) {
        if let Err(error) = self.store.remove(&key(id)).await {
            tracing::warn!("a task that is to be forgotten is kept: {error}");
        }
        self.remove_args(id).await;
    }

    pub(super) async fn load(&self, id: &str) -> StoreResult<Option<(Record, u64)>> {
        if id.len() > LONGEST_ID {
            return Ok(None);
        }
        let entry = self.store.get(&key(id)).await?;
        Ok(entry.and_then(|entry| Some((Record::read(&entry.value)?, entry.version))))
    }

    /// Changes a task beside whatever other processes do, unless `change` says there is nothing
    /// to change. Gives it as it is then.
    pub(super) async fn change(
        &self,
        id: &str,
        mut change: impl FnMut(&mut Record) -> bool,
    ) -> StoreResult<Option<Record>> {
        loop {
            let Some((mut record, version)) = self.load(id).await? else { return Ok(None) };
            let before = record.status;
            if !change(&mut record) {
                return Ok(Some(record));
            }
            // Two changes are never at the same time.
            record.updated = crate::clock::now_ms().max(record.updated + 1);
            let (unchanged, left) = (If::Version(version), Some(record.left()));
            let text = record.to_bytes();
            let bytes = text.len();
            if !self.store.put(&key(id), text, unchanged, left).await? {
                continue;
            }
            if record.status != before {
                self.tell_conversation(id, &record).await;
            }
            if !record.status.is_over() {
                self.tell(id, &News::Changed, record.left()).await;
                return Ok(Some(record));
            }
            self.append(id, &News::Changed, LAST_NEWS, record.left()).await;
            if record.args_apart {
                self.remove_args(id).await;
            }
            self.keep_few(id, &record, bytes + LAST_NEWS.bytes).await;
            return Ok(Some(record));
        }
    }

    /// Tells those who watch a task. They look by themselves now and then, too.
    pub(super) async fn tell(&self, id: &str, news: &News, left: Duration) {
        self.append(id, news, NEWS, left).await;
    }

    async fn append(&self, id: &str, news: &News, bound: Bound, left: Duration) {
        let text = serde_json::to_vec(news).unwrap_or_default();
        if let Err(error) = self.store.append(&key(id), text.into(), bound, Some(left)).await {
            tracing::warn!("news of a task could not be told: {error}");
        }
    }
}

/// Where a caller's tasks are listed: nobody's are in the conversation they began in.
pub(super) fn scope(principal: &Principal, conversation: Option<&str>) -> Option<String> {
    let named = match (principal.key(), conversation) {
        ("", None) => return None,
        ("", Some(conversation)) => format!("conversation\n{conversation}"),
        (name, _) => format!("principal\n{name}"),
    };
    Some(format!("tasks/{}", digest(named.as_bytes())))
}

fn key(id: &str) -> String {
    ["task/", id].concat()
}

fn unknown() -> Fault {
    Fault::Unknown("no such task: it may have expired".to_owned())
}

pub(super) fn unavailable(error: &StoreError) -> Fault {
    if let StoreError::TooLarge { bytes, limit, .. } = error {
        let why = format!("the call is too large for a task: {bytes} bytes, the limit is {limit}");
        return Fault::Invalid(why);
    }
    error.log("a task cannot be reached");
    Fault::Failed("the store is unavailable: try again later".to_owned())
}
