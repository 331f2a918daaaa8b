//! Which things of a mount are offered, and under which names.

use crate::{mount::Mount, offers::Kind};
use globset::{GlobBuilder, GlobSet};
use sha2::{Digest, Sha256};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
};
use zcp::{ListKind, wire::sync::lock};

/// The longest name of a tool or a prompt: some model APIs refuse a whole list for a longer one.
const LONGEST_NAME: usize = 64;
/// Names that are remembered to have been warned of.
const TOLD: usize = 1000;

/// What is offered, and what its name begins with.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    mount: String,
    prefix: String,
    /// Longer prefixes of other mounts: names that begin so are theirs.
    taken: Vec<String>,
    tools: Patterns,
    prompts: Patterns,
    resources: Patterns,
    /// What URIs begin with that are offered whatever the patterns say.
    always: Vec<String>,
    told: Arc<Mutex<HashSet<String>>>,
}

impl Names {
    /// What is offered of one mount among others, whose prefixes are these.
    pub(crate) fn new(name: &str, mount: &Mount, prefixes: &[String]) -> Result<Self, String> {
        let prefix = prefix(name, mount);
        let longer = |other: &&String| other.len() > prefix.len() && other.starts_with(&prefix);
        Ok(Self {
            mount: name.to_owned(),
            taken: prefixes.iter().filter(longer).cloned().collect(),
            always: mount.always.clone(),
            told: Arc::default(),
            prefix,
            tools: Patterns::new(&mount.tools)?,
            prompts: Patterns::new(&mount.prompts)?,
            resources: Patterns::new(&mount.resources)?,
        })
    }

    /// The mount's name.
    pub(crate) fn mount(&self) -> &str {
        &self.mount
    }

    /// Whether something of a server is offered.
    pub(crate) fn takes(&self, kind: Kind, name: &str) -> bool {
        match kind {
            Kind::Tool => self.name(ListKind::Tools, name).is_some(),
            Kind::Prompt => self.name(ListKind::Prompts, name).is_some(),
            Kind::Resource | Kind::Template => self.name(ListKind::Resources, name).is_some(),
            Kind::Instructions => true,
        }
    }

    /// The name something has here, if it is offered.
    pub(crate) fn name(&self, kind: ListKind, name: &str) -> Option<String> {
        let patterns = match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources | ListKind::Templates | ListKind::Skills => {
                let is_always = self.always.iter().any(|start| name.starts_with(start));
                return (is_always || self.resources.take(name)).then(|| name.to_owned());
            }
            _ => return None,
        };
        if !patterns.take(name) {
            return None;
        }
        let whole = format!("{}{name}", self.prefix);
        // A name belongs to the mount with the longest matching prefix, in whatever order they are listed.
        if let Some(taken) = self.taken.iter().find(|taken| whole.starts_with(*taken)) {
            self.warn(&whole, taken);
            return None;
        }
        Some(bounded(whole))
    }

    fn warn(&self, name: &str, taken: &str) {
        let mut told = lock(&self.told);
        if told.len() < TOLD && told.insert(name.to_owned()) {
            let mount = &self.mount;
            tracing::warn!(
                "left out: {name:?} of the mounted server `{mount}`: names that begin with \
                 `{taken}` are of another mount. Set `prefix` on one of them"
            );
        }
    }
}

/// What names of a mount begin with.
pub(crate) fn prefix(name: &str, mount: &Mount) -> String {
    mount.prefix.clone().unwrap_or_else(|| format!("{name}_"))
}

/// A name that model APIs take: one that is longer ends with a digest of all of it, so that two
/// stay two, and each is the same tomorrow.
fn bounded(name: String) -> String {
    if name.chars().count() <= LONGEST_NAME {
        return name;
    }
    let digest: String =
        Sha256::digest(&name).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let start: String = name.chars().take(LONGEST_NAME - 1 - digest.len()).collect();
    format!("{start}_{digest}")
}

/// Patterns, of which those with `!` before them take something out again.
#[derive(Debug, Clone, Default)]
struct Patterns {
    wanted: Vec<GlobSet>,
    unwanted: Vec<GlobSet>,
}

impl Patterns {
    fn new(all: &[String]) -> Result<Self, String> {
        let mut patterns = Self::default();
        for text in all {
            let (list, text) = match text.strip_prefix('!') {
                Some(text) => (&mut patterns.unwanted, text),
                None => (&mut patterns.wanted, text.as_str()),
            };
            let glob = GlobBuilder::new(text).literal_separator(false).build();
            // As a set it says what is wrong; alone it would panic.
            let set = glob.and_then(|glob| GlobSet::builder().add(glob).build());
            list.push(set.map_err(|error| format!("`{text}` is no pattern: {error}"))?);
        }
        Ok(patterns)
    }

    fn take(&self, name: &str) -> bool {
        let fits = |list: &[GlobSet]| list.iter().any(|glob| glob.is_match(name));
        (self.wanted.is_empty() || fits(&self.wanted)) && !fits(&self.unwanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far(prefix: Option<&str>) -> Names {
        let mount = Mount::http("https://example.com");
        let mount = prefix.into_iter().fold(mount, Mount::prefix);
        Names::new("far", &mount, &[]).unwrap()
    }

    #[test]
    fn a_name_is_of_the_mount_with_the_longest_prefix() {
        let mount = || Mount::http("https://example.com");
        let all = [("a", mount()), ("a_b", mount()), ("bare", mount().prefix(""))];
        let prefixes: Vec<_> = all.iter().map(|(name, mount)| prefix(name, mount)).collect();
        let name = |mount: &str, name: &str| {
            let (_, found) = all.iter().find(|(other, _)| *other == mount).unwrap();
            Names::new(mount, found, &prefixes).unwrap().name(ListKind::Tools, name)
        };
        assert_eq!(name("a_b", "c"), Some("a_b_c".into()));
        assert_eq!(name("a", "b_c"), None);
        assert_eq!(name("a", "c"), Some("a_c".into()));
        assert_eq!(name("bare", "a_b_c"), None);
        assert_eq!(name("bare", "c"), Some("c".into()));
    }

    #[test]
    fn patterns_choose_and_a_mark_takes_out_again() {
        let patterns = |all: &[&str]| {
            Patterns::new(&all.iter().map(|&text| text.to_owned()).collect::<Vec<_>>()).unwrap()
        };
        assert!(patterns(&[]).take("anything"));
        let some = patterns(&["get_*", "!get_all", "x"]);
        assert!(some.take("get_one") && some.take("x"));
        assert!(!some.take("get_all") && !some.take("put_one"));
        let most = patterns(&["!delete_*"]);
        assert!(most.take("get") && !most.take("delete_it"));
        assert!(patterns(&["docs://*"]).take("docs://a/b/c"));
        assert!(Patterns::new(&["[".to_owned()]).is_err());
    }

    #[test]
    fn names_begin_with_the_mounts_name_unless_something_is_said() {
        assert_eq!(far(None).name(ListKind::Tools, "get"), Some("far_get".into()));
        assert_eq!(far(Some("")).name(ListKind::Tools, "get"), Some("get".into()));
    }

    #[test]
    fn long_names_are_shortened_and_stay_apart() {
        let names = far(None);
        let name = |kind, name: &str| names.name(kind, name).unwrap();
        let longest = "x".repeat(60);
        assert_eq!(name(ListKind::Tools, &longest), format!("far_{longest}"));
        let (one, other) = (format!("{}_one", "x".repeat(70)), format!("{}_two", "x".repeat(70)));
        let short = name(ListKind::Tools, &one);
        assert_eq!(short, format!("far_{}_99bf4fbb", "x".repeat(51)));
        assert_eq!(short, name(ListKind::Prompts, &one));
        assert_ne!(short, name(ListKind::Tools, &other));
        assert_eq!(short.len(), 64);
        // Addresses are no names.
        assert!(name(ListKind::Resources, &one).ends_with("_one"));
    }
}
