//! The signals that ask a process to end.

use std::future::pending;

/// Waits until the process is asked to end: Ctrl-C (`SIGINT`), or `SIGTERM` on Unix. For
/// [`Server::serve_with_shutdown`](crate::Server::serve_with_shutdown).
///
/// From the first poll on, these signals no longer end the process by themselves.
pub async fn shutdown_signal() {
    tokio::select! {
        () = ctrl_c() => (),
        () = terminate() => (),
    }
}

async fn ctrl_c() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::warn!("Ctrl-C ends the server without graceful shutdown: {error}");
        pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminated) => drop(terminated.recv().await),
        Err(error) => {
            tracing::warn!("SIGTERM ends the server without graceful shutdown: {error}");
            pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn terminate() {
    pending::<()>().await;
}
