//! Lists as bytes: encoded once for a catalog, a revision and a page.

use crate::{
    auth::View,
    runtime::{
        Runtime,
        call::{ListKind, Listing},
        catalog::Catalog,
    },
    sync::lock,
};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};
use zcp_wire::{
    ResultText, Revision, RpcError,
    downgrade::downgrade,
    mcp::{Body, Page, Reply, resources::Resource},
};

/// Results already encoded.
#[derive(Debug, Default)]
pub(super) struct Lists {
    encoded: Mutex<Encoded>,
}

#[derive(Debug, Default)]
struct Encoded {
    /// Of everything, which most callers see.
    all: Pages,
    views: HashMap<View, Pages>,
}

/// Pages of one view, of its newest catalog.
#[derive(Debug, Default)]
struct Pages {
    catalog: Option<Arc<Catalog>>,
    /// The key of their cursors.
    sealed_with: [u8; 4],
    pages: HashMap<(ListKind, Revision, Option<String>), ResultText>,
    /// Bytes of all pages.
    size: usize,
}

/// What cursors of folders are bound to.
const FOLDER: &[u8] = b"cursor:folder";
/// Pages of one view that are kept: more than any client asks for between two changes.
const KEEP: usize = 4096;
/// Bytes of one view's pages that are kept.
const KEEP_BYTES: usize = 16 * 1024 * 1024;
/// Views that are kept beside that of everything.
const VIEWS: usize = 64;

impl Lists {
    /// The result of a list request.
    pub(super) fn page(
        &self,
        runtime: &Runtime,
        revision: Revision,
        listing: &Listing,
    ) -> ResultText {
        let mut encoded = lock(&self.encoded);
        let pages = match listing.view.name() {
            None => &mut encoded.all,
            Some(_) => {
                let known = encoded.views.contains_key(&listing.view);
                if !known && encoded.views.len() >= VIEWS {
                    encoded.views.clear();
                }
                encoded.views.entry(listing.view.clone()).or_default()
            }
        };
        pages.page(runtime, revision, listing)
    }
}

impl Pages {
    fn page(&mut self, runtime: &Runtime, revision: Revision, listing: &Listing) -> ResultText {
        let key = runtime.keys.current_id();
        let same_key = self.sealed_with == key;
        let same = |held: &Arc<Catalog>| same_key && Arc::ptr_eq(held, &listing.catalog);
        let full = self.pages.len() >= KEEP || self.size >= KEEP_BYTES;
        if !self.catalog.as_ref().is_some_and(same) || full {
            self.pages.clear();
            (self.size, self.sealed_with) = (0, key);
            self.catalog = Some(listing.catalog.clone());
        }
        match self.pages.entry((listing.kind, revision, listing.after.clone())) {
            Entry::Occupied(held) => held.get().clone(),
            Entry::Vacant(place) => {
                let page = place.insert(encode(runtime, revision, listing));
                self.size += page.len();
                page.clone()
            }
        }
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
    let next_cursor = next.map(|after| seal_cursor(runtime, listing, after));
    Page { items: shown, next_cursor }
}

/// Cursors name the last item seen, so that a list may change between two pages.
fn seal_cursor(runtime: &Runtime, listing: &Listing, after: &str) -> String {
    runtime.keys.seal_stable(after.as_bytes(), bound_to(listing.kind, &listing.view).as_bytes())
}

pub(super) fn open_cursor(
    runtime: &Runtime,
    kind: ListKind,
    view: &View,
    cursor: &str,
) -> Result<String, RpcError> {
    let opened = runtime.keys.open(cursor, bound_to(kind, view).as_bytes());
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

fn bound_to(kind: ListKind, view: &View) -> String {
    match view.name() {
        None => format!("cursor:{kind:?}"),
        Some(view) => format!("cursor:{kind:?} {view}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_kept_for_a_limited_number_of_views() {
        let runtime = crate::Server::new("test").build().unwrap();
        let lists = Lists::default();
        for number in 0..2 * VIEWS {
            let listing = Listing {
                catalog: runtime.catalog(),
                kind: ListKind::Tools,
                after: None,
                size: 10,
                view: View::new(number.to_string()),
            };
            lists.page(&runtime, Revision::V2026_07_28, &listing);
            assert!(lists.encoded.lock().unwrap().views.len() <= VIEWS);
        }
    }
}
