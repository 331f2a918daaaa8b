//! A call's way to its client while somebody waits for it, and to its task when nobody does.

use super::{
    engine::Engine,
    record::{News, Question, Record},
};
use crate::runtime::{
    ask,
    ctx::{About, Reporter},
    error::{CallError, Result},
};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::sync::{Notify, watch};
use zcp_wire::mcp::{InputRequest, logging::Level};

/// Log messages a task may have waiting to be told; more are dropped.
const WAITING: usize = 32;

/// A call that is a task, or may become one.
pub(super) struct Work {
    about: About,
    /// Who waits for the call, until it is a task.
    front: Option<Arc<dyn Reporter>>,
    task: OnceLock<Place>,
    // Std mutexes: never held across an await.
    memory: Mutex<Memory>,
    learned: watch::Sender<()>,
    news: Mutex<Waiting>,
    has_news: Notify,
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

#[derive(Default)]
struct Waiting {
    progress: Option<(f64, Option<f64>, Option<String>)>,
    logs: VecDeque<News>,
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
            front,
            task: OnceLock::new(),
            memory: Mutex::new(memory),
            learned: watch::Sender::new(()),
            news: Mutex::default(),
            has_news: Notify::new(),
        }
    }

    /// Makes the call a task: from now on nobody waits for it.
    pub(super) fn becomes(&self, place: Place) {
        let _ = self.task.set(place);
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

    /// What is to be told, and how far the call is in words.
    pub(super) fn take_news(&self) -> (Vec<News>, Option<String>) {
        let waiting = std::mem::take(&mut *lock(&self.news));
        let words = waiting.progress.as_ref().map(|(done, total, words)| match (words, total) {
            (Some(words), _) => words.clone(),
            (None, Some(total)) => format!("{done} of {total}"),
            (None, None) => done.to_string(),
        });
        let progress =
            waiting.progress.map(|(done, total, words)| News::Progress(done, total, words));
        (waiting.logs.into_iter().chain(progress).collect(), words)
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
        let answer = front.ask(key, question).await?;
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
            return answer;
        }
        if let Some(required) = ask::lacks(&self.about.client, question) {
            let why = format!("this client cannot be asked: it lacks {required}");
            return Err(CallError::new(why));
        }
        let asked = Question::new(key, question);
        place.persist(|record| record.ask(asked.clone())).await;
        loop {
            if let Some(answer) = self.answer(key) {
                place.persist(|record| record.take(key)).await;
                return answer;
            }
            if learned.changed().await.is_err() {
                return Err(CallError::new("the task is over"));
            }
        }
    }
}

impl Place {
    /// Changes the record while this process runs the task, however long the store is away.
    pub(super) async fn persist(&self, mut change: impl FnMut(&mut Record) -> bool) {
        self.engine
            .persist(&self.id, |record| record.is_run_by(&self.runner) && change(record))
            .await;
    }
}

impl Reporter for Work {
    fn about(&self) -> &About {
        &self.about
    }

    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        match (self.task.get(), &self.front) {
            (None, Some(front)) => front.progress(done, total, message),
            _ => {
                if done.is_finite() {
                    let total = total.filter(|total| total.is_finite());
                    lock(&self.news).progress = Some((done, total, message.map(str::to_owned)));
                    self.has_news.notify_one();
                }
            }
        }
    }

    fn log(&self, level: Level, logger: Option<&str>, data: Value) {
        match (self.task.get(), &self.front) {
            (None, Some(front)) => front.log(level, logger, data),
            _ => {
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
            match (self.task.get(), &self.front) {
                (Some(place), _) => self.ask_watchers(place, &key, &question).await,
                (None, Some(front)) => self.ask_front(&**front, &key, question).await,
                (None, None) => Err(CallError::new("nobody can be asked here")),
            }
        })
    }

    fn kept(&self, key: &str) -> Option<Value> {
        let here = lock(&self.memory).kept.get(key).cloned();
        here.or_else(|| self.front.as_ref().and_then(|front| front.kept(key)))
    }

    fn keep(&self, key: &str, value: Value) -> BoxFuture<'_, ()> {
        lock(&self.memory).kept.insert(key.to_owned(), value.clone());
        let key = key.to_owned();
        Box::pin(async move {
            match (self.task.get(), &self.front) {
                (Some(place), _) => {
                    place
                        .persist(|record| {
                            record.kept.insert(key.clone(), value.clone()) != Some(value.clone())
                        })
                        .await;
                }
                (None, Some(front)) => front.keep(&key, value).await,
                (None, None) => (),
            }
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
