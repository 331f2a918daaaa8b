//! What both sides agreed on when a conversation was opened, in bounded room.

use crate::sync::lock;
use serde_json::{Map, Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};
use zcp_wire::{
    Revision,
    mcp::{capabilities::ClientCapabilities, lifecycle::Implementation},
    revision::Elicitation,
};

/// Values that are remembered of a client's capabilities as they were declared.
const VALUES: usize = 64;
/// Values that an object with members counts for beside them: it takes more memory than they do.
const OBJECT: usize = 3;
/// Bytes of names and texts in them.
const BYTES: usize = 2 * 1024;
/// Bytes that are remembered of each text of a client's name.
const NAME: usize = 256;
/// Handshakes that are remembered, to be shared.
const SHARED: usize = 64;

/// What both sides agreed on. Sessions of equal clients share one.
#[derive(Debug, PartialEq)]
pub(crate) struct Handshake {
    pub(crate) revision: Revision,
    /// What the client declared, as far as the revision has it.
    pub(crate) capabilities: Arc<ClientCapabilities>,
    /// All that it declared, as JSON text: maps of maps take many times its bytes.
    declared: Box<str>,
    pub(crate) client: Arc<Implementation>,
}

/// The newest handshakes.
#[derive(Debug, Default)]
pub(crate) struct Handshakes(Mutex<VecDeque<Arc<Handshake>>>);

impl Handshakes {
    /// What is remembered of a handshake.
    pub(super) fn share(
        &self,
        revision: Revision,
        mut declared: ClientCapabilities,
        mut client: Implementation,
    ) -> Arc<Handshake> {
        shrink(&mut declared);
        shorten(&mut client);
        let made = Handshake {
            revision,
            declared: json!(declared).to_string().into_boxed_str(),
            capabilities: Arc::new(downgraded(declared, revision)),
            client: Arc::new(client),
        };
        let mut all = lock(&self.0);
        if let Some(known) = all.iter().find(|known| ***known == made) {
            return known.clone();
        }
        let shared = Arc::new(made);
        if all.len() >= SHARED {
            all.pop_front();
        }
        all.push_back(shared.clone());
        shared
    }
}

impl Handshake {
    /// What the client declared.
    pub(super) fn declared(&self) -> ClientCapabilities {
        serde_json::from_str(&self.declared).unwrap_or_default()
    }
}

/// What of the declared capabilities a revision has.
fn downgraded(mut capabilities: ClientCapabilities, revision: Revision) -> ClientCapabilities {
    match revision.elicitation() {
        Elicitation::None => drop(capabilities.0.remove("elicitation")),
        Elicitation::Form => {
            let modes = capabilities.0.get_mut("elicitation");
            modes.and_then(Value::as_object_mut).into_iter().for_each(|modes| modes.clear());
        }
        _ => (),
    }
    // What came without being declared.
    let sampling = capabilities.0.get_mut("sampling").and_then(Value::as_object_mut);
    if let Some(sampling) = sampling.filter(|_| !revision.declares_sampling_context()) {
        sampling.entry("context").or_insert_with(|| json!({}));
    }
    capabilities
}

/// Keeps all of what is small, and of anything else what the protocol asks for: which capabilities
/// there are, their modes, and the names of extensions.
pub(super) fn shrink(declared: &mut ClientCapabilities) {
    let mut room = Room { values: VALUES, bytes: BYTES };
    if room.takes_all(&declared.0) {
        return;
    }
    let mut room = Room { values: VALUES, bytes: BYTES };
    let mut kept = Map::new();
    for name in ["roots", "sampling", "elicitation", "tasks", "extensions"] {
        let Some(Value::Object(members)) = declared.0.get(name) else { continue };
        let mut modes = Map::new();
        for mode in members.keys().filter(|mode| room.takes(mode)) {
            modes.insert(mode.clone(), json!({}));
        }
        kept.insert(name.to_owned(), Value::Object(modes));
    }
    declared.0 = kept;
}

/// What may still be remembered.
struct Room {
    values: usize,
    bytes: usize,
}

impl Room {
    fn takes(&mut self, text: &str) -> bool {
        let fits = self.values > 0 && self.bytes >= text.len();
        if fits {
            self.values -= 1;
            self.bytes -= text.len();
        }
        fits
    }

    fn takes_all(&mut self, members: &Map<String, Value>) -> bool {
        if !members.is_empty() {
            let Some(values) = self.values.checked_sub(OBJECT) else { return false };
            self.values = values;
        }
        members.iter().all(|(name, value)| self.takes(name) && self.takes_value(value))
    }

    fn takes_value(&mut self, value: &Value) -> bool {
        match value {
            Value::Object(members) => self.takes_all(members),
            Value::Array(items) => {
                items.iter().all(|item| self.takes("") && self.takes_value(item))
            }
            Value::String(text) => self.takes(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }
}

/// A client is shown by its name, in words; its pictures are nobody's here.
fn shorten(client: &mut Implementation) {
    client.icons = vec![];
    let Implementation { name, version, title, description, website_url, icons: _ } = client;
    let texts =
        [Some(name), Some(version), title.as_mut(), description.as_mut(), website_url.as_mut()];
    for text in texts.into_iter().flatten() {
        let end = (0..=NAME.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(declared: &Value) -> Arc<Handshake> {
        let declared = ClientCapabilities(declared.as_object().cloned().unwrap_or_default());
        let client = Implementation { name: "n".repeat(9000), ..Implementation::default() };
        Handshakes::default().share(Revision::LATEST_HANDSHAKE, declared, client)
    }

    #[test]
    fn usual_capabilities_are_remembered_as_declared() {
        let usual = json!({
            "roots": { "listChanged": true }, "sampling": { "tools": {} }, "experimental": { "x": [1, 2] },
            "elicitation": { "form": {}, "url": {} }, "extensions": { "a/b": { "types": ["text/html"] } },
            "tasks": { "list": {}, "cancel": {}, "requests": {
                "sampling": { "createMessage": {} }, "elicitation": { "create": {} },
            } },
        });
        assert_eq!(json!(shared(&usual).declared()), usual);
    }

    #[test]
    fn of_huge_capabilities_the_known_ones_are_remembered() {
        let huge = json!({
            "experimental": { "7": vec![0; 8000] }, "roots": { "listChanged": true, "x": vec![0; 8000] },
            "elicitation": { "form": {}, "url": {} }, "extensions": { "a/b": { "more": "x".repeat(9000) } },
        });
        let kept = shared(&huge);
        assert!(
            kept.capabilities.roots()
                && kept.capabilities.url()
                && kept.capabilities.extension("a/b")
        );
        assert!(kept.declared.len() < BYTES);
        assert_eq!(kept.client.name.len(), NAME);
    }

    #[test]
    fn of_objects_in_objects_few_are_remembered() {
        let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!({ "x": inner }));
        assert!(shared(&json!({ "experimental": nested(14) })).declared.contains("experimental"));
        assert_eq!(&*shared(&json!({ "experimental": nested(20) })).declared, "{}");
    }
}
