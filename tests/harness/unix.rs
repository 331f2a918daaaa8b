//! A server on a Unix socket.

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::{net::UnixStream, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use zcp::{Http, Runtime, Transport};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A server on a Unix socket of its own.
#[derive(Debug)]
pub struct UnixServer {
    /// Where it listens.
    pub path: PathBuf,
    stop: CancellationToken,
    served: AbortOnDropHandle<()>,
}

impl UnixServer {
    /// Starts a runtime, and waits until it listens.
    pub async fn new(runtime: Runtime) -> Self {
        Self::with(runtime, |http| http).await
    }

    /// Starts a runtime behind an [`Http`] that was changed.
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    pub async fn with(runtime: Runtime, change: impl FnOnce(Http) -> Http) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("zcp-test-{}-{number}.sock", std::process::id());
        let path = std::env::temp_dir().join(name);
        let stop = CancellationToken::new();
        let serving = change(Http::unix(path.clone())).serve(runtime, stop.clone());
        let served: JoinHandle<()> = tokio::spawn(async move {
            serving.await.expect("the server does not fail");
        });
        while UnixStream::connect(&path).await.is_err() {
            assert!(!served.is_finished(), "the server listens");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Self { path, stop, served: AbortOnDropHandle::new(served) }
    }

    /// A client that reaches nothing else.
    pub fn client(&self) -> reqwest::Client {
        let client = reqwest::Client::builder().unix_socket(self.path.clone());
        client.build().expect("the client has no mistakes")
    }

    /// Stops the server, and waits until it has ended.
    pub async fn close(mut self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(Duration::from_secs(15), &mut self.served);
        ended.await.expect("the server ended in time").expect("the server did not panic");
    }
}
