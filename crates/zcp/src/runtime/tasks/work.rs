//! A call's way to its client while somebody waits for it, and to its task when nobody does.

use super::{
    engine::Engine,
    record::{News, Question, Record},
    slots::{Permit, Seat},
};
use crate::{
    runtime::{
        ask,
        ctx::{About, Reporter},
        error::{CallError, Result},
    },
    sync::lock,
};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use zcp_wire::mcp::{InputRequest, logging::Level, tasks::TaskStatus};

/// Log messages a task may have waiting to be told; more are dropped.
const WAITING: usize = 32;

/// How often it is tried to write down that nobody answered in time.
const LATE: Duration = Duration::from_secs(5);

/// A call that is a task, or may become one.
pub(super) struct Work {
    about: About,
    task: OnceLock<Place>,
    // Std mutexes: never held across an await.
    /// Who waits for the call, until it is a task.
    front: Mutex<Option<Arc<dyn Reporter>>>,
    memory: Mutex<Memory>,
    learned: watch::Sender<()>,
    news: Mutex<Untold>,
    has_news: Notify,
    /// Its place among those that run; given up while it waits for an answer.
    permit: Mutex<Option<Permit>>,
    /// The share of its caller that it counts for.
    seat: OnceLock<Weak<Seat>>,
    /// It ended with a question to whoever waited for it.
    paused: AtomicBool,
}

/// Where a call that is a task is kept.
pub(super) struct Place {
    pub(super) engine: Arc<Engine>,
    pub(super) id: String,
    /// What this process runs it under.
    pub(super) runner: Arc<str>,
}

/// What was asked and kept so far, by this run or one before it.
#[derive(Default)]
struct Memory {
    questions: Vec<Question>,
    kept: Map<String, Value>,
}

/// What is to be told.
#[derive(Clone, Default)]
pub(super) struct Untold {
    progress: Option<(f64, Option<f64>, Option<String>)>,
    logs: VecDeque<News>,
}

impl Untold {
    pub(super) fn is_empty(&self) -> bool {
        self.progress.is_none() && self.logs.is_empty()
    }

    /// How far the call is, in words.
    pub(super) fn words(&self) -> Option<String> {
        self.progress.as_ref().map(|(done, total, words)| match (words, total) {
            (Some(words), _) => words.clone(),
            (None, Some(total)) => format!("{done} of {total}"),
            (None, None) => done.to_string(),
        })
    }

    pub(super) fn to_tell(&self) -> impl Iterator<Item = News> {
        let progress = self.progress.clone();
        let progress = progress.map(|(done, total, words)| News::Progress(done, total, words));
        self.logs.iter().cloned().chain(progress)
    }
}

/// Bytes of a progress message that a task's record keeps.
const MESSAGE: usize = 1024;

fn shortened(message: &str) -> String {
    if message.len() <= MESSAGE {
        return message.to_owned();
    }
    let fits = message.char_indices().take_while(|(at, _)| *at < MESSAGE);
    fits.map(|(_, one)| one).chain(['…']).collect()
}

impl Work {
    /// A call somebody waits for.
    pub(super) fn in_front(front: Arc<dyn Reporter>) -> Self {
        let about = About { detach: Some(Arc::default()), ..front.about().beside() };
        Self::new(about, Some(front), Memory::default())
    }

    /// A call that is a task from its beginning, or was one elsewhere.
    pub(super) fn of_task(about: About, place: Place, record: &Record) -> Self {
        let memory = Memory { questions: record.questions.clone(), kept: record.kept.clone() };
        let work = Self::new(about, None, memory);
        let _ = work.task.set(place);
        work
    }

    fn new(about: About, front: Option<Arc<dyn Reporter>>, memory: Memory) -> Self {
        Self {
            about,
            task: OnceLock::new(),
            front: Mutex::new(front),
            memory: Mutex::new(memory),
            learned: watch::Sender::new(()),
            news: Mutex::default(),
            has_news: Notify::new(),
            permit: Mutex::default(),
            seat: OnceLock::new(),
            paused: AtomicBool::new(false),
        }
    }

    /// Makes the call a task: from now on nobody waits for it, and nothing of its message is held
    /// but what earlier runs kept.
    pub(super) fn becomes(&self, place: Place) {
        let _ = self.task.set(place);
        let Some(front) = lock(&self.front).take() else { return };
        let mut memory = lock(&self.memory);
        for (key, value) in front.all_kept() {
            memory.kept.entry(key).or_insert(value);
        }
    }

    /// Who waits for the call.
    fn front(&self) -> Option<Arc<dyn Reporter>> {
        lock(&self.front).clone()
    }

    /// Writes what was asked and kept so far into the record of the call's task.
    pub(super) fn remembered_in(&self, record: &mut Record) {
        let memory = lock(&self.memory);
        (record.questions, record.kept) = (memory.questions.clone(), memory.kept.clone());
    }

    /// Takes over the answers that came meanwhile.
    pub(super) fn learn(&self, record: &Record) {
        lock(&self.memory).questions = record.questions.clone();
        self.learned.send_replace(());
    }

    /// Whether this process is to go on with it.
    pub(super) fn runs(&self, record: &Record) -> bool {
        self.task.get().is_some_and(|place| record.is_run_by(&place.runner))
    }

    /// Waits until the handler wishes that nobody waits for it.
    pub(super) async fn detached(&self) {
        match &self.about.detach {
            Some(detach) => detach.notified().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn stop(&self) {
        self.about.stop.now();
    }

    /// Waits until there is something to tell.
    pub(super) async fn has_news(&self) {
        self.has_news.notified().await;
    }

    /// What is to be told.
    pub(super) fn news(&self) -> Untold {
        lock(&self.news).clone()
    }

    /// Forgets what was told.
    pub(super) fn told(&self, news: &Untold) {
        let mut untold = lock(&self.news);
        untold.logs.drain(..news.logs.len());
        if untold.progress == news.progress {
            untold.progress = None;
        }
    }

    /// Where it waits for its turn again after an answer. Weak: a handler may keep this for longer
    /// than its task is there.
    pub(super) fn sit(&self, seat: &Arc<Seat>) {
        let _ = self.seat.set(Arc::downgrade(seat));
    }

    /// Takes its place among those that run.
    pub(super) fn hold(&self, permit: Permit) {
        *lock(&self.permit) = Some(permit);
    }

    /// Its turn has come: from now on it must not be begun by anyone else.
    pub(super) async fn begin_turn(&self) {
        let begun = self.persist(|record| {
            let queued = record.status == TaskStatus::Queued;
            if queued {
                record.status = TaskStatus::Working;
            }
            queued
        });
        if !begun.await.is_some_and(|record| self.runs(&record)) {
            std::future::pending().await
        }
    }

    /// Whether it may go on without whoever waits for it: not if it has just asked them.
    pub(super) fn may_become_a_task(&self) -> bool {
        !self.paused.load(Ordering::Relaxed)
    }

    /// Changes the record of its task, while this process runs it.
    pub(super) async fn persist(&self, change: impl FnMut(&mut Record) -> bool) -> Option<Record> {
        match self.task.get() {
            Some(place) => place.persist(change).await,
            None => None,
        }
    }

    fn answer(&self, key: &str) -> Option<Result<Value>> {
        let memory = lock(&self.memory);
        let question = memory.questions.iter().find(|question| question.key == key)?;
        Some(question.answer.clone()?.map_err(CallError::new))
    }

    async fn ask_front(
        &self,
        front: &dyn Reporter,
        key: &str,
        question: InputRequest,
    ) -> Result<Value> {
        let mut asked = Question::new(key, &question);
        let answer = front.ask(key, question).await;
        if let Err(CallError::Paused) = answer {
            self.paused.store(true, Ordering::Relaxed);
        }
        let answer = answer?;
        (asked.answer, asked.taken) = (Some(Ok(answer.clone())), true);
        lock(&self.memory).questions.push(asked);
        Ok(answer)
    }

    /// Asks whoever looks at the task, and waits for the answer.
    async fn ask_watchers(
        &self,
        place: &Place,
        key: &str,
        question: &InputRequest,
    ) -> Result<Value> {
        let mut learned = self.learned.subscribe();
        if let Some(answer) = self.answer(key) {
            place.persist(|record| record.take(key)).await;
            return answer;
        }
        if let Some(required) = ask::lacks(&self.about.client, question) {
            let why = format!("this client cannot be asked: it lacks {required}");
            return Err(CallError::new(why));
        }
        let asked = Question::new(key, question);
        let record = place.persist(|record| record.ask(asked.clone())).await;
        let ttl = place.engine.settings.input_ttl;
        let known = record.as_ref().and_then(|record| record.question(key)).unwrap_or(&asked);
        let mut left = known.time_left(ttl);
        let parked = place.engine.slots.wait();
        drop(lock(&self.permit).take());
        let answer = loop {
            if let Some(answer) = self.answer(key) {
                break answer;
            }
            match timeout(left, learned.changed()).await {
                Ok(Ok(())) => left = known.time_left(ttl),
                Ok(Err(_)) => return Err(CallError::new("the task is over")),
                // Written down, so that nobody answers it later; `learned` tells of it.
                Err(_) => {
                    let why = format!("nobody answered within {ttl:?}");
                    let _ = place.engine.settle(&place.id, vec![(key, Err(why))]).await;
                    left = LATE;
                }
            }
        };
        drop(parked);
        self.wait_for_a_place().await;
        place.persist(|record| record.take(key)).await;
        answer
    }

    async fn wait_for_a_place(&self) {
        if lock(&self.permit).is_none()
            && let Some(seat) = self.seat.get().and_then(Weak::upgrade)
        {
            self.hold(seat.turn().await);
        }
    }
}

impl Place {
    /// Changes the record while this process runs the task, however long the store is away.
    async fn persist(&self, mut change: impl FnMut(&mut Record) -> bool) -> Option<Record> {
        self.engine
            .persist(&self.id, |record| record.is_run_by(&self.runner) && change(record))
            .await
    }
}

impl Reporter for Work {
    fn about(&self) -> &About {
        &self.about
    }

    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        match self.front() {
            Some(front) => front.progress(done, total, message),
            None => {
                if done.is_finite() {
                    let total = total.filter(|total| total.is_finite());
                    lock(&self.news).progress = Some((done, total, message.map(shortened)));
                    self.has_news.notify_one();
                }
            }
        }
    }

    fn log(&self, level: Level, logger: Option<&str>, data: Value) {
        match self.front() {
            Some(front) => front.log(level, logger, data),
            None => {
                let mut news = lock(&self.news);
                if news.logs.len() < WAITING {
                    news.logs.push_back(News::Log(level, logger.map(str::to_owned), data));
                    drop(news);
                    self.has_news.notify_one();
                }
            }
        }
    }

    fn ask(&self, key: &str, question: InputRequest) -> BoxFuture<'_, Result<Value>> {
        let key = key.to_owned();
        Box::pin(async move {
            match (self.task.get(), self.front()) {
                (Some(place), _) => self.ask_watchers(place, &key, &question).await,
                (None, Some(front)) => self.ask_front(&*front, &key, question).await,
                (None, None) => Err(CallError::new("nobody can be asked here")),
            }
        })
    }

    fn kept(&self, key: &str) -> Option<Value> {
        let here = lock(&self.memory).kept.get(key).cloned();
        here.or_else(|| {
            let earlier = self.front()?.kept(key)?;
            lock(&self.memory).kept.insert(key.to_owned(), earlier.clone());
            Some(earlier)
        })
    }

    fn all_kept(&self) -> Map<String, Value> {
        let mut kept = self.front().map(|front| front.all_kept()).unwrap_or_default();
        kept.extend(lock(&self.memory).kept.clone());
        kept
    }

    fn keep(&self, key: &str, value: Value) -> BoxFuture<'_, ()> {
        lock(&self.memory).kept.insert(key.to_owned(), value.clone());
        let key = key.to_owned();
        Box::pin(async move {
            match (self.task.get(), self.front()) {
                (Some(place), _) => {
                    let keep = |record: &mut Record| {
                        record.kept.insert(key.clone(), value.clone()) != Some(value.clone())
                    };
                    place.persist(keep).await;
                }
                (None, Some(front)) => front.keep(&key, value).await,
                (None, None) => (),
            }
        })
    }
}
