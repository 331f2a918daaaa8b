//! One WebSocket connection of a conversation: reads messages and writes what is said, until it ends.

use super::{
    Kept,
    arriving::{self, Socket},
};
use crate::{
    auth::Caller,
    transport::{
        http::Shared,
        outbox::Inbox,
        weight::{LARGE, NoRoom},
    },
};
use ::http::Extensions;
use axum::BoxError;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, poll};
use std::{future::Future, sync::Arc, task::Poll, time::Duration};
use tokio::time::MissedTickBehavior;
use tokio_tungstenite::tungstenite::{
    Error, Message,
    error::ProtocolError,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use tokio_util::sync::CancellationToken;

/// How often a quiet connection is asked whether it is still there.
const PING: Duration = Duration::from_secs(20);

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
    /// Because the client broke the rules, or sent too much. It was told so, and may not have read it.
    Refused(Box<Socket>),
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
    let inbox = &*kept.inbox.lock().await;
    let line = Line { taken, inbox };
    if !line.takes(kept.say_again(http, &mut socket, *received, inbox)).await {
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
        if !line.takes(kept.say(http, &mut socket, inbox)).await || !inbox.goes_on() {
            return Ended::Lost;
        }
        let message = tokio::select! {
            biased;
            message = socket.next() => message,
            _ = inbox.ready() => continue,
            _ = ping.tick() => {
                unheard += 1;
                if unheard > 3 || !line.takes(socket.send(Message::Ping(Bytes::new()))).await {
                    return Ended::Lost;
                }
                continue;
            }
            () = taken.cancelled() => return Ended::Lost,
            // With a newer token the client can come back.
            () = &mut expired => {
                let why = "the authorization has expired";
                line.takes(socket.send(farewell(CloseCode::Policy, why))).await;
                return Ended::Lost;
            }
            () = &mut drained => {
                let last = async {
                    kept.say(http, &mut socket, inbox).await?;
                    Ok::<_, BoxError>(socket.send(Message::Close(None)).await?)
                };
                line.takes(last).await;
                return Ended::Stopped;
            }
        };
        unheard = 0;
        let bytes = match hear(message, &mut socket, &line).await {
            Heard::Message(message) => message.into_data(),
            Heard::Nothing => continue,
            Heard::Closed => return Ended::Closed,
            Heard::Refused => return Ended::Refused(Box::new(socket)),
            Heard::Lost => return Ended::Lost,
        };
        let is_large = bytes.len() >= LARGE;
        kept.conversation.receive(bytes, extensions);
        if is_large && socket.get_ref().is_between() {
            if !line.takes(socket.flush()).await {
                return Ended::Lost;
            }
            socket = arriving::renew(http, socket).await;
        }
    }
}

/// What was read from a socket.
pub(super) enum Heard {
    /// A text or binary data.
    Message(Message),
    /// A frame that is answered below, or needs no answer.
    Nothing,
    /// A word of farewell, which was answered.
    Closed,
    /// A violation. The client was told so, and may not have read it.
    Refused,
    /// The end of the connection.
    Lost,
}

/// Answers what was read as RFC 6455 says. Messages are left to the caller.
pub(super) async fn hear(
    read: Option<Result<Message, Error>>,
    socket: &mut Socket,
    line: &Line<'_>,
) -> Heard {
    match read {
        Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => Heard::Message(message),
        Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Heard::Nothing,
        Some(Ok(Message::Close(_))) => {
            // The answer waits to be sent.
            line.takes(socket.flush()).await;
            Heard::Closed
        }
        Some(Err(error)) => {
            let Some(farewell) = refusal(&error) else { return Heard::Lost };
            match line.takes(socket.send(farewell)).await {
                true => Heard::Refused,
                false => Heard::Lost,
            }
        }
        None => Heard::Lost,
    }
}

/// What a client is told whose frames cannot be read, by RFC 6455 section 7.4.1.
fn refusal(error: &Error) -> Option<Message> {
    let refusal = match error {
        // There is nobody left to tell.
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return None,
        Error::Protocol(_) => farewell(CloseCode::Protocol, "a frame breaks the protocol"),
        Error::Utf8(_) => farewell(CloseCode::Invalid, "the text is not UTF-8"),
        Error::Capacity(_) => farewell(CloseCode::Size, "the message is too long"),
        Error::Io(error) if error.get_ref().is_some_and(|why| why.is::<NoRoom>()) => {
            farewell(CloseCode::Again, NoRoom::WHY)
        }
        _ => return None,
    };
    Some(refusal)
}

fn farewell(code: CloseCode, why: &'static str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: why.into() }))
}

/// A connection while something is sent on it.
pub(super) struct Line<'a> {
    pub(super) taken: &'a CancellationToken,
    pub(super) inbox: &'a Inbox,
}

impl Line<'_> {
    /// Whether something was sent, to a client that takes it within a while: sooner, if others need
    /// the room of what waits for it.
    pub(super) async fn takes<E>(&self, sent: impl Future<Output = Result<(), E>>) -> bool {
        let mut sent = std::pin::pin!(sent);
        // Nearly always it is sent at once, and needs no timer.
        match poll!(sent.as_mut()) {
            Poll::Ready(sent) => sent.is_ok(),
            Poll::Pending => tokio::select! {
                sent = tokio::time::timeout(PING * 2, sent) => matches!(sent, Ok(Ok(()))),
                () = self.taken.cancelled() => false,
                () = self.inbox.gives_way() => false,
            },
        }
    }
}
