//! A task as the store holds it, and the news of it.

use super::{Asked, End, Task, Tasks, task_news};
use crate::{
    auth::{Caller, PeerAddress, Principal, StoredCaller},
    clock,
    runtime::{
        call::{Fault, Outcome},
        ctx::About,
        output::Output,
    },
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::{Duration, SystemTime};
use zcp_wire::mcp::{
    InputRequest, capabilities::ClientCapabilities, logging::Level, tasks::TaskStatus,
};

/// The least a client may have a task kept.
const SHORTEST: Duration = Duration::from_secs(10);
/// Runs of a task at most that end with their process.
const ATTEMPTS: u32 = 10;
/// A run that lasted for so long was not what its process died of.
const LASTED: u64 = 60_000;

/// All that another process needs to know of a task. Times are milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) tool: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<String>,
    /// Whether its arguments have a key of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) args_apart: bool,
    #[serde(default, skip_serializing_if = "StoredCaller::is_anonymous")]
    caller: StoredCaller,
    #[serde(default)]
    pub(super) client: ClientCapabilities,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) progress: Option<String>,
    /// The process that runs it, and the how manyth run it is.
    pub(super) runner: String,
    runs: u32,
    began: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    /// How long it is kept: from its beginning, and beyond its end if it takes long.
    pub(super) ttl: u64,
    kept_for: u64,
    /// Where it is listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) scope: Option<String>,
    /// Where the conversation it began in is told of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) told_in: Option<String>,
    /// Whose limits it counts for.
    #[serde(default)]
    share: String,
    /// Whether somebody may hear of its progress.
    #[serde(default)]
    pub(super) has_listeners: bool,
    pub(super) status: TaskStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) questions: Vec<Question>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) kept: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<End>,
}

/// Whose limits a task counts for: its principal's, or those of the network that an anonymous caller
/// comes from, who can have any number of sessions.
fn share(about: &About, scope: Option<&str>) -> String {
    let network = about.extensions.get::<PeerAddress>().and_then(|peer| peer.sharing());
    match network.filter(|_| about.caller.principal().is_anonymous()) {
        Some(network) => format!("network/{network}"),
        None => scope.unwrap_or("anonymous").to_owned(),
    }
}

/// Something a task asked. Its key is never used for anything else.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Question {
    pub(super) key: String,
    method: String,
    params: Value,
    /// The answer, or why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) answer: Option<Result<Value, String>>,
    /// When it was asked.
    #[serde(default)]
    asked_at: u64,
    /// Whether the handler has it, and may have acted on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) taken: bool,
}

impl Question {
    pub(super) fn new(key: &str, question: &InputRequest) -> Self {
        let params = serde_json::to_value(question).unwrap_or_default();
        let method = question.method().name().to_owned();
        let asked_at = clock::now_ms();
        Self { key: key.to_owned(), method, params, answer: None, asked_at, taken: false }
    }

    /// How long it may still be answered, of a time that began when it was asked.
    pub(super) fn time_left(&self, ttl: Duration) -> Duration {
        let asked_at = if self.asked_at == 0 { clock::now_ms() } else { self.asked_at };
        ttl.saturating_sub(Duration::from_millis(clock::now_ms().saturating_sub(asked_at)))
    }

    pub(super) fn asked(&self) -> Option<InputRequest> {
        InputRequest::read(&self.method, self.params.clone())
    }
}

/// What is told of a task while it goes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum News {
    /// Its record.
    Changed,
    /// How far it is.
    Progress(f64, Option<f64>, Option<String>),
    /// Something for its client's developer.
    Log(Level, Option<String>, Value),
}

impl Record {
    pub(super) fn new(
        tool: String,
        args: Option<String>,
        about: &About,
        asked: &Asked,
        settings: &Tasks,
        scope: Option<String>,
    ) -> Self {
        let (usual, most) = (settings.ttl, settings.max_ttl.max(SHORTEST));
        let kept_for = asked.ttl.map_or(usual, |ttl| ttl.clamp(SHORTEST, most));
        let kept_for = u64::try_from(kept_for.as_millis()).unwrap_or(u64::MAX);
        let now = clock::now_ms();
        Self {
            tool,
            args,
            args_apart: false,
            caller: StoredCaller::from(&about.caller),
            client: (*about.client).clone(),
            progress: asked.progress.as_ref().map(ToString::to_string),
            runner: String::new(),
            runs: 1,
            began: now,
            created: now,
            updated: now,
            ttl: kept_for,
            kept_for,
            share: share(about, scope.as_deref()),
            scope,
            told_in: asked.conversation.as_deref().map(task_news::log),
            has_listeners: asked.conversation.is_some(),
            status: TaskStatus::Working,
            message: None,
            questions: vec![],
            kept: Map::new(),
            end: None,
        }
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    pub(super) fn to_bytes(&self) -> Bytes {
        serde_json::to_vec(self).unwrap_or_default().into()
    }

    /// How long it is kept from now on.
    pub(super) fn left(&self) -> Duration {
        let end = self.created.saturating_add(self.ttl);
        Duration::from_millis(end.saturating_sub(clock::now_ms()).max(1))
    }

    /// Whether it would be forgotten soon, if nobody cared.
    pub(super) fn fades(&self) -> bool {
        self.left() < Duration::from_millis(self.kept_for / 2)
    }

    /// Keeps it for as long from now on as it was to be kept from its beginning.
    pub(super) fn keep_on(&mut self) {
        let age = clock::now_ms().saturating_sub(self.created);
        self.ttl = age.saturating_add(self.kept_for);
    }

    /// Whose share of the places it takes.
    pub(super) fn share(&self) -> &str {
        &self.share
    }

    /// Who made the call; none if that cannot be read.
    pub(super) fn caller(&self) -> Option<Caller> {
        self.caller.read()
    }

    pub(super) fn belongs_to(&self, principal: &Principal) -> bool {
        self.caller().is_some_and(|caller| caller.principal() == principal)
    }

    pub(super) fn is_run_by(&self, runner: &str) -> bool {
        !self.status.is_over() && self.runner == runner
    }

    /// Whether it may be what its processes die of.
    pub(super) fn is_hopeless(&self) -> bool {
        self.runs >= ATTEMPTS && clock::now_ms().saturating_sub(self.began) < LASTED
    }

    /// Another process runs it from now on.
    pub(super) fn run_again(&mut self, runner: &str, status: TaskStatus) {
        let now = clock::now_ms();
        self.runs = match now.saturating_sub(self.began) < LASTED {
            true => self.runs + 1,
            false => 1,
        };
        (self.runner, self.began) = (runner.to_owned(), now);
        if self.status == TaskStatus::Queued {
            self.status = status;
        }
    }

    /// Puts a question to whoever looks at it next; false when it was put before.
    pub(super) fn ask(&mut self, question: Question) -> bool {
        if self.questions.iter().any(|known| known.key == question.key) {
            return false;
        }
        self.questions.push(question);
        self.status = TaskStatus::InputRequired;
        true
    }

    /// Whether its handler waits for an answer, or for being told of one.
    pub(super) fn is_asking(&self) -> bool {
        self.questions.iter().any(|question| !question.taken)
    }

    /// Notes that the handler is about to be given an answer; false when it was before.
    pub(super) fn take(&mut self, key: &str) -> bool {
        let mut untaken = self.questions.iter_mut().filter(|one| one.key == key && !one.taken);
        untaken.next().is_some_and(|question| {
            question.taken = true;
            true
        })
    }

    /// What was asked under a key.
    pub(super) fn question(&self, key: &str) -> Option<&Question> {
        self.questions.iter().find(|known| known.key == key)
    }

    /// What is asked under a key and has no answer.
    pub(super) fn outstanding(&mut self, key: &str) -> Option<&mut Question> {
        self.questions.iter_mut().find(|known| known.key == key && known.answer.is_none())
    }

    /// Goes on if nothing is asked any more.
    pub(super) fn go_on(&mut self) {
        if self.questions.iter().all(|question| question.answer.is_some()) {
            self.status = TaskStatus::Working;
        }
    }

    /// Forgets what is only needed to run it: arguments may be large, and secret.
    pub(super) fn forget_the_call(&mut self) {
        self.args = None;
        self.questions = vec![];
        self.kept = Map::new();
    }

    pub(super) fn finish(&mut self, end: End) {
        self.forget_the_call();
        (self.status, self.message) = match &end {
            End::Tool(output) => (TaskStatus::Completed, output.complaint()),
            End::Fault(fault) => (TaskStatus::Failed, Some(fault.to_string())),
        };
        self.end = Some(end);
        if self.fades() {
            self.keep_on();
        }
    }

    pub(super) fn view(&self, id: &str, poll: Duration) -> Task {
        let at = |ms| SystemTime::UNIX_EPOCH + Duration::from_millis(ms);
        let open = |question: &&Question| question.answer.is_none() && !self.status.is_over();
        let questions = self.questions.iter().filter(open);
        Task {
            id: id.to_owned(),
            tool: self.tool.clone(),
            owner: self.caller().map(|it| it.principal().as_str().to_owned()).unwrap_or_default(),
            status: self.status,
            message: self.message.clone(),
            created: at(self.created),
            updated: at(self.updated),
            ttl: Duration::from_millis(self.ttl),
            poll,
            asked: questions.filter_map(|one| Some((one.key.clone(), one.asked()?))).collect(),
            end: self.end.clone(),
            progress: self.progress.clone(),
        }
    }
}

impl End {
    /// The same, as far as it says how a task has ended.
    pub(super) fn without_content(self) -> Self {
        match self {
            Self::Tool(output) => {
                Self::Tool(Output { is_error: output.is_error, ..Output::default() })
            }
            fault => fault,
        }
    }

    /// What a run of a task's tool came to. A result of more bytes than `most` is replaced by an
    /// error that says so.
    pub(super) fn of(outcome: Outcome, most: usize) -> Self {
        match outcome {
            Outcome::Tool(output) if length(&output) > most => Self::Tool(Output::failed(format!(
                "the result is too large: it has more than {most} bytes, the limit for tasks"
            ))),
            Outcome::Tool(output) => Self::Tool(output),
            Outcome::Fault(fault) => Self::Fault(fault),
            _ => Self::Fault(Fault::Failed("the handler ended without a result".into())),
        }
    }
}

/// The bytes of something as JSON.
fn length(value: &impl Serialize) -> usize {
    struct Counter(usize);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}
