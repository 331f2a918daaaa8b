//! How long clients may take to send a request, and when connections are to end: one timer for the
//! whole server. A timer for every request was a twentieth of a small call's instructions.

use super::{Limits, connection_slots::Slot};
use crate::{auth::PeerAddress, protocol::mcp::shared, runtime::metrics::Counted, sync::lock};
use ::http::{Extensions, Response};
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use hyper::body::{Frame, SizeHint};
use std::{
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

/// Bytes of an answer that the system takes at once, whether or not the client reads them.
const AT_ONCE: u64 = 16 * 1024;

/// What a connection takes of the server while it is there.
pub(super) type Held = (Slot, Arc<Counted>);

/// Keeps the place of a connection that was upgraded, and has left the web server's hands.
#[derive(Clone)]
pub(crate) struct Occupied {
    _watch: Arc<Watch>,
}

/// What a connection waits for. It and the watch of all connections share this.
pub(super) struct Watch {
    peer: Option<SocketAddr>,
    /// What a message carries that says nothing of its own: made once, since most are such.
    carried: OnceLock<Arc<Extensions>>,
    _held: Held,
    phase: AtomicU8,
    /// Counts phases, so that a quiet time can be told from a busy one.
    steps: AtomicU64,
    seen: AtomicU64,
    late: AtomicBool,
    stopping: AtomicBool,
    waker: AtomicWaker,
}

/// For the client's next request.
const REQUEST: u8 = 0;
/// For the rest of its body.
const BODY: u8 = 1;
/// For this server.
const ANSWER: u8 = 2;
/// For the client to read a large part of an answer.
const READ: u8 = 3;

impl Watch {
    fn enter(&self, phase: u8) {
        self.phase.store(phase, Ordering::Relaxed);
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// The address the connection comes from.
    pub(super) fn peer(&self) -> Option<PeerAddress> {
        self.peer.map(PeerAddress)
    }

    /// What a message of this connection carries: what it brought, and where it comes from.
    pub(super) fn carry(&self, mut extensions: Extensions) -> Arc<Extensions> {
        let Some(peer) = self.peer() else { return shared(extensions) };
        if !extensions.is_empty() {
            extensions.insert(peer);
            return Arc::new(extensions);
        }
        let carried = self.carried.get_or_init(|| {
            extensions.insert(peer);
            Arc::new(extensions)
        });
        carried.clone()
    }

    /// Keeps the connection's place.
    pub(super) fn occupied(self: &Arc<Self>) -> Occupied {
        Occupied { _watch: self.clone() }
    }

    /// A request came; the server works on it.
    pub(super) fn begun(&self) {
        // Whoever sends another request in the last moment is not late with it.
        self.late.store(false, Ordering::Relaxed);
        self.enter(ANSWER);
    }

    /// A body is awaited, and then it is there.
    pub(super) fn awaits_body(&self, awaits: bool) {
        self.enter(if awaits { BODY } else { ANSWER });
    }

    /// A response is ready; the request is over when its client has it.
    pub(super) fn answered(self: Arc<Self>, response: Response<Body>) -> Response<Body> {
        if response.body().size_hint().exact().is_some_and(|length| length <= AT_ONCE) {
            self.enter(REQUEST);
            return response;
        }
        response.map(|body| Body::new(Watched { body, watch: self }))
    }

    /// Whether the client has taken too long to send what it began.
    pub(super) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Whether the client has taken too long to send another request, or to read an answer. Wakes `context` when this
    /// or [`is_stopping`](Self::is_stopping) changes.
    pub(super) fn is_idle(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        self.is_late() && matches!(self.phase.load(Ordering::Relaxed), REQUEST | READ)
    }

    /// Whether the connection is to end after what is under way; true only once.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) && self.stopping.swap(false, Ordering::Relaxed)
    }

    /// Notes that time has passed.
    fn tick(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        let quiet = self.seen.swap(steps, Ordering::Relaxed) == steps;
        if quiet && self.phase.load(Ordering::Relaxed) != ANSWER {
            self.late.store(true, Ordering::Relaxed);
            self.waker.wake();
        }
    }
}

/// Everybody who is connected.
#[derive(Default)]
pub(super) struct Connected(Mutex<Vec<Weak<Watch>>>);

impl Connected {
    pub(super) fn add(&self, peer: Option<SocketAddr>, held: Held) -> Arc<Watch> {
        let watch = Arc::new(Watch {
            peer,
            carried: OnceLock::new(),
            _held: held,
            phase: AtomicU8::new(REQUEST),
            steps: AtomicU64::new(1),
            seen: AtomicU64::new(0),
            late: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        let mut all = self.lock();
        if all.len() == all.capacity() {
            all.retain(|watch| watch.strong_count() > 0);
        }
        all.push(Arc::downgrade(&watch));
        watch
    }

    /// To be called as often as [`Limits::read`] says.
    pub(super) fn tick(&self) {
        let mut all = self.lock();
        all.retain(|watch| watch.strong_count() > 0);
        let half = all.capacity() / 2;
        all.shrink_to(half);
        all.iter().filter_map(Weak::upgrade).for_each(|watch| watch.tick());
    }

    /// Connections end after what they have under way.
    pub(super) fn stop(&self) {
        for watch in self.lock().iter().filter_map(Weak::upgrade) {
            watch.stopping.store(true, Ordering::Relaxed);
            watch.waker.wake();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Watch>>> {
        lock(&self.0)
    }
}

/// A timer for [`Connected::tick`].
pub(super) fn timer(limits: &Limits) -> tokio::time::Interval {
    let mut timer = tokio::time::interval(limits.read.max(std::time::Duration::from_millis(1)));
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    timer
}

/// A body that is on its way until it is dropped.
struct Watched {
    body: Body,
    watch: Arc<Watch>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        // The web server asks for more only when most of this is sent.
        self.watch.enter(if polled.is_pending() { ANSWER } else { READ });
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.enter(REQUEST);
    }
}
