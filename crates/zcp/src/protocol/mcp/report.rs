//! Progress, logs and questions of a running call, as frames on its own stream.

use super::{
    Carried, Mcp,
    entry::{Client, Entry},
    retry::Retry,
    running::State,
    session::{Session, Stoppable},
    tasks::{Related, related},
};
use crate::{
    auth::Caller,
    runtime::{
        Runtime,
        ask::{fits, lacks},
        ctx::{About, Conversation, Reporter, Stop},
        error::{CallError, Result},
    },
    sync::lock,
};
use bytestring::ByteString;
use futures_util::{future::BoxFuture, task::AtomicWaker};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex, OnceLock, atomic::AtomicBool},
    time::Duration,
};
use tokio::time::Instant;
use zcp_wire::{
    Frame, Method, Notification, Request, RpcError,
    downgrade::{downgrade_question, upgrade_answer},
    error::URL_ELICITATION_REQUIRED,
    json,
    mcp::{
        InputRequest, InputRequired,
        elicitation::{Elicit, Mode},
        logging::{Level, LogMessage},
        tasks::RELATED,
    },
    revision::Questions,
};

/// Frames a call may have waiting before progress and logs are dropped; nothing else ever is.
const WAITING: usize = 256;
/// JSON values in the answer to a question. In memory each takes many times the bytes of its text.
const MAX_ANSWER_VALUES: usize = 20_000;
/// Progress is reported at most this often.
const PROGRESS_PAUSE: Duration = Duration::from_millis(10);
/// Log messages one call may send in a second, and at once.
const LOGS_PER_SECOND: f64 = 100.0;
const LOG_BURST: f64 = 200.0;

/// One call: what is known of it, and its way to its client.
pub(super) struct Report {
    entry: Entry,
    pub(super) about: About,
    pub(super) level: Option<Level>,
    token: Option<ByteString>,
    asking: Asking,
    /// The task it waits for.
    related: OnceLock<Box<Related>>,
    // A std mutex: never held across an await.
    pub(super) outbox: Mutex<Outbox>,
    pub(super) waker: AtomicWaker,
}

/// How a client hears of a page its user must visit first, where that is no error.
pub(super) enum VisitFirst {
    /// As a question.
    Asked(InputRequired),
    /// In words.
    Told(String),
}

/// What a client says to a question.
pub(super) enum Reply {
    Answer(Value),
    Refused(String),
    /// Nothing: it went away, or cannot be asked.
    Gone,
}

/// How this call's questions reach the client.
enum Asking {
    /// Until 2025-11-25: a request on the call's own stream, answered by a response.
    Live(Arc<Session>),
    /// Since 2026-07-28: the call ends, and is made again with the answers so far.
    Retry(Mutex<Retry>),
    /// Not at all: the method takes no questions.
    Never,
}

#[derive(Default)]
pub(super) struct Outbox {
    pub(super) frames: VecDeque<Frame>,
    progress: Option<(f64, Instant)>,
    logs: Option<Logs>,
    dropped_logs: u64,
}

/// How many more log messages may be sent, and since when.
struct Logs {
    left: f64,
    at: Instant,
}

impl Report {
    pub(super) fn new(
        mcp: &Mcp,
        entry: Entry,
        client: Client,
        retry: Option<Retry>,
        Carried { extensions, release }: Carried,
    ) -> Arc<Self> {
        let asking = match (entry.questions, retry, &mcp.session) {
            (Questions::AsResults, Some(retry), _) => Asking::Retry(Mutex::new(retry)),
            (Questions::AsRequests, _, Some(session)) => Asking::Live(session.clone()),
            _ => Asking::Never,
        };
        let about = About {
            caller: Caller::of(&extensions),
            conversation: mcp.session.clone().map(|session| session as Arc<dyn Conversation>),
            client: client.capabilities,
            client_info: client.info,
            trace: client.trace,
            params: client.params,
            stop: Stop::default(),
            extensions,
            release,
            task: client.task,
            detach: None,
            is_counted: AtomicBool::new(false),
            runtime: mcp.runtime.clone(),
        };
        Arc::new(Self {
            entry,
            about,
            level: client.level,
            token: client.progress,
            asking,
            related: OnceLock::new(),
            outbox: Mutex::default(),
            waker: AtomicWaker::new(),
        })
    }

    pub(super) fn runtime(&self) -> &Runtime {
        &self.about.runtime
    }

    /// Whether the call was made before, and carries answers.
    pub(super) fn is_retry(&self) -> bool {
        matches!(&self.asking, Asking::Retry(retry) if lock(retry).is_again())
    }

    /// Uses up the state the call came with, where it may be used only once.
    pub(super) async fn claim(&self) -> Result<(), RpcError> {
        let Asking::Retry(retry) = &self.asking else {
            return Ok(());
        };
        let nonce = lock(retry).nonce();
        match nonce {
            Some(nonce) if self.runtime().settings.single_use => {
                Retry::claim(self.runtime(), &nonce).await
            }
            _ => Ok(()),
        }
    }

    /// What the call asked and has no answer to.
    pub(super) fn input_required(&self, runtime: &Runtime) -> Result<InputRequired, RpcError> {
        let Asking::Retry(retry) = &self.asking else {
            return Err(RpcError::internal("the handler paused without a question"));
        };
        lock(retry).input_required(runtime)
    }

    /// A page the user must visit before the call can be made: a refusal that names it, or since
    /// 2026-07-28 a question.
    pub(super) fn visit_first(
        &self,
        runtime: &Runtime,
        page: Elicit,
    ) -> Result<VisitFirst, RpcError> {
        let question = InputRequest::Elicit(page.clone());
        if let Some(required) = lacks(&self.about.client, &question) {
            return match self.entry.questions {
                Questions::AsResults => Err(RpcError::missing_capability(&required)),
                Questions::AsRequests => {
                    let page_url = page.url.unwrap_or_default();
                    Ok(VisitFirst::Told(format!("{}: visit {page_url} first", page.message)))
                }
            };
        }
        match &self.asking {
            Asking::Retry(retry) => {
                let key = page.elicitation_id.unwrap_or_else(crate::token);
                lock(retry).put(key, question);
                lock(retry).input_required(runtime).map(VisitFirst::Asked)
            }
            Asking::Live(session) => {
                page.elicitation_id.iter().for_each(|id| session.sent_to(id));
                Err(RpcError::new(URL_ELICITATION_REQUIRED, page.message.clone())
                    .with_data(json!({ "elicitations": [page] })))
            }
            Asking::Never => Err(RpcError::internal("nobody can be asked here")),
        }
    }

    /// The session that is asked during the call.
    pub(super) fn session(&self) -> Option<&Arc<Session>> {
        match &self.asking {
            Asking::Live(session) => Some(session),
            _ => None,
        }
    }

    /// From now on everything is about a task, whose progress has a token of its own.
    pub(super) fn relates_to(&self, task: &str, progress: Option<&str>) {
        self.related.get_or_init(|| {
            Box::new(Related { id: task.to_owned(), progress: progress.map(ByteString::from) })
        });
    }

    /// The task everything is about.
    pub(super) fn task(&self) -> Option<&str> {
        self.related.get().map(|related| related.id.as_str())
    }

    /// A message's parameters, which say what task they are about.
    fn params(&self, params: &impl Serialize) -> ByteString {
        let Some(task) = self.task() else { return json::text(params) };
        let mut params = serde_json::to_value(params).unwrap_or_default();
        params["_meta"] = json!({ RELATED: related(task) });
        json::text(&params)
    }

    pub(super) fn push(&self, frame: Frame) {
        lock(&self.outbox).frames.push_back(frame);
        self.waker.wake();
    }

    fn notification(&self, method: Method, params: &impl Serialize) -> Frame {
        let method = method.into();
        Frame::Notification(Notification { method, params: Some(self.params(params)) })
    }

    async fn ask_live(&self, session: &Session, question: InputRequest) -> Result<Value> {
        match self.put(session, question).await {
            Reply::Answer(answer) => Ok(answer),
            Reply::Refused(why) => Err(CallError::new(why)),
            Reply::Gone => Err(CallError::new("the client went away without an answer")),
        }
    }

    /// Puts a question to the client, if it is one it can be asked.
    pub(super) async fn put_question(&self, question: InputRequest) -> Reply {
        match &self.asking {
            Asking::Live(session) if lacks(&self.about.client, &question).is_none() => {
                self.put(session, question).await
            }
            _ => Reply::Gone,
        }
    }

    async fn put(&self, session: &Session, mut question: InputRequest) -> Reply {
        if let InputRequest::Elicit(elicit) = &question
            && elicit.mode == Some(Mode::Url)
        {
            elicit.elicitation_id.iter().for_each(|id| session.sent_to(id));
        }
        let asked = question.clone();
        downgrade_question(&mut question, self.entry.revision);
        let (id, answer) = session.pending().open();
        session.asks(&id, &self.about.runtime).await;
        self.push(Frame::Request(Request {
            id: id.clone(),
            method: question.method().into(),
            params: Some(self.params(&question)),
        }));
        let answer = tokio::select! {
            answer = answer => match answer {
                Ok(answer) => answer,
                Err(_) => return Reply::Gone,
            },
            answer = session.answered_elsewhere(&id, &self.about.runtime.store) => answer,
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let why = format!("the client refused the question: {}", error.message);
                return Reply::Refused(why);
            }
        };
        if json::has_more_values(answer.as_bytes(), MAX_ANSWER_VALUES) {
            let why = format!("the client's answer has more than {MAX_ANSWER_VALUES} JSON values");
            return Reply::Refused(why);
        }
        let read = serde_json::from_str(&answer).map_err(|error| error.to_string());
        let read = read.map(|mut answer| {
            upgrade_answer(&mut answer, &asked, self.entry.revision);
            answer
        });
        match read.and_then(|answer| fits(&asked, &answer).map(|()| answer)) {
            Ok(answer) => Reply::Answer(answer),
            Err(why) => {
                Reply::Refused(format!("the client's answer does not fit the question: {why}"))
            }
        }
    }

    /// Refuses a question this client cannot put to anyone.
    fn check(&self, question: &InputRequest) -> Result<()> {
        let Some(required) = lacks(&self.about.client, question) else {
            return Ok(());
        };
        Err(match self.entry.questions {
            Questions::AsResults => CallError::MissingCapability(required),
            Questions::AsRequests => {
                CallError::new(format!("this client cannot be asked: it lacks {required}"))
            }
        })
    }
}

impl Stoppable for Report {
    fn stop(&self) {
        self.about.stop.now();
        self.waker.wake();
    }

    fn is_stopped(&self) -> bool {
        self.about.stop.is_stopped()
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.entry.method;
        f.debug_struct("Report")
            .field("method", &method)
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

impl Reporter for Report {
    fn about(&self) -> &About {
        &self.about
    }

    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        let task = self.related.get().and_then(|related| related.progress.as_ref());
        let Some(token) = task.or(self.token.as_ref()) else { return };
        let now = Instant::now();
        let mut outbox = lock(&self.outbox);
        let total = total.filter(|total| total.is_finite());
        if let Some((reported, at)) = outbox.progress {
            let grows = done > reported;
            let last = total.is_some_and(|total| done >= total && reported < total);
            let soon = now.duration_since(at) < PROGRESS_PAUSE && !last;
            if !grows || soon || outbox.frames.len() >= WAITING {
                return;
            }
        }
        if !done.is_finite() {
            return;
        }
        outbox.progress = Some((done, now));
        let message = message.filter(|_| self.entry.revision.has_progress_messages());
        let params = under(token, &self.params(&Progress { progress: done, total, message }));
        let method = Method::Progress.into();
        outbox.frames.push_back(Frame::Notification(Notification { method, params: Some(params) }));
        drop(outbox);
        self.waker.wake();
    }

    fn log(&self, level: Level, logger: Option<&str>, data: Value) {
        if self.level.is_none_or(|wanted| level < wanted) {
            return;
        }
        let now = Instant::now();
        let mut outbox = lock(&self.outbox);
        let full = outbox.frames.len() >= WAITING;
        let logs = outbox.logs.get_or_insert(Logs { left: LOG_BURST, at: now });
        let earned = now.duration_since(logs.at).as_secs_f64() * LOGS_PER_SECOND;
        *logs = Logs { left: (logs.left + earned).min(LOG_BURST), at: now };
        if logs.left < 1.0 || full {
            outbox.dropped_logs += 1;
            return;
        }
        logs.left -= 1.0;
        let message = LogMessage { level, logger: logger.map(str::to_owned), data };
        outbox.frames.push_back(self.notification(Method::LogMessage, &message));
        drop(outbox);
        self.waker.wake();
    }

    fn ask(&self, key: &str, question: InputRequest) -> BoxFuture<'_, Result<Value>> {
        let key = key.to_owned();
        Box::pin(async move {
            self.check(&question)?;
            match &self.asking {
                Asking::Live(session) => self.ask_live(session, question).await,
                Asking::Retry(retry) => {
                    let nonce = lock(retry).spends(self.runtime(), &key, &question);
                    if let Some(nonce) = nonce {
                        let claimed = Retry::claim(self.runtime(), &nonce).await;
                        claimed.map_err(|error| CallError::Rpc(Box::new(error)))?;
                    }
                    lock(retry).ask(key, question)
                }
                Asking::Never => Err(CallError::new("nobody can be asked here")),
            }
        })
    }

    fn kept(&self, key: &str) -> Option<Value> {
        match &self.asking {
            Asking::Retry(retry) => lock(retry).kept(key),
            _ => None,
        }
    }

    fn all_kept(&self) -> Map<String, Value> {
        match &self.asking {
            Asking::Retry(retry) => lock(retry).all_kept(),
            _ => Map::new(),
        }
    }

    fn keep(&self, key: &str, value: Value) -> BoxFuture<'_, ()> {
        if let Asking::Retry(retry) = &self.asking {
            lock(retry).keep(key, value);
        }
        Box::pin(std::future::ready(()))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Progress<'a> {
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
}

/// Parameters of progress under a token, which is JSON text.
fn under(token: &str, params: &str) -> ByteString {
    let rest = params.strip_prefix('{').unwrap_or_default();
    format!("{{\"progressToken\":{token},{rest}").into()
}

pub(super) fn notification(method: Method, params: &impl Serialize) -> Frame {
    Frame::Notification(Notification { method: method.into(), params: Some(json::text(params)) })
}

impl Outbox {
    /// Whether nothing is to be said before the response.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty() && self.dropped_logs == 0
    }

    /// What is to be said before the response.
    pub(super) fn next(&mut self, level: Option<Level>, state: &State) -> Option<Frame> {
        if let State::Ended = state {
            return None;
        }
        if let Some(frame) = self.frames.pop_front() {
            return Some(frame);
        }
        if self.dropped_logs == 0 || matches!(state, State::Working) {
            return None;
        }
        let count = std::mem::take(&mut self.dropped_logs);
        let data = json!(format!("{count} log messages of this call were dropped: too many"));
        let level = level.unwrap_or(Level::Warning).max(Level::Warning);
        let message = LogMessage { level, logger: None, data };
        Some(notification(Method::LogMessage, &message))
    }
}
