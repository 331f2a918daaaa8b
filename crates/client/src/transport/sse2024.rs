//! HTTP with server-sent events, as it was in 2024-11-05: one stream for all that a server says,
//! and a place it names to post to.

use super::{
    End, Endpoint, Fate, Opened,
    answered::Answered,
    http::{Http, frames_of, is_events, send},
    switchboard::Switchboard,
};
use crate::{
    error::{Error, Failure, Result},
    oauth::OAuth,
    support::message_limits,
};
use ::http::{
    Method,
    header::{ACCEPT, CONTENT_TYPE},
};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream::BoxStream};
use reqwest::{RequestBuilder, Url};
use std::{sync::Arc, time::Duration};
use zcp_wire::sse;

/// How long the server may take to say where to post to, and to take what is posted.
const PLACE: Duration = Duration::from_secs(10);
/// How long that may take if a user has to log in.
const LOGIN: Duration = Duration::from_secs(15 * 60);

/// A server of 2024-11-05.
#[derive(Debug, Clone)]
pub struct Sse2024 {
    http: Http,
}

impl Sse2024 {
    /// The server whose stream is there.
    pub fn new(http: Http) -> Self {
        Self { http }
    }

    async fn connect(&self) -> Result<Opened> {
        let client = self.http.client()?;
        let lost = |why: String| Error::Lost(Failure::Gone(why));
        let url = self.http.address().clone();
        let get = || client.get(url.clone()).header(ACCEPT, "text/event-stream");
        let oauth = self.http.way_to_tokens().cloned();
        let fate = Fate::default();
        let answering = send(&url, oauth.as_ref(), &Method::GET, &fate, get);
        // A user may have to be asked first.
        let time = if oauth.is_some() { LOGIN } else { PLACE };
        let answer = tokio::time::timeout(time, answering).await;
        let response = answer.map_err(|_| lost("the server does not answer".into()))??;
        if !is_events(&response) {
            let status = response.status().as_u16();
            return Err(Failure::Status { status, text: String::new() }.into());
        }
        let mut stream = Stream {
            bytes: response.bytes_stream().boxed(),
            decoder: sse::Decoder::default(),
            max_message: self.http.longest_message(),
        };
        let first = tokio::time::timeout(PLACE, stream.place()).await;
        let (place, mut rest) = first
            .ok()
            .flatten()
            .ok_or_else(|| lost("the server does not say where to post to".into()))?;
        let place = self.http.address().join(&place).map_err(Error::invalid)?;
        if place.origin() != self.http.address().origin() {
            return Err(Error::invalid("its messages are to be posted to another server"));
        }
        let (board, mut unwritten) = Switchboard::new();
        let end = End::default();
        let reader = board.clone();
        end.spawn(|stop| async move {
            let reading = async {
                loop {
                    rest.drain(..).for_each(|event| take(event, &reader));
                    match stream.next().await {
                        Ok(events) => rest = events,
                        Err(why) => return why,
                    }
                }
            };
            match stop.run_until_cancelled(reading).await {
                Some(why @ Failure::TooLong(_)) => reader.kill_for_length(&why),
                why => reader.kill(why.unwrap_or_else(ended)),
            }
        });
        let writer = board.clone();
        end.spawn(|stop| async move {
            let writing = async {
                while let Some(text) = unwritten.recv().await {
                    let text = text.into_bytes();
                    let make = || {
                        let request = client.post(place.clone());
                        request.header(CONTENT_TYPE, "application/json").body(text.clone())
                    };
                    if let Err(why) = post(&url, oauth.as_ref(), make).await {
                        return writer.kill(why);
                    }
                }
            };
            stop.run_until_cancelled(writing).await;
        });
        Ok(Opened { peer: Arc::new(board), end, ends_with_events: true })
    }
}

async fn post(
    server: &Url,
    oauth: Option<&OAuth>,
    make: impl Fn() -> RequestBuilder,
) -> Result<(), Failure> {
    let fate = Fate::default();
    let sending = send(server, oauth, &Method::POST, &fate, make);
    let time = if oauth.is_some() { LOGIN } else { PLACE };
    let answer = tokio::time::timeout(time, sending).await;
    let response = answer.map_err(|_| Failure::Gone("the server takes no messages".into()))??;
    match response.status().is_success() {
        true => Ok(()),
        false => Err(Failure::Status { status: response.status().as_u16(), text: String::new() }),
    }
}

fn ended() -> Failure {
    Failure::Gone("the server's stream ended".into())
}

fn take(event: sse::Event, board: &Switchboard) {
    if let Some(why) = message_limits::too_many(event.data.as_bytes()) {
        return board.fail(&Answered::by(event.data.as_bytes()), &Failure::TooLong(why));
    }
    if event.name.is_none_or(|name| name == "message") {
        frames_of(event.data.into()).into_iter().for_each(|frame| board.take(frame));
    }
}

/// What the server says.
struct Stream {
    bytes: BoxStream<'static, reqwest::Result<Bytes>>,
    decoder: sse::Decoder,
    max_message: usize,
}

impl Stream {
    async fn next(&mut self) -> Result<Vec<sse::Event>, Failure> {
        let Some(Ok(bytes)) = self.bytes.next().await else { return Err(ended()) };
        let events = self.decoder.push(&bytes);
        match self.decoder.is_too_long(self.max_message) {
            true => Err(message_limits::too_long(self.max_message)),
            false => Ok(events),
        }
    }

    /// Where to post to, and what was said after that.
    async fn place(&mut self) -> Option<(String, Vec<sse::Event>)> {
        loop {
            let mut events = self.next().await.ok()?;
            let named = |event: &sse::Event| event.name.as_deref() == Some("endpoint");
            if let Some(at) = events.iter().position(named) {
                let rest = events.split_off(at + 1);
                return Some((events.swap_remove(at).data, rest));
            }
        }
    }
}

impl Endpoint for Sse2024 {
    fn open(&self) -> BoxFuture<'_, Result<Opened>> {
        Box::pin(self.connect())
    }

    fn name(&self) -> Option<String> {
        self.http.name()
    }

    fn principal(&self) -> u64 {
        self.http.principal()
    }
}
