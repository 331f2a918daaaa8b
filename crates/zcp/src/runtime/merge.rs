//! The catalogs of a server as one, for as long as they change.

use super::{
    background::Background,
    call::ListKind,
    catalog::{Catalog, Map, clash},
    changes::{Change, Changes},
    gate::Gate,
    provider::Provider,
    resource::ReadyResource,
};
use futures_util::{FutureExt, Stream, StreamExt};
use http::Extensions;
use std::{
    collections::{HashSet, btree_map::Entry},
    sync::Arc,
};
use tokio::{runtime::Handle, sync::watch};

/// Clashes that are logged one by one; of more, only the number is.
const LOGGED: usize = 20;

/// The own catalog and those of the providers as one, followed for as long as the background lives.
pub(super) fn watch_catalogs(
    own: Catalog,
    providers: &[Box<dyn Provider>],
    gates: Vec<Arc<dyn Gate>>,
    changes: Changes,
    state: Arc<Extensions>,
) -> (watch::Receiver<Arc<Catalog>>, Option<Background>) {
    let open = providers.iter().map(|provider| (provider.catalog(), true)).collect();
    let gates = gates.into_iter().map(|gate| (gate.changes(), true, gate)).collect();
    let mut merging = Merging { own, providers: open, gates };
    let first = merging.merged();
    let mut told = warn_of_clashes(&first, &HashSet::new());
    let (sender, receiver) = watch::channel(first);
    if providers.is_empty() && merging.gates.is_empty() {
        return (receiver, None);
    }
    let (watching, handle) = (Background::new(), Handle::current());
    let updated = futures_util::stream::select_all(providers.iter().map(|one| one.updated()));
    watching.spawn(&handle, announce(updated, changes.clone()));
    watching.spawn(&handle, async move {
        while merging.changed().await {
            let (before, after) = (sender.borrow().clone(), merging.merged());
            for mistake in after.mistakes(&state) {
                tracing::error!("left out, or will fail: {mistake}");
            }
            told = warn_of_clashes(&after, &told);
            sender.send_replace(after.clone());
            for change in differences(&before, &after) {
                if let Err(error) = changes.announce(&change).await {
                    tracing::error!("a change could not be announced: {error}");
                }
            }
        }
    });
    (receiver, Some(watching))
}

/// Tells of resources that changed.
async fn announce(mut updated: impl Stream<Item = String> + Unpin, changes: Changes) {
    while let Some(uri) = updated.next().await {
        if let Err(error) = changes.announce(&Change::Updated(uri)).await {
            tracing::error!("a change could not be announced: {error}");
        }
    }
}

/// Logs what is left out because its name or URI was taken, unless that was logged before.
fn warn_of_clashes(catalog: &Catalog, before: &HashSet<String>) -> HashSet<String> {
    let new: Vec<_> = catalog.clashes.iter().filter(|clash| !before.contains(*clash)).collect();
    new.iter().take(LOGGED).for_each(|clash| tracing::warn!("left out: {clash}"));
    if new.len() > LOGGED {
        tracing::warn!("left out: {} more whose names or URIs are taken", new.len() - LOGGED);
    }
    catalog.clashes.iter().cloned().collect()
}

/// The catalogs that make up the whole.
struct Merging {
    own: Catalog,
    /// In the order they were added in, which decides between two of one name; and whether each
    /// can still change. Providers that are gone leave their last catalogs behind.
    providers: Vec<(watch::Receiver<Arc<Catalog>>, bool)>,
    /// What stands before the tools of all of them, with changes of what it offers, and whether
    /// there can still be any.
    gates: Vec<(watch::Receiver<u64>, bool, Arc<dyn Gate>)>,
}

impl Merging {
    fn merged(&mut self) -> Arc<Catalog> {
        let mut all = self.own.clone();
        for (provider, _) in &mut self.providers {
            all.merge(&provider.borrow_and_update());
        }
        for (decided, _, gate) in &mut self.gates {
            decided.borrow_and_update();
            all = all.behind(gate);
        }
        Arc::new(all)
    }

    /// Waits for a change; false when there can be none any more.
    async fn changed(&mut self) -> bool {
        loop {
            let offered = self.providers.iter_mut();
            let offered = offered.map(|(it, open)| (open, it.changed().boxed()));
            let decided = self.gates.iter_mut();
            let decided = decided.map(|(it, open, _)| (open, it.changed().boxed()));
            let (mut open, changed): (Vec<_>, Vec<_>) =
                offered.chain(decided).filter(|(open, _)| **open).unzip();
            if open.is_empty() {
                return false;
            }
            let (result, index, _) = futures_util::future::select_all(changed).await;
            if result.is_ok() {
                return true;
            }
            *open[index] = false;
        }
    }
}

impl Catalog {
    /// Adds what another catalog has. Of two with one name the first stays, and the other is
    /// noted as a clash; a fallback never stays in the way of something that is none.
    pub fn merge(&mut self, other: &Self) {
        merge(&mut self.tools, &other.tools, "tool", &mut self.clashes);
        self.index(other.tools.keys().cloned());
        for (name, tool) in &other.refused_tools {
            self.refused_tools.entry(name.clone()).or_insert_with(|| tool.clone());
        }
        self.merge_resources(other);
        merge(&mut self.prompts, &other.prompts, "prompt", &mut self.clashes);
        merge(&mut self.skills, &other.skills, "skill", &mut self.clashes);
        for (name, completer) in &other.completers {
            // Nobody completes what is somebody else's.
            if is_of(&self.prompts, &other.prompts, name)
                && is_of(&self.templates, &other.templates, name)
            {
                self.completers.entry(name.clone()).or_insert_with(|| completer.clone());
            }
        }
        self.watched |= other.watched;
        self.completes |= other.completes;
        self.mirrors |= other.mirrors;
        self.long |= other.long;
        self.needs.extend(other.needs.iter().cloned());
        self.mistakes.extend(other.mistakes.iter().cloned());
        self.clashes.extend(other.clashes.iter().cloned());
    }

    fn merge_resources(&mut self, other: &Self) {
        for (uri, one) in &other.resources {
            // A fallback that something else would be read for is not listed either.
            if one.is_fallback() && self.fitting(uri).is_some() {
                self.clashes.push(clash("resource", uri));
            } else {
                add(&mut self.resources, uri, one, &mut self.clashes);
            }
        }
        for (uri, one) in &other.templates {
            add(&mut self.templates, uri, one, &mut self.clashes);
        }
        // Nobody is told of these, so two of them do not contradict each other.
        for (uri, one) in &other.unlisted {
            self.unlisted.entry(uri.clone()).or_insert_with(|| one.clone());
        }
    }
}

fn add(
    into: &mut Map<ReadyResource>,
    uri: &str,
    one: &Arc<ReadyResource>,
    clashes: &mut Vec<String>,
) {
    match into.entry(uri.to_owned()) {
        Entry::Vacant(place) => drop(place.insert(one.clone())),
        Entry::Occupied(mut taken) => {
            clashes.push(clash("resource", uri));
            if taken.get().is_fallback() && !one.is_fallback() {
                taken.insert(one.clone());
            }
        }
    }
}

fn merge<T>(into: &mut Map<T>, from: &Map<T>, what: &str, clashes: &mut Vec<String>) {
    for (name, item) in from {
        match into.entry(name.clone()) {
            Entry::Occupied(_) => clashes.push(clash(what, name)),
            Entry::Vacant(place) => drop(place.insert(item.clone())),
        }
    }
}

/// Whether what has this name in the whole, if anything has, came from this part.
fn is_of<T>(all: &Map<T>, part: &Map<T>, name: &str) -> bool {
    let Some(one) = all.get(name) else { return true };
    part.get(name).is_some_and(|theirs| Arc::ptr_eq(theirs, one))
}

fn differences(before: &Catalog, after: &Catalog) -> Vec<Change> {
    let differ = |kind| before.digest(kind) != after.digest(kind);
    let mut changes = vec![];
    if differ(ListKind::Tools) {
        changes.push(Change::Tools);
    }
    if differ(ListKind::Prompts) {
        changes.push(Change::Prompts);
    }
    // Skills are found among the resources; there is no word for their list of its own.
    let resources = [ListKind::Resources, ListKind::Templates, ListKind::Skills];
    if resources.into_iter().any(differ) {
        changes.push(Change::Resources);
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{resource::Resource, tool::Tool};

    fn resource(uri: &str, text: &'static str) -> Resource {
        Resource::new(uri, move || async move { text }).name(text)
    }

    fn found(all: &Catalog, uri: &str) -> Option<String> {
        all.find_resource(uri).map(|(one, _)| one.info().name.clone())
    }

    #[test]
    fn a_clash_is_told_in_one_short_line() {
        let told = clash("resource", &format!("a://\nERROR forged\r{}", "x".repeat(9000)));
        assert!(told.starts_with(r"resource `a://\nERROR forged\r"), "{told}");
        assert!(told.len() < 300 && !told.contains(['\n', '\r']), "{told}");
    }

    #[test]
    fn a_fallback_is_read_when_nothing_else_fits() {
        let own = Catalog::default()
            .resource(resource("a://{+x}", "own").unlisted())
            .resource(resource("b://1", "own"));
        let foreign = Catalog::default()
            .resource(resource("a://listed", "foreign").fallback())
            .resource(resource("a://deep/{x}", "foreign").fallback())
            .resource(resource("b://1", "foreign").fallback())
            .resource(resource("b://2", "foreign").fallback());
        for order in [[&own, &foreign], [&foreign, &own]] {
            let mut all = Catalog::default();
            order.into_iter().for_each(|one| all.merge(one));
            for uri in ["a://listed", "a://deep/1", "b://1"] {
                assert_eq!(found(&all, uri).as_deref(), Some("own"), "{uri}");
            }
            assert_eq!(found(&all, "b://2").as_deref(), Some("foreign"));
        }
    }

    #[tokio::test]
    async fn a_clash_with_a_provider_does_not_stop_the_server() {
        let live = |text: &'static str| {
            let live = crate::Live::default();
            live.set(
                Catalog::default()
                    .tool(Tool::new("t", async || "provided"))
                    .resource(resource("a://1", text)),
            );
            live
        };
        let server = || crate::Server::new("test").tool(Tool::new("t", async || "own"));
        let runtime = server().provide(live("first")).provide(live("second")).build().unwrap();
        let catalog = runtime.catalog();
        assert_eq!(catalog.clashes.len(), 3, "{:?}", catalog.clashes);
        assert_eq!(found(&catalog, "a://1").as_deref(), Some("first"));
        // What the program itself adds twice is its mistake.
        assert!(server().tool(Tool::new("t", async || "again")).build().is_err());
    }
}
