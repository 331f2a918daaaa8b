//! Lists as bytes: encoded once for a catalog, a revision and a page.

use crate::runtime::{
    Runtime,
    call::{ListKind, Listing},
    catalog::Catalog,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};
use zcp_wire::{
    ResultText, Revision, RpcError,
    mcp::{Body, Page, Reply, resources::Resource},
    revision::downgrade,
};

/// Results already encoded, of the newest catalog.
#[derive(Debug, Default)]
pub(super) struct Lists {
    encoded: Mutex<Encoded>,
}

#[derive(Debug, Default)]
struct Encoded {
    catalog: Option<Arc<Catalog>>,
    /// The key of their cursors.
    sealed_with: [u8; 4],
    pages: HashMap<(ListKind, Revision, Option<String>), ResultText>,
}

/// What cursors of folders are bound to.
const FOLDER: &[u8] = b"cursor:folder";
/// Pages kept at most: more than any client asks for between two changes.
const KEEP: usize = 4096;

impl Lists {
    /// The result of a list request.
    pub(super) fn page(
        &self,
        runtime: &Runtime,
        revision: Revision,
        listing: &Listing,
    ) -> ResultText {
        let key = (listing.kind, revision, listing.after.clone());
        let mut encoded = self.encoded.lock().unwrap_or_else(PoisonError::into_inner);
        let key_id = runtime.keys.current_id();
        let same_key = encoded.sealed_with == key_id;
        let same = |held: &Arc<Catalog>| same_key && Arc::ptr_eq(held, &listing.catalog);
        if !encoded.catalog.as_ref().is_some_and(same) || encoded.pages.len() >= KEEP {
            encoded.pages.clear();
            encoded.catalog = Some(listing.catalog.clone());
            encoded.sealed_with = key_id;
        }
        encoded.pages.entry(key).or_insert_with(|| encode(runtime, revision, listing)).clone()
    }
}

fn encode(runtime: &Runtime, revision: Revision, listing: &Listing) -> ResultText {
    let catalog = &listing.catalog;
    let after = listing.after.as_deref();
    let body = match listing.kind {
        ListKind::Tools => {
            Body::Tools(page(runtime, listing, catalog.tools(after), |tool| tool.info.clone()))
        }
        ListKind::Prompts => {
            Body::Prompts(page(runtime, listing, catalog.prompts(after), |one| one.info().clone()))
        }
        ListKind::Resources => {
            let items = catalog.resources(after);
            Body::Resources(page(runtime, listing, items, |one| one.info().clone()))
        }
        ListKind::Templates => {
            let items = catalog.templates(after);
            Body::Templates(page(runtime, listing, items, |one| one.template_info()))
        }
        ListKind::Skills => {
            Body::Skills(page(runtime, listing, catalog.skills(after), Clone::clone))
        }
    };
    let mut reply = Reply::new(body);
    reply.cache = Some(runtime.settings.list_cache);
    reply.meta.server_info = Some(runtime.info_json.clone());
    downgrade(&mut reply, revision);
    let mut text = String::with_capacity(reply.length());
    reply.write(&mut text);
    ResultText::closed(text)
}

/// The first items, and a cursor if there are more.
fn page<'a, T: 'a, U>(
    runtime: &Runtime,
    listing: &Listing,
    items: impl Iterator<Item = (&'a str, &'a T)>,
    show: impl Fn(&T) -> U,
) -> Page<U> {
    let mut items = items.peekable();
    let (mut shown, mut last) = (vec![], None);
    while shown.len() < listing.size
        && let Some((name, item)) = items.next()
    {
        shown.push(show(item));
        last = Some(name);
    }
    let next = last.filter(|_| items.peek().is_some());
    let next_cursor = next.map(|after| seal_cursor(runtime, listing.kind, after));
    Page { items: shown, next_cursor }
}

/// Cursors name the last item seen, so that a list may change between two pages.
fn seal_cursor(runtime: &Runtime, kind: ListKind, after: &str) -> String {
    runtime.keys.seal_stable(after.as_bytes(), bound_to(kind).as_bytes())
}

pub(super) fn open_cursor(
    runtime: &Runtime,
    kind: ListKind,
    cursor: &str,
) -> Result<String, RpcError> {
    let opened = runtime.keys.open(cursor, bound_to(kind).as_bytes());
    opened.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(|| {
        RpcError::invalid_params("`cursor` is not one of this list: start again without it")
    })
}

/// What is in a folder, as a page of resources.
pub(super) fn folder(
    runtime: &Runtime,
    items: Vec<Resource>,
    next: Option<&String>,
) -> Page<Resource> {
    let seal = |after: &String| runtime.keys.seal_stable(after.as_bytes(), FOLDER);
    Page { items, next_cursor: next.map(seal) }
}

pub(super) fn open_folder_cursor(runtime: &Runtime, cursor: &str) -> Result<String, RpcError> {
    let opened = runtime.keys.open(cursor, FOLDER).and_then(|bytes| String::from_utf8(bytes).ok());
    opened.ok_or_else(|| {
        RpcError::invalid_params("`cursor` is not one of this folder: start again without it")
    })
}

fn bound_to(kind: ListKind) -> String {
    format!("cursor:{kind:?}")
}
