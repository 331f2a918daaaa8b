//! What of a mounted server is offered, and under which names.

use super::{Result, is_one_way};
use globset::{GlobBuilder, GlobSet};
use sha2::{Digest, Sha256};
use zcp::ListKind;
use zcp_scripts::Mount;

/// The longest name of a tool or a prompt: some model APIs refuse a whole list for a longer one.
const LONGEST_NAME: usize = 64;

/// What is offered, and what its name begins with.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    prefix: String,
    tools: Patterns,
    prompts: Patterns,
    resources: Patterns,
}

impl Choice {
    pub(super) fn new(name: &str, mount: &Mount) -> Result<Self> {
        if !is_one_way(mount) {
            return Err("say one of folder, command and url".into());
        }
        Ok(Self {
            prefix: mount.prefix.clone().unwrap_or_else(|| format!("{name}_")),
            tools: Patterns::new(&mount.tools)?,
            prompts: Patterns::new(&mount.prompts)?,
            resources: Patterns::new(&mount.resources)?,
        })
    }

    pub(super) fn takes_tool(&self, name: &str) -> bool {
        self.tools.take(name)
    }

    /// The name something has here, if it is offered.
    pub(super) fn name(&self, kind: ListKind, name: &str) -> Option<String> {
        let patterns = match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources | ListKind::Templates | ListKind::Skills => &self.resources,
        };
        // What a tool said at length can be read, whatever else can.
        let is_output = name.starts_with("output://");
        let is_address = !matches!(kind, ListKind::Tools | ListKind::Prompts);
        (is_output || patterns.take(name)).then(|| {
            let whole = format!("{}{name}", self.prefix);
            if is_address { whole } else { bounded(whole) }
        })
    }
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
    fn new(all: &[String]) -> Result<Self> {
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
        let mut mount = Mount { url: Some("https://example.com".into()), ..Mount::default() };
        let choice = Choice::new("far", &mount).unwrap();
        assert_eq!(choice.name(ListKind::Tools, "get"), Some("far_get".into()));
        mount.prefix = Some(String::new());
        assert_eq!(
            Choice::new("far", &mount).unwrap().name(ListKind::Tools, "get"),
            Some("get".into())
        );
        mount.folder = Some("x".into());
        assert!(Choice::new("far", &mount).is_err());
    }

    #[test]
    fn long_names_are_shortened_and_stay_apart() {
        let mount = Mount { url: Some("https://example.com".into()), ..Mount::default() };
        let choice = Choice::new("far", &mount).unwrap();
        let name = |kind, name: &str| choice.name(kind, name).unwrap();
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
