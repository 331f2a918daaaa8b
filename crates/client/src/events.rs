//! What a server says beside its answers.

use crate::{
    builder::Settings,
    connect::Server,
    exchange::reply,
    listen::Change,
    transport::{Headers, Opened},
};
use ::http::Extensions;
use futures_util::{
    StreamExt,
    future::{AbortHandle, abortable},
    stream::FuturesUnordered,
};
use serde::Deserialize;
use std::{collections::HashMap, sync::Arc};
use zcp_wire::{Frame, Id, Notification, Peer, revision::Era};

/// Questions that are answered at the same time; later ones wait.
const QUESTIONS: usize = 64;

/// Tells the server something.
pub(crate) async fn notify(peer: &dyn Peer, server: &Server, method: &'static str) {
    let mut extensions = Extensions::new();
    extensions.insert(Headers(server.headers()));
    let said = Notification { method: method.into(), params: None };
    let mut sent = peer.send(Frame::Notification(said), extensions);
    while sent.next().await.is_some() {}
}

/// Takes what answers no request, for as long as the way is open.
pub(crate) fn hear(settings: Arc<Settings>, opened: &Opened, era: Era) {
    let peer = opened.peer.clone();
    let mut events = peer.events();
    opened.end.spawn(|stop| async move {
        let mut answering = FuturesUnordered::new();
        let mut open: HashMap<Id, AbortHandle> = HashMap::new();
        let hearing = async {
            loop {
                tokio::select! {
                    frame = events.next(), if answering.len() < QUESTIONS => match frame {
                        None => break,
                        Some(Frame::Notification(said)) => match withdrawn(&said) {
                            Some(id) => drop(open.remove(&id).inspect(AbortHandle::abort)),
                            None => heard(&settings, &said),
                        },
                        Some(Frame::Request(question)) if era == Era::Handshake => {
                            let id = question.id.clone();
                            let (answer, handle) = abortable(reply(&settings, &*peer, question));
                            open.insert(id.clone(), handle);
                            answering.push(async move {
                                let _ = answer.await;
                                id
                            });
                        }
                        Some(Frame::Request(_) | Frame::Response(_)) => (),
                    },
                    Some(answered) = answering.next() => drop(open.remove(&answered)),
                }
            }
            while answering.next().await.is_some() {}
        };
        stop.run_until_cancelled(hearing).await;
    });
}

/// The question that nobody waits for any more.
fn withdrawn(said: &Notification) -> Option<Id> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled {
        request_id: Id,
    }
    if &*said.method != "notifications/cancelled" {
        return None;
    }
    let cancelled: Cancelled = serde_json::from_str(said.params.as_deref()?).ok()?;
    Some(cancelled.request_id)
}

fn heard(settings: &Settings, said: &Notification) {
    if let Some(change) = Change::of(said) {
        return settings.changed(change);
    }
    let params = said.params.as_deref().unwrap_or("{}");
    if &*said.method == "notifications/message"
        && let (Some(hear), Ok(message)) = (&settings.on_log, serde_json::from_str(params))
    {
        hear(message);
    }
}
