//! One WebSocket connection of a conversation: reads messages and writes what is said, until it ends.

use super::{
    Kept, PING,
    arriving::{self, Socket},
};
use crate::{
    auth::Caller,
    transport::{
        http::Shared,
        weight::{LARGE, NoRoom},
    },
};
use ::http::Extensions;
use axum::BoxError;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, poll};
use std::{future::Future, sync::Arc, task::Poll};
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::{
    Error, Message,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
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
    mut socket: Socket,
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
            message = socket.next() => message,
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
                let why = "the authorization has expired";
                in_time(socket.send(farewell(CloseCode::Policy, why)), taken).await;
                return Ended::Lost;
            }
            () = &mut drained => {
                let last = async {
                    kept.say(http, &mut socket, &inbox).await?;
                    Ok::<_, BoxError>(socket.send(Message::Close(None)).await?)
                };
                in_time(last, taken).await;
                return Ended::Stopped;
            }
        };
        unheard = 0;
        let bytes = match message {
            Some(Ok(Message::Text(text))) => Bytes::from(text),
            Some(Ok(Message::Binary(bytes))) => bytes,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Close(_))) => {
                // The answer waits to be sent.
                in_time(socket.flush(), taken).await;
                return Ended::Closed;
            }
            Some(Err(Error::Io(error)))
                if error.get_ref().is_some_and(|why| why.is::<NoRoom>()) =>
            {
                in_time(socket.send(farewell(CloseCode::Again, NoRoom::WHY)), taken).await;
                return Ended::Lost;
            }
            None | Some(Err(_)) => return Ended::Lost,
        };
        let is_large = bytes.len() >= LARGE;
        kept.conversation.receive(bytes, extensions);
        if is_large && socket.get_ref().is_between() {
            if !in_time(socket.flush(), taken).await {
                return Ended::Lost;
            }
            socket = arriving::renew(http, socket).await;
        }
    }
}

fn farewell(code: CloseCode, why: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: why.into() }))
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
