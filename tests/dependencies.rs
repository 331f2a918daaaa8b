//! The crates we build on, checked against deny.toml: licences, sources, bans, duplicates.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

/// What `cargo metadata` says of a crate.
struct Package {
    name: String,
    version: String,
    license: String,
    /// None for our own.
    source: Option<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent")
}

fn packages() -> Vec<Package> {
    let arguments = ["metadata", "--format-version", "1", "--all-features", "--locked", "--quiet"];
    let told = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output();
    let told = told.expect("cargo runs");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    let package = |one: &Value| {
        let text = |name: &str| one[name].as_str().map(str::to_owned);
        Package {
            name: text("name").expect("a name"),
            version: text("version").expect("a version"),
            license: text("license").unwrap_or_default(),
            source: text("source"),
        }
    };
    told["packages"].as_array().expect("packages").iter().map(package).collect()
}

fn rules() -> Value {
    let text = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    toml::from_str(&text).expect("TOML")
}

fn texts(list: &Value) -> BTreeSet<&str> {
    list.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

/// The `crate` of each row of a list.
fn crates(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().expect("a list").iter().map(|row| row["crate"].as_str().expect("a crate"))
}

/// Whether the licence a crate offers is one of these, as SPDX writes it. `/` is an old `OR`.
fn is_allowed(license: &str, allowed: &BTreeSet<&str>) -> bool {
    /// An expression from the next word on: `OR` binds weaker than `AND`.
    fn any<'a>(words: &mut impl Iterator<Item = &'a str>, allowed: &BTreeSet<&str>) -> bool {
        let (mut found, mut all) = (false, true);
        while let Some(word) = words.next() {
            match word {
                ")" => break,
                "OR" => found |= std::mem::replace(&mut all, true),
                "AND" => (),
                // What it permits beyond the licence before it.
                "WITH" => drop(words.next()),
                "(" => all &= any(words, allowed),
                name => all &= allowed.contains(name),
            }
        }
        found | all
    }
    let spaced = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    !license.is_empty() && any(&mut spaced.split_whitespace(), allowed)
}

#[test]
fn licences_are_permissive() {
    let rules = rules();
    let allowed = texts(&rules["licenses"]["allow"]);
    let exceptions = rules["licenses"]["exceptions"].as_array().expect("a list");
    for one in packages() {
        let own = exceptions.iter().find(|row| row["crate"] == one.name.as_str());
        let mut allowed = allowed.clone();
        allowed.extend(own.map(|row| texts(&row["allow"])).into_iter().flatten());
        let license = &one.license;
        assert!(is_allowed(license, &allowed), "{} {}: `{license}`", one.name, one.version);
    }
}

#[test]
fn crates_come_from_crates_io() {
    let rules = rules();
    let known = texts(&rules["sources"]["allow-registry"]);
    for one in packages() {
        let source = one.source.as_deref().map(|source| source.trim_start_matches("registry+"));
        assert!(source.is_none_or(|source| known.contains(source)), "{}: {source:?}", one.name);
    }
}

#[test]
fn banned_crates_are_not_there() {
    let rules = rules();
    let banned: BTreeSet<&str> = crates(&rules["bans"]["deny"]).collect();
    for one in packages() {
        assert!(!banned.contains(one.name.as_str()), "{}: deny.toml says why", one.name);
    }
}

/// A second version of a crate is noticed when it comes, and its row goes when it does.
#[test]
fn crates_are_there_once() {
    let rules = rules();
    let mut skipped: BTreeSet<&str> = crates(&rules["bans"]["skip"]).collect();
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    packages().into_iter().for_each(|one| versions.entry(one.name).or_default().push(one.version));
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let is_skipped = |version: &&String| {
            skipped.iter().copied().find(|row| {
                let begins =
                    row.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix(':'));
                begins.is_some_and(|begins| version.starts_with(&format!("{begins}.")))
            })
        };
        let (rows, rest): (Vec<_>, Vec<_>) = versions
            .iter()
            .map(|version| (version, is_skipped(&version)))
            .partition(|one| one.1.is_some());
        assert!(rest.len() <= 1, "{name} is there as {versions:?}: see `skip` in deny.toml");
        let rows: Vec<&str> = rows.into_iter().filter_map(|one| one.1).collect();
        skipped.retain(|row| !rows.contains(row));
    }
    assert!(skipped.is_empty(), "deny.toml skips what is there once: {skipped:?}");
}

/// Whoever serves on stdio alone compiles no web server.
#[test]
fn a_server_on_stdio_alone_needs_no_web_server() {
    let needed = |features: &[&str]| {
        let tree = ["tree", "-p", "zcp", "-e", "normal", "--prefix", "none", "--locked", "--quiet"];
        let mut command = Command::new(env!("CARGO"));
        let told = command.args(tree).args(features).current_dir(root()).output();
        let told = told.expect("cargo runs");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        let text = String::from_utf8(told.stdout).expect("text");
        text.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
    };
    let (all, few): (BTreeSet<String>, _) = (needed(&[]), needed(&["--no-default-features"]));
    for name in ["axum", "hyper", "tungstenite", "prometheus-client", "zcp-macros"] {
        assert!(all.contains(name) && !few.contains(name), "{name}");
    }
}

#[test]
fn licences_are_read_as_spdx_writes_them() {
    let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0"]);
    for fine in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "MIT AND ISC",
        "Apache-2.0 WITH LLVM-exception",
        "ISC AND (GPL-3.0 OR MIT)",
    ] {
        assert!(is_allowed(fine, &allowed), "{fine}");
    }
    for not in
        ["", "GPL-3.0", "MIT AND GPL-3.0", "ISC AND (GPL-3.0 OR MPL-2.0)", "GPL-3.0 OR MPL-2.0"]
    {
        assert!(!is_allowed(not, &allowed), "{not}");
    }
}
