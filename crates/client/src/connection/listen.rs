//! Changes at a server that tells them on the stream of a request, `subscriptions/listen`. It is
//! made again when it breaks.

use super::{
    Connection,
    changes::{Changes, FIRST, LONGEST},
    link::Link,
};
use crate::{
    error::{Error, Failure, Late, Result},
    request::change::Change,
    support::backoff::jittered,
    transport::{Fate, Headers},
};
use ::http::Extensions;
use serde::Deserialize;
use serde_json::{Map, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use zcp_wire::{
    Frame, Frames, Method, Notification, Request, json::text, mcp::subscriptions::Filter,
};

pub(super) async fn open(connection: Arc<Connection>, filter: Filter) -> Result<Changes> {
    let mut listening = Listening { connection, filter, asked: None, wait: FIRST };
    let honoured = listening.begin().await?;
    Ok(Changes::new(honoured, listening, async |mut listening| {
        let change = listening.next().await?;
        Some((change, listening))
    }))
}

struct Listening {
    connection: Arc<Connection>,
    filter: Filter,
    asked: Option<Asked>,
    wait: Duration,
}

impl Listening {
    /// Waits until the server listens, and says to what.
    async fn begin(&mut self) -> Result<Filter> {
        let quiet = self.connection.settings.timeouts.idle;
        let mut asked = self.ask().await?;
        let acknowledged = async {
            loop {
                match asked.frames.next().await {
                    Some(Frame::Notification(said)) if said.method.is(Method::Listening) => {
                        return Ok(honoured(&said));
                    }
                    Some(Frame::Response(response)) => {
                        return Err(match response.result {
                            Err(error) => Error::Refused(error),
                            Ok(_) => Error::invalid("it ended a subscription at once"),
                        });
                    }
                    Some(_) => (),
                    None => {
                        let unknown = || Failure::Gone("the server did not answer".into());
                        let failure = asked.fate.get().cloned().unwrap_or_else(unknown);
                        if let Failure::Gone(_) = failure {
                            asked.link.lose();
                        }
                        return Err(Error::Lost(failure));
                    }
                }
            }
        };
        let honoured = tokio::time::timeout(quiet, acknowledged)
            .await
            .map_err(|_| Error::Late(Late { after: quiet, about: None }))??;
        self.asked = Some(asked);
        Ok(honoured)
    }

    async fn next(&mut self) -> Option<Change> {
        loop {
            let Some(asked) = &mut self.asked else {
                tokio::time::sleep(jittered(self.wait)).await;
                self.wait = (self.wait * 2).min(LONGEST);
                match self.begin().await {
                    // What changed while nobody listened is not told.
                    Ok(_) => {
                        self.connection.settings.forget(&Change::All);
                        return Some(Change::All);
                    }
                    // Asking again would not change the answer.
                    Err(Error::Refused(_) | Error::Unable(_)) => return None,
                    Err(Error::Lost(
                        Failure::Denied(_) | Failure::Status { status: 400..=499, .. },
                    )) => return None,
                    Err(_) => continue,
                }
            };
            match asked.frames.next().await {
                Some(Frame::Notification(said)) => {
                    if let Some(change) = Change::of(&said) {
                        self.connection.settings.forget(&change);
                        return Some(change);
                    }
                }
                // The server ended it, for good or because it stops.
                Some(Frame::Response(response)) if response.result.is_err() => return None,
                Some(Frame::Response(_)) | None => {
                    if let Some(Failure::Gone(_)) = asked.fate.get() {
                        asked.link.lose();
                    }
                    // One that ends as soon as it is made is not made again as soon as it ends.
                    if asked.since.elapsed() > LONGEST {
                        self.wait = FIRST;
                    }
                    self.asked = None;
                }
                Some(_) => (),
            }
        }
    }

    async fn ask(&mut self) -> Result<Asked> {
        let (link, settings) = (self.connection.link().await?, &self.connection.settings);
        let id = settings.ids.next();
        let mut params = Map::from_iter([("notifications".to_owned(), json!(self.filter))]);
        let method = Method::Listen.into();
        let headers = link.dialect.prepare(settings, &method, &mut params, &id);
        let request = Request { id, method, params: Some(text(&params)) };
        let mut extensions = Extensions::new();
        extensions.insert(Headers(headers));
        let fate = Fate::default();
        extensions.insert(fate.clone());
        let frames = link.peer.send(Frame::Request(request), extensions);
        Ok(Asked { frames, fate, link, since: Instant::now() })
    }
}

/// What a server agrees to tell.
fn honoured(said: &Notification) -> Filter {
    #[derive(Deserialize)]
    struct Acknowledged {
        #[serde(default)]
        notifications: Filter,
    }
    let params = said.params.as_deref().unwrap_or("{}");
    serde_json::from_str::<Acknowledged>(params)
        .map_or_else(|_| Filter::default(), |it| it.notifications)
}

/// A subscription under way.
struct Asked {
    frames: Frames,
    fate: Fate,
    link: Arc<Link>,
    since: Instant,
}
