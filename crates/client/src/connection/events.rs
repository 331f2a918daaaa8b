//! What a server says beside its answers.

use super::{client_profile::Settings, dialect::version_header};
use crate::{
    request::{answering::Answering, change::Change},
    transport::{Headers, Opened},
};
use ::http::Extensions;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use zcp_wire::{Frame, Method, Notification, Peer, Revision, revision::Questions};

/// Tells the server something.
pub(super) async fn notify(peer: &dyn Peer, revision: Revision, method: Method) {
    let mut extensions = Extensions::new();
    extensions.insert(Headers(version_header(revision)));
    let said = Notification { method: method.into(), params: None };
    let mut sent = peer.send(Frame::Notification(said), extensions);
    while sent.next().await.is_some() {}
}

/// Takes what answers no request, for as long as the way is open.
pub(super) fn hear(
    settings: Arc<Settings>,
    opened: &Opened,
    questions: Questions,
    lost: Arc<AtomicBool>,
) {
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
                    Some(Frame::Request(question)) if questions == Questions::AsRequests => {
                        answering.begin(&settings.handlers, &*peer, question);
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
    match Change::of(said) {
        Some(change) => settings.changed(change),
        None => settings.handlers.log(said),
    }
}
