//! What all mounts offer, as one catalog, and the state each of them is in.

use crate::{
    mount_log::{Log, shown},
    names::Names,
    overlap::Families,
    state::State,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::watch;
use zcp::{Catalog, ListKind, wire::sync::lock};

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
    /// In the order of the mounts, which decides between two of one name.
    parts: Mutex<Vec<Part>>,
    catalog: watch::Sender<Arc<Catalog>>,
    states: watch::Sender<BTreeMap<String, State>>,
}

/// What one mount offers, under the names it has here.
#[derive(Debug)]
struct Part {
    mount: String,
    catalog: Catalog,
    is_hidden: bool,
    /// Its resources are the operator's own, not those of another server.
    is_trusted: bool,
    log: Arc<Log>,
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
            is_trusted: false,
            log: Arc::new(Log::new(mount)),
        };
        let states = mounts.iter().map(|mount| (mount.clone(), State::Idle)).collect();
        Self {
            parts: Mutex::new(mounts.iter().map(part).collect()),
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

    fn parts(&self) -> MutexGuard<'_, Vec<Part>> {
        lock(&self.parts)
    }

    /// Changes what one mount offers, and makes one catalog of all.
    fn change(&self, index: usize, change: impl FnOnce(&mut Part)) {
        let mut parts = self.parts();
        change(&mut parts[index]);
        let (catalog, clashes) = merged(&parts);
        for (part, clashes) in parts.iter().zip(clashes) {
            part.log.warn_of_new("names or URIs that are taken", &clashes);
        }
        // Sent while the parts are held: the newest is the last.
        self.catalog.send_replace(Arc::new(catalog));
    }
}

impl Place {
    pub(crate) fn new(board: Arc<Board>, index: usize, names: Names) -> Self {
        Self { board, index, names }
    }

    /// The same, for resources that are the operator's own.
    pub(crate) fn trusted(self) -> Self {
        self.board.parts()[self.index].is_trusted = true;
        self
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    /// Its number among the mounts.
    pub(crate) fn order(&self) -> usize {
        self.index
    }

    /// What is logged of the mount.
    pub(crate) fn log(&self) -> Arc<Log> {
        self.board.parts()[self.index].log.clone()
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

/// All parts as one, and what was left out of each because its name or URI was taken.
fn merged(parts: &[Part]) -> (Catalog, Vec<Vec<String>>) {
    let (mut all, mut clashes) = (Catalog::default(), vec![]);
    let mut owners: HashMap<(ListKind, String), &str> = HashMap::new();
    let mut families = Families::new();
    for part in parts {
        let mut told = vec![];
        if part.is_hidden {
            clashes.push(told);
            continue;
        }
        let mut taken = HashSet::new();
        for (kind, what) in LISTS {
            for name in part.catalog.names(kind) {
                let key = (kind, name.to_owned());
                let (mount, shown) = (&part.mount, shown(name));
                if let Some(first) = owners.get(&key) {
                    told.push(format!(
                        "{what} `{shown}` is there twice: the first is used (mount `{first}` and \
                         not mount `{mount}`)"
                    ));
                    taken.insert(key);
                } else if let Some(first) = owner(&mut families, part, kind, name) {
                    told.push(format!(
                        "{what} `{shown}` fits a template of another mount: the first is used \
                         (mount `{first}` and not mount `{mount}`)"
                    ));
                    taken.insert(key);
                } else {
                    owners.insert(key, mount);
                }
            }
        }
        clashes.push(told);
        let is_free = |kind, name: &str| !taken.contains(&(kind, name.to_owned()));
        let templates = part.catalog.names(ListKind::Templates);
        templates
            .filter(|name| is_free(ListKind::Templates, name))
            .for_each(|name| families.add(name, &part.mount));
        if taken.is_empty() {
            all.merge(&part.catalog);
            continue;
        }
        let rest = |kind, name: &str| is_free(kind, name).then(|| name.to_owned());
        all.merge(&part.catalog.chosen(rest));
    }
    (all, clashes)
}

/// The mount before this one that reads a resource already, by one of its templates.
fn owner<'a>(
    families: &mut Families<'a>,
    part: &Part,
    kind: ListKind,
    name: &str,
) -> Option<&'a str> {
    match kind {
        _ if part.is_trusted => None,
        ListKind::Resources => families.owner_of_uri(name),
        ListKind::Templates => families.owner_of_template(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zcp::Tool;

    fn part(mount: &str, tools: &[&'static str]) -> Part {
        let tools = tools.iter().map(|name| Tool::new(*name, async || "said"));
        let catalog = tools.fold(Catalog::default(), Catalog::tool);
        let log = Arc::new(Log::new(mount));
        Part { mount: mount.to_owned(), catalog, is_hidden: false, is_trusted: false, log }
    }

    #[test]
    fn of_two_with_one_name_the_first_is_used_and_both_mounts_are_named() {
        let mut parts = [part("one", &["a", "b"]), part("two", &["b", "c"])];
        let (all, clashes) = merged(&parts);
        assert_eq!(all.names(ListKind::Tools).collect::<Vec<_>>(), ["a", "b", "c"]);
        let [none, clashes] = &clashes[..] else { panic!("{clashes:?}") };
        assert!(none.is_empty(), "{none:?}");
        let [clash] = &clashes[..] else { panic!("{clashes:?}") };
        assert!(clash.contains("tool `b`"), "{clash}");
        assert!(clash.contains("`one`") && clash.contains("`two`"), "{clash}");
        // What is hidden is in nobody's way.
        parts[0].is_hidden = true;
        let (all, clashes) = merged(&parts);
        assert_eq!(all.names(ListKind::Tools).collect::<Vec<_>>(), ["b", "c"]);
        assert!(clashes.iter().all(Vec::is_empty), "{clashes:?}");
    }
}
