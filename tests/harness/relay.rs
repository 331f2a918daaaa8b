//! A relay of connections to a server, which can lose what it is given.

use crate::http::free_address;
use futures_util::{StreamExt, stream::FuturesUnordered};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// A relay on a port of this machine.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Mutex<Shared>>,
    _served: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    target: String,
    /// All connections there were.
    lines: Vec<Arc<Line>>,
}

/// What becomes of a connection.
#[derive(Debug, Default)]
struct Line {
    loses_to_server: AtomicBool,
    loses_to_client: AtomicBool,
    cut: CancellationToken,
}

impl Relay {
    /// A relay to a server.
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    pub async fn new(target: impl ToString) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Mutex::new(Shared { target: target.to_string(), lines: vec![] }));
        let served = tokio::spawn(serve(listener, shared.clone()));
        Self { address, shared, _served: AbortOnDropHandle::new(served) }
    }

    /// Where a WebSocket client finds the server.
    pub fn ws(&self) -> String {
        format!("ws://{}/ws", self.address)
    }

    /// Leads new connections to another server.
    pub fn lead_to(&self, target: impl ToString) {
        self.lock().target = target.to_string();
    }

    /// Leads new connections to nobody.
    pub fn lead_nowhere(&self) {
        self.lead_to(free_address());
    }

    /// Ends all connections without a word.
    pub fn cut(&self) {
        self.lock().lines.iter().for_each(|line| line.cut.cancel());
    }

    /// Loses what the clients of these connections say from now on.
    pub fn lose_to_server(&self) {
        self.lock()
            .lines
            .iter()
            .for_each(|line| line.loses_to_server.store(true, Ordering::SeqCst));
    }

    /// Loses what the server says on these connections from now on.
    pub fn lose_to_client(&self) {
        self.lock()
            .lines
            .iter()
            .for_each(|line| line.loses_to_client.store(true, Ordering::SeqCst));
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.lock().lines.len()
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().expect("no panic")
    }
}

async fn serve(listener: TcpListener, shared: Arc<Mutex<Shared>>) {
    let mut lines = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (client, _) = accepted.expect("a connection");
                let line = Arc::new(Line::default());
                let target = {
                    let mut shared = shared.lock().expect("no panic");
                    shared.lines.push(line.clone());
                    shared.target.clone()
                };
                lines.push(relay(client, target, line));
            }
            Some(()) = lines.next() => (),
        }
    }
}

async fn relay(client: TcpStream, target: String, line: Arc<Line>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        () = pass(from_client, to_server, &line.loses_to_server) => (),
        () = pass(from_server, to_client, &line.loses_to_client) => (),
        () = line.cut.cancelled() => (),
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, loses: &AtomicBool) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if !loses.load(Ordering::SeqCst) && to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
