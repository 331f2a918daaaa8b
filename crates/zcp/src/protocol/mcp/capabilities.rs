//! What the server offers: its capabilities, computed from what is there.

use super::{
    listen::TASKS,
    session::{SUBSCRIBED_BYTES, SUBSCRIPTIONS},
    tasks,
};
use crate::runtime::Runtime;
use serde_json::json;
use zcp_wire::{
    Method, Revision,
    mcp::{
        Body, Extra, Reply,
        capabilities::{Empty, ListCapability, ServerCapabilities},
        lifecycle::{DiscoverResult, InitializeResult},
        skills,
        subscriptions::Filter,
        tasks::EXTENSION,
    },
    method::Capability,
};

/// The revisions this server speaks.
pub(crate) fn versions(runtime: &Runtime) -> Vec<&'static str> {
    match runtime.settings.handshake {
        true => Revision::ALL.map(Revision::as_str).to_vec(),
        false => Revision::STATELESS.to_vec(),
    }
}

pub(super) fn declared(runtime: &Runtime) -> ServerCapabilities {
    let catalog = runtime.catalog();
    let live = runtime.is_live;
    let list = |there: bool, subscribe: bool| {
        (live || there).then_some(ListCapability { list_changed: live, subscribe })
    };

    let mut extensions = runtime.settings.extensions.clone();
    if live || catalog.has_tools() {
        extensions.insert(EXTENSION.to_owned(), json!({}));
    }
    if catalog.has_skills() {
        extensions.insert(skills::EXTENSION.to_owned(), json!({ "directoryRead": true }));
    }
    ServerCapabilities {
        tools: list(catalog.has_tools(), false),
        resources: list(catalog.has_resources(), catalog.is_watched()),
        prompts: list(catalog.has_prompts(), false),
        completions: catalog.completes().then_some(Empty {}),
        tasks: tasks::asks(runtime).then(asked_tasks),
        logging: Some(Empty {}),
        experimental: Default::default(),
        extensions,
    }
}

fn asked_tasks() -> Extra {
    let tasks = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    tasks.as_object().cloned().unwrap_or_default()
}

/// Whether the server offers what a method needs, in a revision that has the method.
pub(super) fn offers(runtime: &Runtime, revision: Revision, method: Method) -> bool {
    let Some(needed) = method.row().needs else { return method.is_in(revision) };
    let (catalog, live) = (runtime.catalog(), runtime.is_live);
    let offered = match needed {
        Capability::Tools => live || catalog.has_tools(),
        Capability::Prompts => live || catalog.has_prompts(),
        Capability::Skills => catalog.has_skills(),
        Capability::Subscribe => catalog.is_watched(),
        Capability::Resources => live || catalog.has_resources(),
        Capability::Completions => catalog.completes(),
        Capability::Changes => live || catalog.is_watched() || catalog.has_tools(),
        Capability::Tasks if revision.asks_for_tasks() => tasks::asks(runtime),
        Capability::Tasks => live || catalog.has_tools(),
        // What a client declares is not the server's to offer: no operation has such a method.
        _ => true,
    };
    offered && method.is_in(revision)
}

pub(super) fn initialize(runtime: &Runtime, revision: Revision) -> Reply {
    Reply::new(Body::Initialize(Box::new(InitializeResult {
        protocol_version: revision.as_str().to_owned(),
        capabilities: declared(runtime),
        server_info: runtime.info.clone(),
        instructions: runtime.instructions.clone(),
    })))
}

pub(super) fn discover(runtime: &Runtime) -> Reply {
    let mut reply = Reply::new(Body::Discover(Box::new(DiscoverResult {
        supported_versions: Revision::STATELESS.iter().map(|date| (*date).to_owned()).collect(),
        capabilities: declared(runtime),
        instructions: runtime.instructions.clone(),
    })));
    reply.cache = Some(runtime.settings.list_cache);
    reply
}

/// The part of what a client wants to hear of that this server tells.
pub(super) fn honoured(runtime: &Runtime, wanted: Filter) -> Filter {
    let offered = declared(runtime);
    let told = |list: Option<ListCapability>| list.is_some_and(|list| list.list_changed);
    let subscribe = offered.resources.is_some_and(|resources| resources.subscribe);
    Filter {
        tools_list_changed: wanted.tools_list_changed && told(offered.tools),
        prompts_list_changed: wanted.prompts_list_changed && told(offered.prompts),
        resources_list_changed: wanted.resources_list_changed && told(offered.resources),
        resource_subscriptions: match subscribe {
            true => known(runtime, wanted.resource_subscriptions),
            false => vec![],
        },
        task_ids: distinct(wanted.task_ids),
    }
}

/// Tasks that one stream tells of, each once. First of all: layers decide about each.
fn distinct(mut ids: Vec<String>) -> Vec<String> {
    ids.truncate(TASKS);
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The resources that are there, of a number that can be told of.
fn known(runtime: &Runtime, mut wanted: Vec<String>) -> Vec<String> {
    // First: looking up a URI takes time that grows with the templates.
    wanted.truncate(SUBSCRIPTIONS);
    let catalog = runtime.catalog();
    let mut bytes = 0;
    wanted.retain(|uri| {
        bytes += uri.len();
        bytes <= SUBSCRIBED_BYTES && catalog.find_resource(uri).is_some()
    });
    wanted
}
