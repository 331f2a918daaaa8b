//! Who is calling, in which revision, and for what. Every question about eras is answered here.

use super::{
    Mcp, capabilities, handshake, headers,
    operation::operation,
    retry::Retry,
    session::{Remember, Session},
    tasks::{self, Design},
};
use crate::{
    auth::Principal,
    runtime::{Runtime, call::Op, tasks::Wish},
    sync::lock,
};
use bytestring::ByteString;
use http::{Extensions, HeaderMap};
use std::sync::{Arc, Mutex};
use zcp_wire::{
    Frame, Message, Method, Request, Revision, RpcError,
    header::PROTOCOL_VERSION,
    mcp::{
        Body, Reply,
        capabilities::ClientCapabilities,
        lifecycle::{Implementation, InitializeParams},
        logging::Level,
        subscriptions::Filter,
    },
    meta::{self, Trace},
    params::{Params, member, text},
    revision::{Era, Questions},
};

/// Bytes a session remembers of its client.
const LARGEST_HANDSHAKE: usize = 16 * 1024;

/// A request that was understood.
pub(super) struct Entered {
    pub(super) entry: Entry,
    pub(super) client: Client,
    pub(super) step: Step,
}

/// How a message is to be understood. Found out here, once; nobody below asks again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) revision: Revision,
    pub(super) questions: Questions,
    /// None for what is done without a method: a response, a stream that is opened.
    pub(super) method: Option<Method>,
}

impl Entry {
    /// Of a conversation that a handshake opens.
    pub(super) fn in_session(revision: Revision, method: Option<Method>) -> Self {
        Self { revision, questions: Era::Handshake.questions(), method }
    }

    fn stateless(revision: Revision, method: Method) -> Self {
        Self { revision, questions: Era::Stateless.questions(), method: Some(method) }
    }
}

/// What is known of the client that sent a request.
#[derive(Default)]
pub(super) struct Client {
    pub(super) capabilities: Arc<ClientCapabilities>,
    /// Who it said it is in its handshake.
    pub(super) info: Option<Arc<Implementation>>,
    /// The least serious log message it wants.
    pub(super) level: Option<Level>,
    /// What it wants progress reported under: JSON text.
    pub(super) progress: Option<ByteString>,
    pub(super) trace: Option<Box<Trace>>,
    pub(super) params: Option<ByteString>,
    /// What it thinks of tasks.
    pub(super) task: Wish,
}

/// What clients declare, read once for all requests that declare the same: a client says it with
/// every request.
#[derive(Debug, Default)]
pub(super) struct Clients {
    last: Mutex<Option<(String, Arc<ClientCapabilities>)>>,
}

impl Clients {
    fn capabilities(&self, declared: Option<&str>) -> Result<Arc<ClientCapabilities>, RpcError> {
        let last = || lock(&self.last);
        if let (Some((text, read)), Some(declared)) = (&*last(), declared)
            && text == declared
        {
            return Ok(read.clone());
        }
        if declared.is_some_and(|text| text.len() > LARGEST_HANDSHAKE) {
            return Err(RpcError::invalid_params(format!(
                "`{}` may have {LARGEST_HANDSHAKE} bytes at most",
                meta::CLIENT_CAPABILITIES
            )));
        }
        let mut read: ClientCapabilities = member(meta::CLIENT_CAPABILITIES, declared)?;
        handshake::shrink(&mut read);
        let read = Arc::new(read);
        *last() = declared.map(|text| (text.to_owned(), read.clone()));
        Ok(read)
    }
}

/// What is to be done.
pub(super) enum Step {
    /// It is done.
    Reply(Box<Reply>),
    /// It was understood, and cannot be done.
    Fail(RpcError),
    /// Run it; with what an earlier run asked for, where the era works so.
    Call(Op, Option<Retry>),
    /// Wait for a task.
    Await(String),
    /// Do it if the layers allow the operation.
    Guarded(Op, Then),
}

/// What is done once an operation is allowed.
pub(super) enum Then {
    /// Say what the server offers.
    Discover,
    /// Open the conversation.
    Open(Box<InitializeParams>),
    /// Tell of changes from now on.
    Listen(Filter),
    /// Tell the session when a resource changes, if there is such a resource.
    Subscribe(String),
    /// Note it for the session.
    Remember(Remember),
}

/// Which conversation an HTTP body belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// To none: it says everything itself.
    Stateless,
    /// It opens one.
    Open,
    /// To the one its session header names.
    Session,
}

/// Routes by the body first; the version header decides for what has no body to say.
pub(crate) fn route(
    message: &Message,
    params: &Params<'_>,
    headers: &HeaderMap,
    runtime: &Runtime,
) -> Result<Route, RpcError> {
    let named = if params.says_version() { Ok(None) } else { named_revision(headers) };
    let is_modern = matches!(named, Ok(Some(revision)) if revision.era() == Era::Stateless);
    let stateless = params.says_version() || is_modern;
    Ok(match message {
        Message::One(Frame::Request(_) | Frame::Notification(_)) if stateless => Route::Stateless,
        Message::One(Frame::Request(request)) if request.method.is(Method::Initialize) => {
            Route::Open
        }
        Message::One(Frame::Request(_)) if !runtime.settings.handshake => Route::Stateless,
        Message::One(Frame::Response(_)) | Message::Batch(_) if stateless => {
            let why = "a body is one request or notification since 2026-07-28";
            return Err(RpcError::invalid_request(why));
        }
        _ => named.map(|_| Route::Session)?,
    })
}

/// The revision that a request's header names, if there is one. None at all is what clients of
/// 2025-03-26 send: the session knows what they speak.
fn named_revision(headers: &HeaderMap) -> Result<Option<Revision>, RpcError> {
    let Some(header) = headers.get(&PROTOCOL_VERSION) else {
        return Ok(None);
    };
    let named = header.to_str().ok().and_then(|version| Revision::parse(version.trim()));
    named.map(Some).ok_or_else(|| {
        let version = String::from_utf8_lossy(header.as_bytes());
        let known = Revision::ALL.map(Revision::as_str).join(", ");
        RpcError::invalid_request(format!(
            "MCP-Protocol-Version `{version}` is not supported: use one of {known}"
        ))
    })
}

/// Refuses a request of a session whose header names an unknown revision.
pub(crate) fn check_session_version(headers: &HeaderMap) -> Result<(), RpcError> {
    named_revision(headers).map(drop)
}

/// A request as it came in.
struct Incoming<'a> {
    mcp: &'a Mcp,
    request: &'a Request,
    params: &'a Params<'a>,
    headers: Option<&'a HeaderMap>,
    extensions: &'a Extensions,
}

pub(super) fn enter(
    mcp: &Mcp,
    request: &Request,
    params: &Params<'_>,
    headers: Option<&HeaderMap>,
    extensions: &Extensions,
) -> Result<Entered, RpcError> {
    let incoming = Incoming { mcp, request, params, headers, extensions };
    let version = params.meta.as_ref().and_then(|meta| meta.version);
    match (version, &mcp.session) {
        (Some(version), _) => incoming.enter_stateless(version),
        (None, Some(session))
            if mcp.runtime.settings.handshake || request.method.is(Method::Initialize) =>
        {
            incoming.enter_session(session)
        }
        (None, _) => Err(RpcError::invalid_params(format!(
            "`params._meta` must have `{}` and `{}`",
            meta::PROTOCOL_VERSION,
            meta::CLIENT_CAPABILITIES
        ))),
    }
}

impl Incoming<'_> {
    /// Since 2026-07-28: the request says everything, and its headers say the same.
    fn enter_stateless(&self, version: &str) -> Result<Entered, RpcError> {
        let Self { mcp, request, params, .. } = *self;
        let version = text(meta::PROTOCOL_VERSION, Some(version))?;
        let meta = params.meta.as_ref();
        let capabilities = mcp.clients.capabilities(meta.and_then(|meta| meta.capabilities))?;
        if meta.and_then(|meta| meta.client_info).is_some_and(|info| !info.starts_with('{')) {
            let why = format!("`{}` is not an object", meta::CLIENT_INFO);
            return Err(RpcError::invalid_params(why));
        }
        let says_version = match self.headers {
            Some(headers) => headers::check_version(headers, &version)?,
            None => false,
        };
        let revision = Revision::parse(&version)
            .filter(|revision| revision.era() == Era::Stateless)
            .ok_or_else(|| RpcError::unsupported_version(&version, &Revision::STATELESS))?;
        if let Some(headers) = self.headers {
            headers::check_names(headers, says_version, &request.method, params)?;
        }
        let method = offered(mcp, revision, request)?;
        let mut client = Client {
            capabilities,
            info: None,
            level: meta.map_or(Ok(None), |meta| meta.level())?,
            progress: token(request, params),
            params: request.params.clone(),
            trace: meta.and_then(|meta| meta.trace()).map(Box::new),
            task: Wish::Unable,
        };
        if method == Method::CallTool {
            client.task = tasks::welcome(&client);
        }
        let step = self.stateless_step(method, &client)?;
        Ok(Entered { entry: Entry::stateless(revision, method), client, step })
    }

    /// What a method asks for since 2026-07-28.
    fn stateless_step(&self, method: Method, client: &Client) -> Result<Step, RpcError> {
        let Self { mcp, params, .. } = *self;
        Ok(match method {
            Method::Discover => Step::Guarded(Op::Open, Then::Discover),
            Method::GetTask | Method::UpdateTask | Method::CancelTask => {
                tasks::check_extension(client)?;
                match tasks::operation(mcp, method, params, Design::Looked) {
                    Ok(op) => Step::Call(Op::Task(op), None),
                    Err(error) => Step::Fail(error),
                }
            }
            Method::Listen => {
                let wanted: Filter = member("notifications", params.notifications)?;
                if !wanted.task_ids.is_empty() {
                    tasks::check_extension(client)?;
                }
                let filter = capabilities::honoured(&mcp.runtime, wanted);
                let op = Op::Listen { uris: filter.resource_subscriptions.clone() };
                Step::Guarded(op, Then::Listen(filter))
            }
            _ => return self.stateless_call(method),
        })
    }

    /// A method that both eras have, with what an earlier run of it asked for.
    fn stateless_call(&self, method: Method) -> Result<Step, RpcError> {
        let Self { mcp, request, params, extensions, .. } = *self;
        let op = match operation(mcp, method, request, params, extensions) {
            Ok(op) => op,
            Err(error) => return Ok(Step::Fail(error)),
        };
        if let (Some(headers), Op::CallTool { name, args }) = (self.headers, &op) {
            headers::check_mirrored(headers, &mcp.runtime, name, args.as_deref())?;
        }
        Ok(match Retry::open(&mcp.runtime, &op, params, &Principal::of(extensions)) {
            Ok(retry) => Step::Call(op, retry),
            Err(error) => Step::Fail(error),
        })
    }

    /// Until 2025-11-25: the handshake said it, and the session remembers.
    fn enter_session(&self, session: &Session) -> Result<Entered, RpcError> {
        let Self { mcp, request, params, .. } = *self;
        session.count_for(self.extensions);
        if request.method.is(Method::Initialize) {
            return open(mcp, request, params);
        }
        let Some(handshake) = session.handshake() else {
            return unopened(request);
        };
        let revision = handshake.revision;
        let method = offered(mcp, revision, request)?;
        let mut client = Client {
            capabilities: handshake.capabilities.clone(),
            info: Some(handshake.client.clone()),
            level: Some(session.level()),
            progress: token(request, params),
            params: request.params.clone(),
            trace: params.meta.as_ref().and_then(|meta| meta.trace()).map(Box::new),
            task: Wish::Unasked,
        };
        let asks = method == Method::CallTool && revision.asks_for_tasks();
        if let Some(task) = params.task.filter(|_| asks) {
            client.task = tasks::wish(mcp, &client, task);
        }
        let step = self.session_step(method)?;
        Ok(Entered { entry: Entry::in_session(revision, Some(method)), client, step })
    }

    /// What a method asks for until 2025-11-25.
    fn session_step(&self, method: Method) -> Result<Step, RpcError> {
        let Self { mcp, request, params, extensions, .. } = *self;
        Ok(match method {
            Method::TaskResult => Step::Await(text("taskId", params.task_id)?.into_owned()),
            Method::GetTask | Method::CancelTask | Method::ListTasks => {
                Step::Call(Op::Task(tasks::operation(mcp, method, params, Design::Asked)?), None)
            }
            Method::Ping => Step::Reply(Box::new(Reply::new(Body::Empty {}))),
            Method::SetLevel => {
                let level = member("level", params.level).map_err(|_| {
                    let names = Level::NAMES.join(", ");
                    RpcError::invalid_params(format!("`level` must be one of {names}"))
                })?;
                Step::Guarded(Op::SetLevel { level }, Then::Remember(Remember::Level(level)))
            }
            Method::Subscribe => {
                let uri = text("uri", params.uri)?.into_owned();
                Step::Guarded(Op::Subscribe { uri: uri.clone() }, Then::Subscribe(uri))
            }
            Method::Unsubscribe => {
                let uri = text("uri", params.uri)?.into_owned();
                let op = Op::Unsubscribe { uri: uri.clone() };
                Step::Guarded(op, Then::Remember(Remember::Unsubscribe(uri)))
            }
            _ => Step::Call(operation(mcp, method, request, params, extensions)?, None),
        })
    }
}

/// A request before the handshake. Some clients send a ping then.
fn unopened(request: &Request) -> Result<Entered, RpcError> {
    if !request.method.is(Method::Ping) {
        return Err(RpcError::invalid_request(
            "the conversation is not open: send `initialize` first, or name a revision in `_meta`",
        ));
    }
    Ok(Entered {
        entry: Entry::in_session(Revision::LATEST_HANDSHAKE, Some(Method::Ping)),
        client: Client::default(),
        step: Step::Reply(Box::new(Reply::new(Body::Empty {}))),
    })
}

fn open(mcp: &Mcp, request: &Request, params: &Params<'_>) -> Result<Entered, RpcError> {
    let offer = text("protocolVersion", params.protocol_version)?;
    if !mcp.runtime.settings.handshake {
        return Err(RpcError::unsupported_version(&offer, &Revision::STATELESS));
    }
    let length = |raw: Option<&str>| raw.map_or(0, str::len);
    if length(params.capabilities) + length(params.client_info) > LARGEST_HANDSHAKE {
        return Err(RpcError::invalid_params(format!(
            "`capabilities` and `clientInfo` may have {LARGEST_HANDSHAKE} bytes at most"
        )));
    }
    let handshake = InitializeParams {
        capabilities: member("capabilities", params.capabilities)?,
        client_info: params
            .client_info
            .map_or(Ok(Default::default()), |raw| member("clientInfo", Some(raw)))?,
        protocol_version: offer.into_owned(),
    };
    let revision = Revision::negotiate(&handshake.protocol_version);
    let client = Client { params: request.params.clone(), ..Client::default() };
    let step = Step::Guarded(Op::Open, Then::Open(Box::new(handshake)));
    Ok(Entered { entry: Entry::in_session(revision, Some(Method::Initialize)), client, step })
}

/// The method of a request. Refuses one the revision does not have, or whose capability is not
/// offered.
fn offered(mcp: &Mcp, revision: Revision, request: &Request) -> Result<Method, RpcError> {
    let method = request.method.known();
    method
        .filter(|method| capabilities::offers(&mcp.runtime, revision, *method))
        .ok_or_else(|| RpcError::method_not_found(&request.method))
}

fn token(request: &Request, params: &Params<'_>) -> Option<ByteString> {
    let token = params.progress_token()?;
    Some(request.params.as_ref()?.slice_ref(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(body: &str, version: Option<&str>) -> Result<Route, RpcError> {
        let mut headers = HeaderMap::new();
        if let Some(version) = version {
            headers.insert(&PROTOCOL_VERSION, version.parse().unwrap());
        }
        let runtime = crate::Server::new("test").build().unwrap();
        let body = ByteString::from(body);
        let mut params = Params::default();
        let message = Message::read(&body, &mut params).unwrap();
        route(&message, &params, &headers, &runtime)
    }

    #[test]
    fn a_body_finds_its_conversation() {
        let modern = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let open = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
        let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let note = r#"{"jsonrpc":"2.0","method":"notifications/x"}"#;
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(routed(modern, None).unwrap(), Route::Stateless);
        assert_eq!(routed(open, None).unwrap(), Route::Open);
        assert_eq!(routed(open, Some("2025-11-25")).unwrap(), Route::Open);
        assert_eq!(routed(list, Some("2026-07-28")).unwrap(), Route::Stateless);
        assert_eq!(routed(list, None).unwrap(), Route::Session);
        assert_eq!(routed(note, Some("2026-07-28")).unwrap(), Route::Stateless);
        assert_eq!(routed(note, None).unwrap(), Route::Session);
        assert!(routed(answer, Some("2026-07-28")).is_err());
        assert_eq!(routed(answer, None).unwrap(), Route::Session);
    }
}
