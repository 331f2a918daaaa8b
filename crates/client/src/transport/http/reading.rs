//! Answers over HTTP: JSON, or an event stream that can be resumed.

use super::Way;
use crate::{
    error::Failure,
    support::{http_error::explain, message_limits},
    transport::{BATCH, Fate},
};
use ::http::{HeaderMap, Method, StatusCode, header::CONTENT_TYPE};
use bytes::Bytes;
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use reqwest::Response;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use zcp_wire::{Frame, Id, Message, header::SESSION_ID, sse};

/// Bytes of an error's body that people are shown.
const SHOWN: usize = 400;
/// How long to wait before a broken stream is resumed, if the server does not say.
const RETRY: Duration = Duration::from_secs(1);
/// The shortest and the longest a server may ask a client to wait.
const SHORTEST_RETRY: Duration = Duration::from_millis(50);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// How often in a row a stream is resumed that says nothing new.
const RESUMES: usize = 5;

/// An answer on its way.
pub(super) struct Reading {
    pub(super) way: Arc<Way>,
    pub(super) headers: HeaderMap,
    /// The request opens a conversation.
    pub(super) opens: bool,
    /// The request that is answered; none for what answers no request.
    pub(super) id: Option<Id>,
    pub(super) fate: Fate,
}

impl Reading {
    pub(super) async fn of(self, response: Response) -> BoxStream<'static, Frame> {
        // Only a handshake opens a session.
        if let Some(id) = response.headers().get(&SESSION_ID).filter(|_| self.opens) {
            if id.len() > message_limits::SESSION_ID {
                self.fate.gone(format!(
                    "its session id has more than {} bytes",
                    message_limits::SESSION_ID
                ));
                return stream::empty().boxed();
            }
            *self.way.session() = Some(id.clone());
        }
        if is_events(&response) {
            return self.events(response).boxed();
        }
        let status = response.status();
        let text = match body(response, self.way.max_message).await {
            Ok(text) => text,
            Err(why) => {
                self.fate.set(why);
                return stream::empty().boxed();
            }
        };
        if let Some(why) = message_limits::too_many(&text) {
            self.fate.set(Failure::TooLong(why));
            return stream::empty().boxed();
        }
        let frames = frames_of(text.clone());
        if !status.is_success() || (frames.is_empty() && self.id.is_some()) {
            self.fate.set(failure(status, &text));
        }
        let id = self.id;
        stream::iter(frames.into_iter().map(move |frame| answering(frame, id.as_ref()))).boxed()
    }

    fn events(self, response: Response) -> impl Stream<Item = Frame> + Send + 'static {
        let events = Events {
            reading: self,
            bytes: response.bytes_stream().boxed(),
            decoder: sse::Decoder::default(),
            waiting: VecDeque::new(),
            last: None,
            retry: RETRY,
            resumes: 0,
        };
        stream::unfold(events, async |mut events| {
            let frame = events.next().await?;
            Some((frame, events))
        })
    }
}

/// An event stream, which goes on where it broke.
struct Events {
    reading: Reading,
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    decoder: sse::Decoder,
    waiting: VecDeque<Frame>,
    /// The last event's name.
    last: Option<String>,
    retry: Duration,
    resumes: usize,
}

impl Events {
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                if self.is_answer(&frame) {
                    // Nothing comes after it.
                    self.bytes = stream::empty().boxed();
                    self.last = None;
                }
                return Some(frame);
            }
            match self.bytes.next().await {
                Some(Ok(bytes)) => {
                    self.take(&bytes);
                    if self.decoder.is_too_long(self.reading.way.max_message) {
                        let why = "an event of the server's stream has no end".to_owned();
                        self.reading.fate.set(Failure::TooLong(why));
                        return None;
                    }
                }
                Some(Err(_)) | None => self.resume().await?,
            }
        }
    }

    fn is_answer(&self, frame: &Frame) -> bool {
        matches!(frame, Frame::Response(response) if response.id == self.reading.id)
    }

    fn take(&mut self, bytes: &[u8]) {
        for event in self.decoder.push(bytes) {
            self.resumes = 0;
            // An empty id says that there is nothing to resume from.
            self.last = event.id.or(self.last.take()).filter(|id| !id.is_empty());
            if let Some(retry) = event.retry {
                self.retry = retry.clamp(SHORTEST_RETRY, LONGEST_RETRY);
            }
            if let Some(why) = message_limits::too_many(event.data.as_bytes()) {
                self.reading.fate.set(Failure::TooLong(why));
                self.bytes = stream::empty().boxed();
                self.last = None;
                return;
            }
            if !event.data.is_empty() && event.name.is_none_or(|name| name == "message") {
                self.waiting.extend(frames_of(event.data.into()));
            }
        }
    }

    /// Goes on after the last event, if the server said how.
    async fn resume(&mut self) -> Option<()> {
        let Some(last) = self.last.clone() else {
            self.reading.fate.gone("the stream ended before the answer");
            return None;
        };
        loop {
            if self.resumes == RESUMES {
                self.reading.fate.gone("the stream broke, and could not be resumed");
                return None;
            }
            self.resumes += 1;
            tokio::time::sleep(self.retry).await;
            let get = || self.reading.way.get(&self.reading.headers, Some(&last));
            match self.reading.way.send(&Method::GET, &self.reading.fate, get).await {
                Ok(response) if is_events(&response) => {
                    self.bytes = response.bytes_stream().boxed();
                    self.decoder = sse::Decoder::default();
                    return Some(());
                }
                Ok(response) if response.status().is_server_error() => (),
                Ok(response) => {
                    let status = response.status();
                    // Not a status of the request itself, which may well have been carried out.
                    let why = format!("the stream broke, and cannot be resumed: status {status}");
                    self.reading.fate.gone(why);
                    return None;
                }
                Err(_) => (),
            }
        }
    }
}

pub(in crate::transport) fn is_events(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    response.status().is_success() && kind.trim().eq_ignore_ascii_case("text/event-stream")
}

async fn body(response: Response, largest: usize) -> Result<Bytes, Failure> {
    let mut all = vec![];
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        all.extend_from_slice(&chunk.map_err(|error| Failure::Gone(explain(&error)))?);
        if all.len() > largest {
            return Err(message_limits::too_long(largest));
        }
    }
    Ok(all.into())
}

pub(in crate::transport) fn frames_of(text: Bytes) -> Vec<Frame> {
    match Message::parse(text) {
        Ok(Message::One(frame)) => vec![frame],
        Ok(Message::Batch(batch)) => {
            batch.frames(BATCH).unwrap_or_default().into_iter().flatten().collect()
        }
        Err(_) => vec![],
    }
}

/// An error whose id could not be told answers the request it came for.
fn answering(frame: Frame, id: Option<&Id>) -> Frame {
    match frame {
        Frame::Response(mut response) if response.id.is_none() => {
            response.id = id.cloned();
            Frame::Response(response)
        }
        other => other,
    }
}

fn failure(status: StatusCode, text: &[u8]) -> Failure {
    let text = String::from_utf8_lossy(text);
    let shown = text.char_indices().nth(SHOWN).map_or(&*text, |(end, _)| &text[..end]);
    Failure::Status { status: status.as_u16(), text: shown.trim().to_owned() }
}
