//! One WebSocket connection of a conversation: reads messages and writes what is said, until it ends.

use super::{Kept, PING};
use crate::{auth::Caller, transport::http::Shared};
use ::http::Extensions;
use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::poll;
use std::{future::Future, sync::Arc, task::Poll};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

/// What a connection brings to its conversation. Whatever may end a connection before its client
/// or its server does belongs here, and into the `select!` of [`serve`].
pub(super) struct Connection {
    /// Handlers see them with every message of this connection.
    pub(super) extensions: Arc<Extensions>,
    /// Another connection takes the conversation.
    pub(super) taken: CancellationToken,
    /// How many messages the client has received, if it comes back.
    pub(super) received: Option<u64>,
}

/// A policy violation, by RFC 6455: the caller's grant has ended.
const EXPIRED: u16 = 1008;

/// How a connection came to its end.
pub(super) enum Ended {
    /// By a word of farewell.
    Closed,
    /// Without one.
    Lost,
    /// Because the server does.
    Stopped,
}

/// Serves a connection until it ends, or another takes its conversation: reads messages and writes
/// what the conversation says, by turns.
pub(super) async fn serve(
    http: &Shared,
    kept: &Kept,
    mut socket: WebSocket,
    connection: &Connection,
) -> Ended {
    let Connection { extensions, taken, received } = connection;
    let inbox = kept.inbox.lock().await;
    if !in_time(kept.say_again(http, &mut socket, *received), taken).await {
        return Ended::Lost;
    }
    let mut ping = tokio::time::interval(PING / 2);
    // A server that slept has not waited for its clients.
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drained = std::pin::pin!(kept.drained(http));
    let mut expired = std::pin::pin!(Caller::of(extensions).expired());
    let mut unheard = 0;
    loop {
        inbox.attend();
        if !in_time(kept.say(http, &mut socket, &inbox), taken).await {
            return Ended::Lost;
        }
        let message = tokio::select! {
            biased;
            message = socket.recv() => message,
            _ = inbox.ready() => continue,
            _ = ping.tick() => {
                unheard += 1;
                if unheard > 3 || !in_time(socket.send(Message::Ping(Bytes::new())), taken).await {
                    return Ended::Lost;
                }
                continue;
            }
            () = taken.cancelled() => return Ended::Lost,
            // With a newer token the client can come back.
            () = &mut expired => {
                let reason = "the authorization has expired".into();
                let farewell = Message::Close(Some(CloseFrame { code: EXPIRED, reason }));
                let farewell = socket.send(farewell);
                in_time(farewell, taken).await;
                return Ended::Lost;
            }
            () = &mut drained => {
                let farewell = async {
                    kept.say(http, &mut socket, &inbox).await?;
                    socket.send(Message::Close(None)).await
                };
                in_time(farewell, taken).await;
                return Ended::Stopped;
            }
        };
        unheard = 0;
        match message {
            None | Some(Err(_)) => return Ended::Lost,
            Some(Ok(Message::Text(text))) => {
                kept.conversation.receive(Bytes::from(text), extensions);
            }
            Some(Ok(Message::Binary(bytes))) => kept.conversation.receive(bytes, extensions),
            Some(Ok(Message::Close(_))) => return Ended::Closed,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => (),
        }
    }
}

/// Whether something was sent, to a client that takes it within a while.
async fn in_time<E>(sent: impl Future<Output = Result<(), E>>, taken: &CancellationToken) -> bool {
    let mut sent = std::pin::pin!(sent);
    // Nearly always it is sent at once, and needs no timer.
    match poll!(sent.as_mut()) {
        Poll::Ready(sent) => sent.is_ok(),
        Poll::Pending => tokio::select! {
            sent = tokio::time::timeout(PING * 2, sent) => matches!(sent, Ok(Ok(()))),
            () = taken.cancelled() => false,
        },
    }
}
