//! A conversation over one WebSocket after another: what the client missed while its connection was
//! lost, the server sends on the next one.

use super::{
    Ws,
    unconfirmed::Unconfirmed,
    upgrade::{Connected, Door, Socket},
};
use crate::{
    error::{Failure, Result},
    support::{backoff::jittered, message_limits},
    transport::{answered::Answered, http::frames_of, outbox::Unwritten, switchboard::Switchboard},
};
use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use std::{
    future::pending,
    sync::{Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::{
    self, Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode},
};
use tokio_util::sync::CancellationToken;
use zcp_wire::{Id, sync::lock};

/// How long to wait before a lost connection is opened again, at first and at most.
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// How long that is tried. Servers keep a conversation for a minute.
const KEPT: Duration = Duration::from_secs(60);
/// How many connections in a row may be opened on which nothing is heard.
const FRUITLESS: u32 = 5;
/// How long after it was written a message is confirmed by a ping, if not by an answer.
const CONFIRM: Duration = Duration::from_millis(50);
/// How long the farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A conversation, and how its next connection is opened.
pub(super) struct Line {
    door: Door,
    unwritten: mpsc::Receiver<Unwritten>,
    talk: Talk,
    keep_alive: Duration,
    max_message: usize,
}

/// What reading and writing have in common.
struct Talk {
    board: Switchboard,
    /// The conversation's name, if the server keeps it.
    session: Option<String>,
    // A std mutex: never held across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Messages of the server, on all connections.
    received: u64,
    /// Something was heard since it was last asked.
    is_heard: bool,
    /// Connections in a row on which nothing was heard.
    fruitless: u32,
    /// What the server closed the connection with.
    farewell: Option<String>,
    unconfirmed: Unconfirmed,
    /// Requests of earlier connections that the server may not have, until it has sent all that was
    /// missed.
    doubtful: Vec<Id>,
}

/// How a connection came to its end.
enum Ended {
    /// Nobody needs it any more.
    Stopped,
    /// By a message that is too long.
    TooLong,
    /// In any other way, for this reason.
    Lost(String),
}

impl Line {
    /// Opens the first connection.
    pub(super) async fn open(door: Door, ws: &Ws) -> Result<(Self, Socket, Switchboard)> {
        let resume = [("resume", "true")];
        let Connected { socket, session } = door.open(&resume[..usize::from(ws.resumes)]).await?;
        let session = session.filter(|_| ws.resumes);
        let (board, unwritten) = Switchboard::new();
        let talk = Talk { board: board.clone(), session, state: Mutex::default() };
        let (keep_alive, max_message) = (ws.keep_alive, ws.max_message);
        Ok((Self { door, unwritten, talk, keep_alive, max_message }, socket, board))
    }

    /// Serves the conversation until it is stopped, or its connection is lost for good.
    pub(super) async fn run(mut self, mut socket: Socket, stop: CancellationToken) {
        let stopped = || Failure::Gone("the conversation was ended".into());
        let mut again = vec![];
        let why = loop {
            let why = match self.serve(socket, again, &stop).await {
                Ended::Stopped => break stopped(),
                Ended::TooLong => {
                    let why = message_limits::too_long(self.max_message);
                    return self.talk.board.kill_for_length(&why);
                }
                Ended::Lost(why) => why,
            };
            match stop.run_until_cancelled(self.resume(&why)).await {
                Some(Ok(next)) => (socket, again) = next,
                Some(Err(why)) => break why,
                None => break stopped(),
            }
        };
        self.talk.board.kill(why);
    }

    /// Reads and writes on a connection until it ends. `again` is what was written to the last one,
    /// and may have been lost with it.
    async fn serve(
        &mut self,
        socket: Socket,
        again: Vec<Unwritten>,
        stop: &CancellationToken,
    ) -> Ended {
        let (mut sink, mut stream) = socket.split();
        let talk = &self.talk;
        let writing = talk.write(&mut sink, again, &mut self.unwritten, self.keep_alive);
        let ended = tokio::select! {
            () = stop.cancelled() => Ended::Stopped,
            ended = talk.read(&mut stream) => ended,
            ended = writing => ended,
        };
        let code = match ended {
            Ended::Stopped => CloseCode::Normal,
            Ended::TooLong => CloseCode::Size,
            // A conversation whose connection is closed in order is over.
            Ended::Lost(why) => return Ended::Lost(talk.state().farewell.take().unwrap_or(why)),
        };
        let close = CloseFrame { code, reason: Utf8Bytes::default() };
        let closing = async {
            let _ = sink.send(Message::Close(Some(close))).await;
            let _ = sink.close().await;
        };
        let _ = timeout(FAREWELL, closing).await;
        ended
    }

    /// Opens the next connection, on which the conversation goes on; gives what is to be written to
    /// it first. `why` is why the last one was lost.
    async fn resume(&mut self, why: &str) -> Result<(Socket, Vec<Unwritten>), Failure> {
        let gone = |also: String| Failure::Gone(format!("{why}{also}"));
        let Some(session) = &self.talk.session else { return Err(gone(String::new())) };
        let fruitless = {
            let mut state = self.talk.state();
            state.fruitless += 1;
            state.fruitless
        };
        if fruitless > FRUITLESS {
            return Err(gone(", as did those before it".into()));
        }
        let until = Instant::now() + KEPT;
        let mut wait = FIRST * (1 << (fruitless - 1));
        let socket = loop {
            tokio::time::sleep(jittered(wait)).await;
            wait = (wait * 2).min(LONGEST);
            let received = self.talk.state().received.to_string();
            let query = [("session", session.as_str()), ("last_event_id", received.as_str())];
            match self.door.open(&query).await {
                Ok(next) if next.session.as_ref() == Some(session) => break next.socket,
                Ok(_) => return Err(gone("; the server did not resume the conversation".into())),
                Err(error) if error.may_pass() && Instant::now() + wait < until => {
                    tracing::debug!("a WebSocket is not resumed yet: {error}");
                }
                Err(denied @ Failure::Denied(_)) => return Err(denied),
                Err(error) => {
                    return Err(gone(format!("; the conversation cannot be resumed: {error}")));
                }
            }
        };
        tracing::debug!("a WebSocket is resumed: {why}");
        let mut state = self.talk.state();
        let uncertain = state.unconfirmed.take();
        state.doubtful.extend(uncertain.requests);
        Ok((socket, uncertain.others))
    }
}

impl Talk {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    async fn read(&self, stream: &mut SplitStream<Socket>) -> Ended {
        while let Some(message) = stream.next().await {
            match message {
                Ok(message) => self.take(message),
                Err(tungstenite::Error::Capacity(_)) => return Ended::TooLong,
                Err(error) => return Ended::Lost(broke(&error)),
            }
        }
        Ended::Lost("the server closed the connection".into())
    }

    fn take(&self, message: Message) {
        let mut state = self.state();
        state.is_heard = true;
        let bytes = match message {
            Message::Text(text) => Bytes::from(text),
            Message::Binary(bytes) => bytes,
            Message::Pong(mark) => {
                state.fruitless = 0;
                state.unconfirmed.confirm(&mark);
                // All that was missed has come before it.
                let doubtful = std::mem::take(&mut state.doubtful);
                drop(state);
                return self.give_up(&doubtful);
            }
            Message::Close(frame) => return state.farewell = Some(farewell(frame)),
            Message::Ping(_) | Message::Frame(_) => return,
        };
        state.fruitless = 0;
        state.received += 1;
        drop(state);
        if let Some(why) = message_limits::too_many(&bytes) {
            return self.board.fail(&Answered::by(&bytes), &Failure::TooLong(why));
        }
        for frame in frames_of(bytes) {
            if let Some(id) = self.board.deliver(frame) {
                self.state().unconfirmed.reached(&id);
            }
        }
    }

    fn give_up(&self, requests: &[Id]) {
        let why = "the connection was lost before the server confirmed that it has the request";
        self.board.give_up(requests, &Failure::Unconfirmed(why.into()));
    }

    /// Writes what there is to write, and pings: to confirm what was written, and when nothing is
    /// heard. Ends when the connection does.
    async fn write(
        &self,
        sink: &mut SplitSink<Socket, Message>,
        again: Vec<Unwritten>,
        unwritten: &mut mpsc::Receiver<Unwritten>,
        keep_alive: Duration,
    ) -> Ended {
        match self.writing(sink, again, unwritten, keep_alive).await {
            Ok(why) => Ended::Lost(why),
            Err(error) => Ended::Lost(broke(&error)),
        }
    }

    async fn writing(
        &self,
        sink: &mut SplitSink<Socket, Message>,
        again: Vec<Unwritten>,
        unwritten: &mut mpsc::Receiver<Unwritten>,
        keep_alive: Duration,
    ) -> Result<String, tungstenite::Error> {
        for text in again {
            sink.feed(self.message(text, true)).await?;
        }
        if self.session.is_some() {
            self.ping(sink).await?;
        }
        let mut tick = interval_at(Instant::now() + keep_alive, keep_alive);
        // A machine that slept has not waited for its server.
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut quiet, mut confirm) = (0, None);
        loop {
            let confirmed = async {
                match confirm {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                text = unwritten.recv() => {
                    let Some(text) = text else { return pending().await };
                    sink.feed(self.message(text, false)).await?;
                    while let Ok(text) = unwritten.try_recv() {
                        sink.feed(self.message(text, false)).await?;
                    }
                    sink.flush().await?;
                    if self.session.is_some() {
                        confirm.get_or_insert(Instant::now() + CONFIRM);
                    }
                }
                () = confirmed => {
                    confirm = None;
                    if !self.state().unconfirmed.is_empty() {
                        self.ping(sink).await?;
                    }
                }
                _ = tick.tick() => {
                    let is_heard = std::mem::take(&mut self.state().is_heard);
                    quiet = if is_heard { 0 } else { quiet + 1 };
                    match quiet {
                        0 => (),
                        1 => self.ping(sink).await?,
                        _ => return Ok("the server does not answer pings".into()),
                    }
                }
            }
        }
    }

    /// What is about to be written.
    fn message(&self, text: Unwritten, is_second: bool) -> Message {
        let message = Message::Text(utf8(text.text().into_bytes()));
        if self.session.is_some() {
            self.state().unconfirmed.push(text, is_second);
        }
        message
    }

    async fn ping(&self, sink: &mut SplitSink<Socket, Message>) -> Result<(), tungstenite::Error> {
        let mark = self.state().unconfirmed.mark();
        sink.send(Message::Ping(Bytes::copy_from_slice(&mark))).await
    }
}

fn broke(error: &tungstenite::Error) -> String {
    format!("the connection broke: {error}")
}

fn farewell(frame: Option<CloseFrame>) -> String {
    let closed = "the server closed the connection";
    match frame {
        Some(CloseFrame { code, reason }) if reason.is_empty() => format!("{closed} ({code})"),
        Some(CloseFrame { code, reason }) => format!("{closed} ({code}: {reason})"),
        None => closed.to_owned(),
    }
}

fn utf8(bytes: Bytes) -> Utf8Bytes {
    Utf8Bytes::try_from(bytes).unwrap_or_default()
}
