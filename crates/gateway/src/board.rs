//! What all mounts offer, as one catalog, and the state each of them is in.

use crate::{names::Names, state::State};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;
use zcp::{Catalog, ListKind};

/// Clashes that are logged one by one; of more, only the number is.
const LOGGED: usize = 20;
/// The lists in which names must differ, and what their entries are called.
const LISTS: [(ListKind, &str); 5] = [
    (ListKind::Tools, "tool"),
    (ListKind::Prompts, "prompt"),
    (ListKind::Resources, "resource"),
    (ListKind::Templates, "resource"),
    (ListKind::Skills, "skill"),
];

/// What all mounts offer, and their states.
#[derive(Debug)]
pub(crate) struct Board {
    parts: Mutex<Parts>,
    catalog: watch::Sender<Arc<Catalog>>,
    states: watch::Sender<BTreeMap<String, State>>,
}

#[derive(Debug)]
struct Parts {
    /// In the order of the mounts, which decides between two of one name.
    all: Vec<Part>,
    /// The clashes that were logged.
    told: HashSet<String>,
}

/// What one mount offers, under the names it has here.
#[derive(Debug)]
struct Part {
    mount: String,
    catalog: Catalog,
    is_hidden: bool,
}

/// One mount's place on the board.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    board: Arc<Board>,
    index: usize,
    names: Names,
}

impl Board {
    /// A board for mounts of these names, of which nothing is known.
    pub(crate) fn new(mounts: &[String]) -> Self {
        let part = |mount: &String| Part {
            mount: mount.clone(),
            catalog: Catalog::default(),
            is_hidden: false,
        };
        let states = mounts.iter().map(|mount| (mount.clone(), State::Idle)).collect();
        Self {
            parts: Mutex::new(Parts {
                all: mounts.iter().map(part).collect(),
                told: HashSet::new(),
            }),
            catalog: watch::Sender::default(),
            states: watch::Sender::new(states),
        }
    }

    pub(crate) fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    pub(crate) fn states(&self) -> watch::Receiver<BTreeMap<String, State>> {
        self.states.subscribe()
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what one mount offers, and makes one catalog of all.
    fn change(&self, index: usize, change: impl FnOnce(&mut Part)) {
        let mut parts = self.parts();
        change(&mut parts.all[index]);
        let (catalog, clashes) = merged(&parts.all);
        let new: Vec<_> = clashes.iter().filter(|clash| !parts.told.contains(*clash)).collect();
        new.iter().take(LOGGED).for_each(|clash| tracing::warn!("left out: {clash}"));
        if new.len() > LOGGED {
            tracing::warn!("left out: {} more whose names or URIs are taken", new.len() - LOGGED);
        }
        parts.told = clashes.into_iter().collect();
        // Sent while the parts are held: the newest is the last.
        self.catalog.send_replace(Arc::new(catalog));
    }
}

impl Place {
    pub(crate) fn new(board: Arc<Board>, index: usize, names: Names) -> Self {
        Self { board, index, names }
    }

    /// Offers what is chosen of a catalog, under the mount's names.
    pub(crate) fn publish(&self, catalog: &Catalog) {
        let named = catalog.chosen(|kind, name| self.names.name(kind, name));
        self.board.change(self.index, |part| part.catalog = named);
    }

    /// The mount's name.
    pub(crate) fn mount(&self) -> &str {
        self.names.mount()
    }

    /// Offers nothing of the mount, or all of it again.
    pub(crate) fn hide(&self, is_hidden: bool) {
        self.board.change(self.index, |part| part.is_hidden = is_hidden);
    }

    pub(crate) fn report(&self, state: State) {
        let name = self.names.mount();
        tracing::debug!("the mount `{name}` is {state}");
        self.board.states.send_modify(|states| drop(states.insert(name.to_owned(), state)));
    }
}

/// All parts as one, and what was left out because its name or URI was taken.
fn merged(parts: &[Part]) -> (Catalog, Vec<String>) {
    let (mut all, mut clashes) = (Catalog::default(), vec![]);
    let mut owners: HashMap<(ListKind, String), &str> = HashMap::new();
    for part in parts.iter().filter(|part| !part.is_hidden) {
        let mut taken = HashSet::new();
        for (kind, what) in LISTS {
            for name in part.catalog.names(kind) {
                let key = (kind, name.to_owned());
                let Some(first) = owners.get(&key) else {
                    owners.insert(key, &part.mount);
                    continue;
                };
                clashes.push(format!(
                    "{what} `{name}` is there twice: the first is used (mount `{first}` and not \
                     mount `{}`)",
                    part.mount
                ));
                taken.insert(key);
            }
        }
        if taken.is_empty() {
            all.merge(&part.catalog);
            continue;
        }
        let is_free = |kind, name: &str| !taken.contains(&(kind, name.to_owned()));
        let rest = |kind, name: &str| is_free(kind, name).then(|| name.to_owned());
        all.merge(&part.catalog.chosen(rest));
    }
    (all, clashes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zcp::Tool;

    fn part(mount: &str, tools: &[&'static str]) -> Part {
        let tools = tools.iter().map(|name| Tool::new(*name, async || "said"));
        let catalog = tools.fold(Catalog::default(), Catalog::tool);
        Part { mount: mount.to_owned(), catalog, is_hidden: false }
    }

    #[test]
    fn of_two_with_one_name_the_first_is_used_and_both_mounts_are_named() {
        let mut parts = [part("one", &["a", "b"]), part("two", &["b", "c"])];
        let (all, clashes) = merged(&parts);
        assert_eq!(all.names(ListKind::Tools).collect::<Vec<_>>(), ["a", "b", "c"]);
        let [clash] = &clashes[..] else { panic!("{clashes:?}") };
        assert!(clash.contains("tool `b`"), "{clash}");
        assert!(clash.contains("`one`") && clash.contains("`two`"), "{clash}");
        // What is hidden is in nobody's way.
        parts[0].is_hidden = true;
        let (all, clashes) = merged(&parts);
        assert_eq!(all.names(ListKind::Tools).collect::<Vec<_>>(), ["b", "c"]);
        assert!(clashes.is_empty(), "{clashes:?}");
    }
}
