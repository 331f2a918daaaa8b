//! A server that plays a part, for rules about what a client says to it.

use serde_json::{Value, json};
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};
use zcp_client::{
    transport::Headers,
    wire::{ByteString, Frame, Frames, Id, Notification, Peer, Response, RpcError},
};

/// What a server says to a request: frames before the answer, and the answer.
pub type Said = (Vec<Frame>, Result<Value, RpcError>);
/// A request: its id, method, parameters and headers.
pub type Asked = (Id, String, Value, http::HeaderMap);
type Play = Arc<dyn Fn(&str, &Value) -> Said + Send + Sync>;

/// A server of 2026-07-28 that plays a part, and remembers what it was asked.
#[derive(Clone)]
pub struct Actor {
    play: Play,
    discovered: Value,
    asked: Arc<Mutex<Vec<Asked>>>,
    answered: Arc<AtomicUsize>,
}

impl Actor {
    /// A server that plays this part.
    pub fn new(play: impl Fn(&str, &Value) -> Said + Send + Sync + 'static) -> Self {
        Self {
            play: Arc::new(play),
            discovered: discovered(),
            asked: Arc::default(),
            answered: Arc::default(),
        }
    }

    /// The same, with something else to say about itself.
    #[must_use]
    pub fn about(mut self, member: &str, value: Value) -> Self {
        self.discovered[member] = value;
        self
    }

    /// All it was asked.
    pub fn all_asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    /// How many messages it got that are no requests.
    pub fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// What it was asked by a method.
    pub fn asked(&self, method: &str) -> Vec<(Value, http::HeaderMap)> {
        let asked = self.asked.lock().expect("no panic");
        let those = asked.iter().filter(|(_, name, ..)| name == method);
        those.map(|(_, _, params, headers)| (params.clone(), headers.clone())).collect()
    }
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Actor(..)")
    }
}

impl Peer for Actor {
    fn send(&self, frame: Frame, extensions: http::Extensions) -> Frames {
        let Frame::Request(request) = frame else {
            self.answered.fetch_add(1, Ordering::Relaxed);
            return Frames::None;
        };
        let params = request.params.as_deref().unwrap_or("{}");
        let params: Value = serde_json::from_str(params).expect("params are JSON");
        let headers = extensions.get::<Headers>().cloned().unwrap_or_default().0;
        let mut asked = self.asked.lock().expect("no panic");
        asked.push((request.id.clone(), request.method.to_string(), params.clone(), headers));
        let (before, answer) = match &*request.method {
            "server/discover" => (vec![], Ok(self.discovered.clone())),
            method => (self.play)(method, &params),
        };
        drop(asked);
        let result = answer.map(|it| ByteString::from(it.to_string()).into());
        let last = Frame::Response(Response { id: Some(request.id), result });
        Frames::stream(futures_util::stream::iter(before.into_iter().chain([last])))
    }

    fn events(&self) -> Frames {
        Frames::None
    }
}

/// What it says to be discovered.
pub fn discovered() -> Value {
    json!({ "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": { "tools": {}, "resources": {} }, "ttlMs": 0, "cacheScope": "private" })
}

/// An answer.
pub fn said(answer: Value) -> Said {
    (vec![], Ok(answer))
}

/// An answer of a tool, in words.
pub fn text(words: &str) -> Said {
    said(json!({ "resultType": "complete", "content": [{ "type": "text", "text": words }] }))
}

/// A refusal.
pub fn refused(code: i64, message: &str) -> Said {
    let error = json!({ "code": code, "message": message });
    (vec![], Err(serde_json::from_value(error).expect("it is an error")))
}

/// Something it says on the way.
pub fn notified(method: &'static str, params: Value) -> Frame {
    let params = Some(ByteString::from(params.to_string()));
    Frame::Notification(Notification { method: method.into(), params })
}
