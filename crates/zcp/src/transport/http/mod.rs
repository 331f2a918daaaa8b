//! HTTP: every wire a web server can carry, on one port.

mod accept;
mod body;
mod connection_slots;
mod endpoints;
mod event_stream;
mod exchange;
mod fetch;
mod host_check;
mod idle;
mod json_answer;
mod open_files;
mod opened;
mod replay;
mod resume;
mod sessions;
mod sse2024;
mod takeover;
mod unread;
#[cfg(feature = "ws")]
mod ws;
#[path = "without_ws.rs"]
#[cfg(not(feature = "ws"))]
mod ws;

use super::Transport;
use crate::{
    protocol::mcp::{Mcp, session::Session},
    runtime::Runtime,
    store::{
        Bound, StoreResult,
        counted_logs::{CountedLogs, Log},
    },
};
use ::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::{
    Router,
    body::Body,
    extract::Request,
    middleware,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use bytes::Bytes;
use host_check::Guard;
use hyper::body::Incoming;
use idle::Watch;
use sessions::Sessions;
use std::{
    convert::Infallible, fmt, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration,
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

/// Streamable HTTP on `/mcp`, WebSocket on `/ws`, HTTP+SSE of 2024-11-05 on `/sse`, and pages for
/// those who operate the server: `/healthz`, `/readyz`, `/metadata`, `/metrics`.
///
/// ```no_run
/// # async fn serve() -> Result<(), zcp::Error> {
/// use zcp::{Http, Server};
///
/// Server::new("demo").serve(Http::new(([127, 0, 0, 1], 8787))).await
/// # }
/// ```
pub struct Http {
    place: Place,
    guard: Guard,
    limits: Limits,
    disabled: Vec<Endpoint>,
    session_header: HeaderName,
    layers: Vec<Wrap>,
}

type Wrap = Box<dyn FnOnce(Router) -> Router + Send>;

enum Place {
    Tcp(SocketAddr),
    Listener(TcpListener),
    Unix(PathBuf, u32),
}

/// What an [`Http`] server serves and can be told not to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// `/mcp`: Streamable HTTP.
    Mcp,
    /// `/ws`: WebSocket.
    WebSocket,
    /// `/sse` and `/messages`: HTTP+SSE of 2024-11-05.
    Sse,
    /// `/metadata`: what the server is and speaks.
    Metadata,
    /// `/metrics`: counters for Prometheus.
    Metrics,
}

impl Endpoint {
    const ALL: [Self; 5] = [Self::Mcp, Self::WebSocket, Self::Sse, Self::Metadata, Self::Metrics];
}

/// How much and how long a client may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) body: usize,
    pub(crate) headers: usize,
    pub(crate) read: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) connections: usize,
    pub(crate) sessions: usize,
    pub(crate) per_address: Option<usize>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 4 * 1024 * 1024,
            headers: 64 * 1024,
            read: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            connections: 16 * 1024,
            sessions: 100_000,
            per_address: None,
        }
    }
}

/// What every route shares.
pub(crate) struct Shared {
    pub(crate) runtime: Runtime,
    pub(crate) stateless: Mcp,
    pub(crate) sessions: Sessions,
    pub(crate) limits: Limits,
    /// What is served beside health and readiness.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) session_header: HeaderName,
    /// The server is going: what would never end by itself ends now.
    pub(crate) closing: CancellationToken,
    pub(crate) tracker: TaskTracker,
}

impl Shared {
    /// Appends to a log of a conversation, which is kept as long as its session.
    pub(crate) async fn append(
        &self,
        session: &Session,
        name: &str,
        entry: Bytes,
        bound: Bound,
    ) -> StoreResult<u64> {
        let (store, kept) = (&*self.runtime.store, self.runtime.settings.session_ttl);
        let log = Log { name, bound, kept, owner: &session.share() };
        self.runtime.shelf::<CountedLogs>().append(store, log, entry).await
    }
}

impl Http {
    /// On an address. On a loopback address only this machine's own pages and programs may use
    /// it, until [`allow_host`](Self::allow_host) and [`allow_origin`](Self::allow_origin) say
    /// otherwise.
    pub fn new(address: impl Into<SocketAddr>) -> Self {
        let address = address.into();
        Self::at(Place::Tcp(address), Guard::for_address(address))
    }

    /// On a listener that is bound already.
    pub fn on(listener: TcpListener) -> io::Result<Self> {
        let guard = Guard::for_address(listener.local_addr()?);
        Ok(Self::at(Place::Listener(listener), guard))
    }

    /// On a Unix socket, which is created with mode 0600 and removed when the server ends. See
    /// [`unix_mode`](Self::unix_mode).
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::at(Place::Unix(path.into(), 0o600), Guard::for_socket())
    }

    /// Permissions of the Unix socket. Default: `0o600`, so that only the server's own user can
    /// connect. Set `0o660` for a proxy in the socket's group.
    #[must_use]
    pub fn unix_mode(mut self, mode: u32) -> Self {
        if let Place::Unix(_, permissions) = &mut self.place {
            *permissions = mode & 0o777;
        }
        self
    }

    fn at(place: Place, guard: Guard) -> Self {
        let session_header = HeaderName::from_static("x-zcp-session");
        let (limits, disabled, layers) = (Limits::default(), vec![], vec![]);
        Self { place, guard, limits, disabled, session_header, layers }
    }

    /// Also answers requests for this host, such as `mcp.example.com`.
    #[must_use]
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.guard.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Also answers pages of this origin, such as `https://app.example.com`.
    #[must_use]
    pub fn allow_origin(mut self, origin: impl Into<String>) -> Self {
        self.guard.origins.push(origin.into().to_ascii_lowercase());
        self
    }

    /// Does not serve an endpoint: requests to it get 404. Default: all are served. `/healthz` and
    /// `/readyz` always are.
    ///
    /// ```
    /// use zcp::{Endpoint, Http};
    ///
    /// let http = Http::new(([127, 0, 0, 1], 8787));
    /// let http = http.disable(Endpoint::Sse).disable(Endpoint::Metadata);
    /// ```
    #[must_use]
    pub fn disable(mut self, endpoint: Endpoint) -> Self {
        self.disabled.push(endpoint);
        self
    }

    /// The largest body: 4 MiB unless said otherwise.
    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.limits.body = bytes;
        self
    }

    /// Maximum number of open connections, WebSockets included. Default: 16,384. Further
    /// connections wait until one is closed. The last sixteenth is reserved for addresses with
    /// fewer than eight connections; others get 503.
    #[must_use]
    pub fn max_connections(mut self, limit: usize) -> Self {
        self.limits.connections = limit;
        self
    }

    /// Maximum number of open connections from one address, or from one /64 network of IPv6.
    /// Default: an eighth of [`max_connections`](Self::max_connections), and no limit for
    /// connections from this machine, because a proxy may make them. Further connections get 503.
    ///
    /// Behind a proxy on another machine all clients share the proxy's address: set this to
    /// what the proxy may use.
    #[must_use]
    pub fn max_connections_per_address(mut self, limit: usize) -> Self {
        self.limits.per_address = Some(limit);
        self
    }

    /// How long a client may take to send a request: 30 seconds unless said otherwise. One timer
    /// watches all connections, so whoever stalls or idles is let go after one to two times that.
    #[must_use]
    pub fn read_timeout(mut self, limit: Duration) -> Self {
        self.limits.read = limit;
        self
    }

    /// How long a stream may be quiet before it says that it is still there: 15 seconds unless
    /// said otherwise.
    #[must_use]
    pub fn keep_alive(mut self, every: Duration) -> Self {
        self.limits.keep_alive = every;
        self
    }

    /// The maximum number of sessions that this process opens and keeps. Default: 100,000. Beyond it
    /// the oldest session without a call or a stream under way ends.
    #[must_use]
    pub fn max_sessions(mut self, sessions: usize) -> Self {
        self.limits.sessions = sessions.max(1);
        self
    }

    /// A second name for the session header, beside `Mcp-Session-Id`: `x-zcp-session` unless said
    /// otherwise.
    #[must_use]
    pub fn session_header(mut self, name: HeaderName) -> Self {
        self.session_header = name;
        self
    }

    /// Adds a layer around every route: authentication, CORS, tracing. Last added, first run. A
    /// layer that inserts a [`Principal`](crate::Principal) into the request's extensions says
    /// who calls.
    #[must_use]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: tower::Layer<axum::routing::Route> + Clone + Send + Sync + 'static,
        L::Service: tower::Service<
                Request,
                Response: IntoResponse + 'static,
                Error: Into<Infallible> + 'static,
                Future: Send + 'static,
            > + Clone
            + Send
            + Sync
            + 'static,
    {
        self.layers.push(Box::new(move |router| router.layer(layer)));
        self
    }

    /// The routes, to be part of an axum program. `closing` ends the streams that would never end
    /// by themselves.
    pub fn into_router(self, runtime: Runtime, closing: CancellationToken) -> Router {
        let door = self.door(runtime, closing, TaskTracker::new());
        let guard = door.guard;
        door.router.layer(middleware::from_fn(move |request: Request, next: middleware::Next| {
            let refusal = guard.refuse(&request);
            async move {
                match refusal {
                    Some(refusal) => refusal,
                    None => next.run(request).await,
                }
            }
        }))
    }

    fn door(self, runtime: Runtime, closing: CancellationToken, tracker: TaskTracker) -> Door {
        let endpoints = Endpoint::ALL.into_iter().filter(|one| !self.disabled.contains(one));
        let endpoints: Vec<Endpoint> = endpoints.collect();
        let has_mcp = endpoints.contains(&Endpoint::Mcp);
        let shared = Arc::new(Shared {
            stateless: Mcp::stateless(runtime.clone(), closing.clone()),
            sessions: Sessions::new(runtime.clone(), closing.clone(), self.limits.sessions),
            limits: self.limits,
            endpoints: endpoints.clone(),
            session_header: self.session_header,
            runtime,
            closing,
            tracker,
        });
        let router = Router::new()
            .route("/healthz", get(endpoints::health))
            .route("/readyz", get(endpoints::ready));
        let router = endpoints.into_iter().fold(router, |router, endpoint| match endpoint {
            Endpoint::Mcp => router.route(MCP, any(exchange::route_to)),
            Endpoint::WebSocket => router.route(WS, get(ws::upgrade)),
            Endpoint::Sse => {
                router.route("/sse", get(sse2024::open)).route("/messages", post(sse2024::post))
            }
            Endpoint::Metadata => router.route("/metadata", get(endpoints::metadata)),
            Endpoint::Metrics => router.route("/metrics", get(endpoints::metrics)),
        });
        let router = router.with_state(shared.clone());
        Door {
            guard: Arc::new(self.guard),
            direct: (has_mcp && self.layers.is_empty()).then_some(shared),
            router: self.layers.into_iter().fold(router, |router, layer| layer(router)),
        }
    }
}

/// Where requests for the protocol itself go.
const MCP: &str = "/mcp";
/// Where WebSockets are opened.
const WS: &str = "/ws";

/// The way in: whoever may not knock is turned away, and the rest goes to the routes. What the
/// protocol's own endpoint gets passes by the router when no layer is to see it: that is a tenth
/// of a small call's instructions.
#[derive(Clone)]
struct Door {
    guard: Arc<Guard>,
    direct: Option<Arc<Shared>>,
    router: Router,
}

impl Door {
    async fn answer(
        self,
        mut request: ::http::Request<Incoming>,
        watch: Arc<Watch>,
    ) -> Result<Response, Infallible> {
        watch.begun();
        let response = match (self.guard.refuse(&request), self.direct) {
            (Some(refusal), _) => refusal,
            (None, Some(shared)) if request.uri().path() == MCP => {
                exchange::exchange(&shared, request, Some(&watch)).await
            }
            _ => {
                if let Some(address) = watch.peer() {
                    request.extensions_mut().insert(address);
                }
                if request.uri().path() == WS {
                    request.extensions_mut().insert(watch.occupied());
                }
                self.router.oneshot(request.map(Body::new)).await?
            }
        };
        Ok(watch.answered(response))
    }
}

impl Transport for Http {
    async fn serve(mut self, runtime: Runtime, stop: CancellationToken) -> io::Result<()> {
        let place = std::mem::replace(&mut self.place, Place::Unix(PathBuf::new(), 0));
        let limits = self.limits;
        self.guard.strict = true;
        let (closing, tracker) = (stop.clone(), TaskTracker::new());
        let connections = runtime.metrics.connections.clone();
        let door = self.door(runtime, closing, tracker.clone());
        let serving = accept::Serving { door, limits, stop, tracker, connections };
        match place {
            Place::Tcp(address) => {
                let bound = TcpListener::bind(address).await;
                let bound = bound.map_err(|error| accept::cannot_listen(address, &error))?;
                serving.tcp(bound).await
            }
            Place::Listener(listener) => serving.tcp(listener).await,
            Place::Unix(path, mode) => serving.unix(&path, mode).await,
        }
    }
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// An error of the wire itself, in words.
fn refusal(status: ::http::StatusCode, why: &str) -> Response {
    let error = zcp_wire::RpcError::invalid_request(why);
    json_answer::error(status, None, error)
}

/// There is no room now.
fn busy(why: &str) -> Response {
    let mut response = refusal(StatusCode::SERVICE_UNAVAILABLE, why);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
