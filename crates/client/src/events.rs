//! What a server says beside its answers.

use crate::{
    answering::Answering,
    builder::Settings,
    connect::Server,
    limits,
    listen::Change,
    transport::{Headers, Opened},
};
use ::http::Extensions;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use zcp_wire::{Frame, Notification, Peer, revision::Era};

/// Tells the server something.
pub(crate) async fn notify(peer: &dyn Peer, server: &Server, method: &'static str) {
    let mut extensions = Extensions::new();
    extensions.insert(Headers(server.headers()));
    let said = Notification { method: method.into(), params: None };
    let mut sent = peer.send(Frame::Notification(said), extensions);
    while sent.next().await.is_some() {}
}

/// Takes what answers no request, for as long as the way is open.
pub(crate) fn hear(settings: Arc<Settings>, opened: &Opened, era: Era, lost: Arc<AtomicBool>) {
    let (peer, is_over) = (opened.peer.clone(), opened.ends_with_events);
    let mut events = peer.events();
    opened.end.spawn(|stop| async move {
        let hearing = async {
            let mut answering = Answering::default();
            loop {
                let frame = tokio::select! {
                    frame = events.next() => frame,
                    () = answering.one() => continue,
                };
                match frame {
                    None => break,
                    Some(Frame::Notification(said)) => {
                        if !answering.withdraw(&said) {
                            heard(&settings, &said);
                        }
                    }
                    Some(Frame::Request(question)) if era == Era::Handshake => {
                        answering.begin(&settings, &*peer, question);
                    }
                    Some(_) => (),
                }
            }
        };
        let has_ended = stop.run_until_cancelled(hearing).await.is_some();
        if has_ended && is_over {
            lost.store(true, Ordering::Relaxed);
            settings.changed(Change::All);
        }
    });
}

fn heard(settings: &Settings, said: &Notification) {
    if let Some(change) = Change::of(said) {
        return settings.changed(change);
    }
    let params = said.params.as_deref().unwrap_or("{}");
    if &*said.method == "notifications/message"
        && let (Some(hear), Ok(message)) =
            (&settings.on_log, limits::read(params, limits::QUESTION_VALUES))
    {
        hear(message);
    }
}
