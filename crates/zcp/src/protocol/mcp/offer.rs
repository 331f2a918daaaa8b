//! What the server offers: its capabilities, computed from what is there.

use super::{
    listen::TASKS,
    session::{SUBSCRIBED_BYTES, SUBSCRIPTIONS},
    tasks,
};
use crate::runtime::Runtime;
use serde_json::json;
use zcp_wire::{
    Revision, RpcError,
    mcp::{
        Body, Extra, Reply,
        capabilities::{Empty, ListCapability, ServerCapabilities},
        lifecycle::{DiscoverResult, InitializeResult},
        skills,
        subscriptions::Filter,
        tasks::EXTENSION,
    },
};

/// The revisions this server speaks.
pub(crate) fn versions(runtime: &Runtime) -> Vec<&'static str> {
    match runtime.settings.handshake {
        true => Revision::ALL.map(Revision::as_str).to_vec(),
        false => Revision::STATELESS.to_vec(),
    }
}

pub(super) fn capabilities(runtime: &Runtime) -> ServerCapabilities {
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

/// Refuses a method the revision does not have, or whose capability is not offered.
pub(super) fn check(runtime: &Runtime, revision: Revision, method: &str) -> Result<(), RpcError> {
    let (catalog, live) = (runtime.catalog(), runtime.is_live);
    let of = |room: &str| method.starts_with(room);
    let offered = match method {
        _ if of("tools/") => live || catalog.has_tools(),
        _ if of("prompts/") => live || catalog.has_prompts(),
        _ if of("skills/") || of("resources/directory/") => catalog.has_skills(),
        _ if of("resources/") && method.ends_with("subscribe") => catalog.is_watched(),
        _ if of("resources/") => live || catalog.has_resources(),
        _ if of("completion/") => catalog.completes(),
        _ if of("subscriptions/") => live || catalog.is_watched() || catalog.has_tools(),
        _ if of("tasks/") && revision.asks_for_tasks() => tasks::asks(runtime),
        _ if of("tasks/") => live || catalog.has_tools(),
        _ => true,
    };
    if offered && revision.has(method) { Ok(()) } else { Err(RpcError::method_not_found(method)) }
}

pub(super) fn initialize(runtime: &Runtime, revision: Revision) -> Reply {
    Reply::new(Body::Initialize(Box::new(InitializeResult {
        protocol_version: revision.as_str().to_owned(),
        capabilities: capabilities(runtime),
        server_info: runtime.info.clone(),
        instructions: runtime.instructions.clone(),
    })))
}

pub(super) fn discover(runtime: &Runtime) -> Reply {
    let mut reply = Reply::new(Body::Discover(Box::new(DiscoverResult {
        supported_versions: Revision::STATELESS.iter().map(|date| (*date).to_owned()).collect(),
        capabilities: capabilities(runtime),
        instructions: runtime.instructions.clone(),
    })));
    reply.cache = Some(runtime.settings.list_cache);
    reply
}

/// The part of what a client wants to hear of that this server tells.
pub(super) fn honoured(runtime: &Runtime, wanted: Filter) -> Filter {
    let offered = capabilities(runtime);
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
