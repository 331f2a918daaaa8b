//! Tasks in both designs: asked for and waited for in 2025-11-25, made by the server and looked at
//! since 2026-07-28.

use super::{
    Mcp,
    entry::Client,
    report::{Reply as Said, Report, notification},
    retry,
    session::Session,
};
use crate::{
    auth::Principal,
    runtime::{
        Runtime,
        call::{Call, Fault, Op, Outcome},
        ctx::{Ctx, Reporter},
        tasks::{Asked, End, Engine, News, Task, TaskOp, Wish, look_after, needs_extension},
    },
};
use bytestring::ByteString;
use futures_util::{
    Stream, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered},
};
use serde_json::{Map, Value, json};
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};
use tokio::{sync::OwnedSemaphorePermit, time::sleep};
use zcp_wire::{
    Frame, Method, Revision, RpcError,
    mcp::{
        InputRequest, Page, Reply,
        tasks::{EXTENSION, OlderTask, Task as Shown, TaskStatus},
        tools::CallToolResult,
    },
    params::{Params, member, optional_text, text},
};

/// How often a task is looked at while its client waits, whatever its news say.
const LOOK: Duration = Duration::from_secs(5);
/// How often the store is tried again while it is away.
const RETRY: Duration = Duration::from_millis(500);
/// Tasks of one session of which it is known what its client was told.
const TOLD: usize = 64;
/// What cursors of the list of tasks are bound to.
const CURSOR: &[u8] = b"cursor:tasks";

/// The two ways there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Design {
    /// 2025-11-25: a client asks for a task, and waits for its result.
    Asked,
    /// Since 2026-07-28: the server makes a task, and its client looks at it.
    Looked,
}

/// What a stateless client thinks of its call becoming a task.
pub(super) fn welcome(client: &Client) -> Wish {
    match client.capabilities.extension(EXTENSION) {
        true => Wish::Welcome,
        false => Wish::Unable,
    }
}

/// The task a call of 2025-11-25 asks to be, if there are any.
pub(super) fn wish(mcp: &Mcp, client: &Client, task: &str) -> Wish {
    match asks(&mcp.runtime) {
        false => Wish::Unasked,
        true => {
            let (ttl, progress) = (ttl(task), client.progress.clone());
            Wish::Asked(Box::new(Asked { ttl, progress, ..asked(mcp) }))
        }
    }
}

fn asked(mcp: &Mcp) -> Asked {
    let conversation = mcp.session.as_ref().map(|session| session.conversation());
    Asked { conversation, ..Asked::default() }
}

fn ttl(task: &str) -> Option<Duration> {
    let task: Value = serde_json::from_str(task).ok()?;
    let ms = task.get("ttl")?.as_f64().filter(|ms| *ms >= 0.0)?;
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}

/// Whether clients that ask for tasks can have any.
pub(super) fn asks(runtime: &Runtime) -> bool {
    runtime.is_live || runtime.catalog().has_long_tools()
}

/// Refuses a stateless client that does not follow tasks.
pub(super) fn check_extension(client: &Client) -> Result<(), RpcError> {
    match client.capabilities.extension(EXTENSION) {
        true => Ok(()),
        false => Err(RpcError::missing_capability(&needs_extension())),
    }
}

/// What a method does with a task.
pub(super) fn operation(
    mcp: &Mcp,
    method: Method,
    params: &Params<'_>,
    design: Design,
) -> Result<TaskOp, RpcError> {
    if method == Method::ListTasks {
        let cursor = optional_text("cursor", params.cursor)?;
        let opened = cursor.map(|cursor| {
            let bytes = mcp.runtime.keys.open(&cursor, CURSOR)?;
            Some(u64::from_be_bytes(bytes.try_into().ok()?))
        });
        let after = opened.unwrap_or(Some(0)).ok_or_else(|| {
            RpcError::invalid_params("`cursor` is not one of this list: start again without it")
        })?;
        return Ok(TaskOp::List { conversation: asked(mcp).conversation, after });
    }
    let id = text("taskId", params.task_id)?.into_owned();
    match method {
        Method::GetTask => Ok(TaskOp::Get { id }),
        Method::CancelTask => Ok(TaskOp::Cancel { id, quietly: design == Design::Looked }),
        Method::UpdateTask => {
            retry::check_answers(params.input_responses)?;
            let answers: Map<String, Value> = member("inputResponses", params.input_responses)?;
            Ok(TaskOp::Answer { id, answers })
        }
        other => Err(RpcError::method_not_found(other.name())),
    }
}

/// A task as its client is shown it.
pub(super) fn shown(revision: Revision, task: Task) -> Shown {
    let time = |at| humantime::format_rfc3339_millis(at).to_string();
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let mut status = task.status;
    let (result, error) = match task.end {
        None => (None, None),
        // A page to visit is nothing to fail of: the model can say so.
        Some(End::Fault(Fault::VisitFirst(page, _))) => {
            status = TaskStatus::Completed;
            let page_url = page.url.unwrap_or_default();
            let content = vec![format!("{}: visit {page_url} first", page.message).into()];
            let told = CallToolResult { content, is_error: true, ..CallToolResult::default() };
            (Some(json!(told)), None)
        }
        Some(End::Fault(fault)) => (None, Some(super::render::error(revision, fault))),
        Some(End::Tool(output)) => {
            let meta = Some(output.meta).filter(|meta| !meta.is_empty());
            let (content, is_error) = (output.content, output.is_error);
            let structured_content = output.structured;
            let result = CallToolResult { content, structured_content, is_error, meta };
            (Some(json!(result)), None)
        }
    };
    Shown {
        task_id: task.id,
        status: match status {
            TaskStatus::Queued => TaskStatus::Working,
            status => status,
        },
        status_message: task.message,
        created_at: time(task.created),
        last_updated_at: time(task.updated),
        ttl_ms: Some(ms(task.ttl)),
        poll_interval_ms: Some(ms(task.poll)),
        input_requests: task.asked.into_iter().map(question).collect(),
        result,
        error,
    }
}

/// Since 2026-07-28 a page to visit has no id of its own.
fn question((key, mut question): (String, InputRequest)) -> (String, Value) {
    if let InputRequest::Elicit(elicit) = &mut question {
        elicit.elicitation_id = None;
    }
    (key, question.to_value())
}

pub(super) fn page(
    runtime: &Runtime,
    revision: Revision,
    tasks: Vec<Task>,
    next: Option<u64>,
) -> Page<OlderTask> {
    Page {
        items: tasks.into_iter().map(|task| shown(revision, task).older()).collect(),
        next_cursor: next.map(|at| runtime.keys.seal_stable(&at.to_be_bytes(), CURSOR)),
    }
}

/// Waits for a task's result in the design of 2025-11-25. Meanwhile this is where it asks, and
/// where its progress and its changes are told. With a result comes the right to have it in memory.
pub(super) async fn result(
    report: &Arc<Report>,
    revision: Revision,
    id: String,
) -> (Outcome, Reading) {
    let runtime = report.runtime();
    let ctx = Ctx::new(report.clone());
    let get = Op::Task(TaskOp::Get { id: id.clone() });
    let reading = runtime.engine().reading().await;
    let task = match runtime.call(Call { op: get, ctx: ctx.clone() }).await {
        Outcome::Task(task) => *task,
        other => return (other, reading),
    };
    report.relates_to(&id, task.progress.as_deref());
    let engine = runtime.engine();
    let grown = engine.watch(&id);
    let seen = engine.news_after(&id, 0).await.last().map_or(0, |(at, _)| *at);
    let (asked, asking, status) = (HashSet::new(), FuturesUnordered::new(), task.status);
    let waiting = Awaited { report, engine, ctx, revision, id, grown, seen, asked, asking, status };
    waiting.result(task, reading).await
}

/// The right to have a whole task in memory.
type Reading = Option<OwnedSemaphorePermit>;

/// A task whose result a client waits for.
struct Awaited<'a> {
    report: &'a Arc<Report>,
    engine: &'a Engine,
    ctx: Ctx,
    revision: Revision,
    id: String,
    grown: BoxStream<'static, ()>,
    /// The position of what was told last.
    seen: u64,
    /// Keys of the questions that were put to the client.
    asked: HashSet<String>,
    /// Those that it has not answered yet.
    asking: FuturesUnordered<BoxFuture<'static, (String, Said)>>,
    /// What the client was told of the task last.
    status: TaskStatus,
}

impl Awaited<'_> {
    async fn result(mut self, mut task: Task, mut reading: Reading) -> (Outcome, Reading) {
        loop {
            tell(self.report, &self.engine.news_after(&self.id, self.seen).await, &mut self.seen);
            match task.end.take() {
                Some(End::Tool(output)) => return (Outcome::Tool(output), reading),
                Some(End::Fault(fault)) => return (Outcome::Fault(fault), reading),
                None if task.status.is_over() => {
                    let why = Fault::Over("the task was cancelled".to_owned());
                    return (Outcome::Fault(why), reading);
                }
                None => (),
            }
            self.ask(&task);
            self.tell_status(task);
            drop(reading);
            (task, reading) = match self.next().await {
                Ok(next) => next,
                Err(fault) => return (Outcome::Fault(fault), None),
            };
        }
    }

    /// Puts the questions of the task to the client, each once.
    fn ask(&mut self, task: &Task) {
        for (key, question) in &task.asked {
            if self.asked.insert(key.clone()) {
                let (report, key, question) = (self.report.clone(), key.clone(), question.clone());
                let answered = async move { (key, report.put_question(question).await) };
                self.asking.push(Box::pin(answered));
            }
        }
    }

    /// Tells the client how the task is, if that has changed.
    fn tell_status(&mut self, task: Task) {
        if std::mem::replace(&mut self.status, task.status) != task.status {
            let session = self.report.session();
            let told = session.and_then(|session| news(session, self.revision, task));
            told.into_iter().for_each(|frame| self.report.push(frame));
        }
    }

    /// The task after something has happened to it, or after a while.
    async fn next(&mut self) -> Result<(Task, Reading), Fault> {
        let principal = self.ctx.principal();
        loop {
            let is_late = tokio::select! {
                Some(()) = self.grown.next() => false,
                Some((key, reply)) = self.asking.next() => {
                    settle(self.engine, &self.id, &key, reply).await;
                    false
                }
                () = sleep(LOOK) => true,
            };
            let reading = self.engine.reading().await;
            let look = match is_late {
                true => look_after(&self.ctx, &self.id).await,
                false => self.engine.get(&self.id, principal).await,
            };
            match look {
                // The store will be back, or the client will give up.
                Err(Fault::Failed(_)) => (),
                look => return look.map(|task| (task, reading)),
            }
        }
    }
}

/// Writes down what the client says. Another may be asked if this one says nothing.
async fn settle(engine: &Engine, id: &str, key: &str, reply: Said) {
    let answer = match reply {
        Said::Answer(answer) => Ok(answer),
        Said::Refused(why) => Err(why),
        Said::Gone => return,
    };
    while let Err(error) = engine.settle(id, vec![(key, answer.clone())]).await {
        tracing::error!("an answer waits to be written: {error}");
        sleep(RETRY).await;
    }
}

fn tell(report: &Report, news: &[(u64, News)], seen: &mut u64) {
    for (at, one) in news {
        *seen = *at;
        match one {
            News::Changed => (),
            News::Progress(done, total, words) => report.progress(*done, *total, words.as_deref()),
            News::Log(level, logger, data) => report.log(*level, logger.as_deref(), data.clone()),
        }
    }
}

/// Tasks of one session, and which status its client was told of each.
#[derive(Debug, Default)]
pub(super) struct ToldTasks(VecDeque<(String, TaskStatus)>);

impl ToldTasks {
    /// Whether the client is still to be told that a task has a status. From now on it is not.
    pub(super) fn is_news(&mut self, task: &str, status: TaskStatus) -> bool {
        let known = self.0.iter().position(|(known, _)| known == task);
        let known = known.and_then(|at| self.0.remove(at));
        self.0.push_back((task.to_owned(), status));
        if self.0.len() > TOLD {
            self.0.pop_front();
        }
        known.is_none_or(|(_, known)| known != status)
    }
}

/// What tells a client of a task's status, if its session was not told of it before: on the stream
/// where it waits for the result, or on that of the session.
pub(super) fn news(session: &Session, revision: Revision, task: Task) -> Option<Frame> {
    let older = shown(revision, task).older();
    let is_news = session.is_news(&older.task_id, older.status);
    is_news.then(|| notification(Method::TaskStatus, &older))
}

/// A task as it is now and whenever it changes, until it is over or forgotten: what `show` makes of it.
pub(super) fn changes<F: Fn(Task) -> Frame + Send + 'static>(
    runtime: &Runtime,
    principal: Principal,
    id: String,
    show: F,
) -> impl Stream<Item = Frame> + Send + use<F> {
    let engine = runtime.engine().clone();
    let grown = engine.watch(&id);
    let watched = Watched { engine, grown, principal, id, last: None };
    futures_util::stream::unfold((watched, show), |(mut watched, show)| async move {
        let (task, _reading) = watched.next().await?;
        Some((show(task), (watched, show)))
    })
}

/// A task somebody watches.
struct Watched {
    engine: Arc<Engine>,
    grown: BoxStream<'static, ()>,
    principal: Principal,
    id: String,
    /// How it was told last.
    last: Option<(TaskStatus, SystemTime)>,
}

impl Watched {
    async fn next(&mut self) -> Option<(Task, Reading)> {
        if self.last.is_some_and(|(status, _)| status.is_over()) {
            return None;
        }
        loop {
            let reading = self.engine.reading().await;
            match self.engine.get(&self.id, &self.principal).await {
                Ok(task) if self.last != Some((task.status, task.updated)) => {
                    self.last = Some((task.status, task.updated));
                    return Some((task, reading));
                }
                Err(Fault::Unknown(_)) => return None,
                // The store may be away for a while.
                _ => drop(reading),
            }
            tokio::select! {
                Some(()) = self.grown.next() => (),
                () = sleep(LOOK) => (),
            }
        }
    }
}

/// A message about a task says so, until 2025-11-25.
pub(super) fn related(id: &str) -> Value {
    json!({ "taskId": id })
}

/// The result of a task is about it.
pub(super) fn relate(reply: &mut Reply, id: &str) {
    let key = zcp_wire::mcp::tasks::RELATED.to_owned();
    reply.meta.extra.insert(key, related(id));
}

/// What a call's progress is reported under, and the task it is.
#[derive(Debug)]
pub(super) struct Related {
    pub(super) id: String,
    pub(super) progress: Option<ByteString>,
}
