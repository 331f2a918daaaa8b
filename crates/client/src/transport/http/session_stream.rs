//! What a session is told beside its calls: a stream that is opened again when it ends.

use super::{Way, is_events, reading::Reading};
use crate::transport::{Fate, GAP};
use ::http::{HeaderMap, HeaderValue, Method};
use futures_util::{Stream, StreamExt, stream};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use zcp_wire::{Frame, Notification};

/// How long to wait before the stream is opened again, at first and at most.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The events of a session. They end when the server has no such stream, or another session has
/// begun.
pub(super) fn of(way: Arc<Way>, session: HeaderValue) -> impl Stream<Item = Frame> + Send {
    way.is_listening.send_replace(false);
    let hearing = Hearing { way, session, last: None, wait: FIRST };
    stream::unfold(hearing, async |mut hearing| {
        let frames = hearing.open().await?;
        Some((frames, hearing))
    })
    .flatten()
}

struct Hearing {
    way: Arc<Way>,
    session: HeaderValue,
    /// When the stream was last opened.
    last: Option<Instant>,
    wait: Duration,
}

impl Hearing {
    async fn open(&mut self) -> Option<stream::BoxStream<'static, Frame>> {
        loop {
            if let Some(last) = self.last {
                let lasted = last.elapsed() > LONGEST;
                self.wait = if lasted { FIRST } else { self.wait };
                tokio::time::sleep(self.wait).await;
                self.wait = (self.wait * 2).min(LONGEST);
            }
            if self.way.session().as_ref() != Some(&self.session) {
                return None;
            }
            let is_first = self.last.is_none();
            self.last = Some(Instant::now());
            let reading = Reading {
                way: self.way.clone(),
                headers: HeaderMap::new(),
                opens: false,
                id: None,
                fate: Fate::default(),
            };
            let get = || reading.way.get(&reading.headers, None);
            let answered = reading.way.send(&Method::GET, &reading.fate, get).await;
            self.way.is_listening.send_replace(true);
            match answered {
                Ok(response) if is_events(&response) => {
                    let missed = Notification { method: GAP.into(), params: None };
                    let missed = (!is_first).then_some(Frame::Notification(missed));
                    let frames = reading.of(response).await;
                    return Some(stream::iter(missed).chain(frames).boxed());
                }
                Ok(response) if response.status().is_server_error() && !is_first => (),
                Err(_) if !is_first => (),
                _ => return None,
            }
        }
    }
}
