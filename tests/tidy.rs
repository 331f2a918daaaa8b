//! The rules of ARCHITECTURE.md, section 5, checked on the text of the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use zcp::wire::revision::METHODS;

/// Longest file, in lines; tests at its foot not counted.
const LONGEST: usize = 500;
const CRATES: [&str; 7] = [
    "crates/schema/src",
    "crates/wire/src",
    "crates/zcp/src",
    "crates/client/src",
    "crates/macros/src",
    "crates/scripts/src",
    "crates/cli/src",
];
/// Files that are longer, and why. An entry that is no longer needed is a mistake too.
const LONGER: &[(&str, &str)] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_owned()
}

/// Every Rust file below a folder of the repository, with its text before any tests.
fn files(folder: &str) -> Vec<(String, String)> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder of the repository") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                found.push(path);
            }
        }
    }
    let (root, mut found) = (root(), vec![]);
    walk(&root.join(folder), &mut found);
    found.sort();
    assert!(!found.is_empty(), "{folder} has no Rust files: was it moved?");
    let read = |path: PathBuf| {
        let name = path.strip_prefix(&root).expect("below the root").display().to_string();
        let text = fs::read_to_string(&path).expect("it can be read");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
        (name, code)
    };
    found.into_iter().map(read).collect()
}

/// Lines of code, comments left out, with their place.
fn code(folder: &str) -> Vec<(String, String)> {
    let lines = |(name, text): (String, String)| {
        let numbered = text.lines().enumerate().map(move |(number, line)| {
            let code = line.split("//").next().unwrap_or_default().to_owned();
            (format!("{name}:{}", number + 1), code)
        });
        numbered.collect::<Vec<_>>()
    };
    files(folder).into_iter().flat_map(lines).collect()
}

fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let inside = |c: char| c.is_alphanumeric() || c == '_';
        let before = line[..at].chars().next_back().is_some_and(inside);
        let after = line[at + word.len()..].chars().next().is_some_and(inside);
        !before && !after
    })
}

fn forbid(folder: &str, words: &[&str], except: &[&str]) {
    let found: Vec<String> = code(folder)
        .into_iter()
        .filter(|(place, _)| !except.iter().any(|name| place.contains(name)))
        .filter(|(_, line)| words.iter().any(|word| has_word(line, word)))
        .map(|(place, line)| format!("{place}: {}", line.trim()))
        .collect();
    assert!(found.is_empty(), "{folder} must not say {words:?}:\n{}", found.join("\n"));
}

#[test]
fn wire_does_no_io_and_has_no_clock() {
    forbid(
        "crates/wire/src",
        &["tokio", "std::net", "std::fs", "std::io", "SystemTime", "Instant", "spawn"],
        &[],
    );
}

#[test]
fn the_runtime_knows_no_frame_no_revision_and_no_web_server() {
    forbid("crates/zcp/src/runtime", &["Frame", "Frames", "Revision", "axum"], &[]);
}

#[test]
fn transports_name_no_method_and_no_revision() {
    forbid("crates/zcp/src/transport", &["Revision"], &[]);
    for (place, line) in code("crates/zcp/src/transport") {
        for method in METHODS {
            let literal = format!("\"{}\"", method.name);
            assert!(!line.contains(&literal), "{place} names a method: {}", line.trim());
        }
    }
}

#[test]
fn revisions_are_compared_in_three_places() {
    for (place, line) in code("crates/zcp/src") {
        let compares = line.contains("Revision::V2") || line.contains(".era()");
        let allowed = ["protocol/mcp/entry.rs", "protocol/mcp/report.rs"];
        let here = allowed.iter().any(|name| place.contains(name));
        assert!(!compares || here, "{place} asks for a revision: {}", line.trim());
    }
}

#[test]
fn nothing_is_hidden_in_statics_or_tasks() {
    for folder in CRATES {
        for (place, line) in code(folder) {
            let inner = ["Mutex", "Atomic", "OnceLock", "LazyLock", "RwLock", "RefCell"];
            let hidden = has_word(&line, "static ")
                && inner.iter().any(|cell| line.contains(cell))
                && !line.contains("'static");
            assert!(!hidden, "{place} hides state: {}", line.trim());
            assert!(!line.contains("task_local!"), "{place} hides state in a task");
            assert!(!line.contains("tokio::spawn"), "{place} starts a task nobody owns");
            // What the macros write lands in other people's code, where a lint may or may not fire.
            let written = place.contains("crates/macros") || !line.contains("#[allow");
            assert!(written, "{place}: use #[expect(.., reason = \"..\")]");
        }
    }
}

/// Elsewhere a child could inherit what is meant for another.
#[test]
fn scripts_start_processes_in_one_place() {
    for (place, line) in code("crates/scripts/src") {
        let starts =
            [".spawn()", ".output()", ".status().await"].iter().any(|call| line.contains(call));
        let here = place.contains("src/spawn.rs");
        assert!(!starts || here, "{place} starts a process: {}", line.trim());
    }
}

/// The modules of a crate that a text names: `crate::name` and `crate::{name, name::other}`.
fn modules_named(text: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let mut all = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            all.insert(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (0, true);
        for (at, letter) in list.char_indices() {
            match letter {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                letter if begins && !letter.is_whitespace() => {
                    all.insert(word(&list[at..]));
                    begins = false;
                }
                _ => (),
            }
        }
    }
    all
}

#[test]
fn modules_of_scripts_form_no_cycle() {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in files("crates/scripts/src") {
        let module = name.trim_start_matches("crates/scripts/src/").split(['/', '.']).next();
        let module = module.unwrap_or_default().to_owned();
        let others = modules_named(&text).into_iter().filter(|other| *other != module);
        used.entry(module.clone()).or_default().extend(others);
    }
    // The root uses all of them. What is left after taking away all that use nothing is a cycle.
    used.remove("lib");
    while let Some(name) =
        used.iter().find(|(_, uses)| uses.is_empty()).map(|(name, _)| name.clone())
    {
        used.remove(&name);
        used.values_mut().for_each(|uses| drop(uses.remove(&name)));
    }
    assert!(used.is_empty(), "modules that use each other: {used:#?}");
}

#[test]
fn features_are_chosen_on_mod_lines() {
    for (name, text) in files("crates/zcp/src").into_iter().chain(files("crates/wire/src")) {
        for (line, next) in text.lines().zip(text.lines().skip(1)) {
            let chosen = line.contains("cfg(feature");
            assert!(!chosen || has_word(next, "mod"), "{name}: {}", line.trim());
        }
    }
}

#[test]
fn a_file_holds_one_idea_and_says_it_first() {
    for folder in CRATES {
        for (name, text) in files(folder) {
            let first = text.lines().next().unwrap_or_default();
            let says = first.starts_with("//! ") || first.starts_with("#![doc = include_str!");
            assert!(says, "{name}: the first line must say what the file is");
            let listed = LONGER.iter().any(|(longer, _)| *longer == name);
            let lines = text.lines().count();
            assert!(
                lines <= LONGEST || listed,
                "{name} has {lines} lines: which are its two ideas?"
            );
            assert!(lines > LONGEST || !listed, "{name} is short now: take it off the list");
        }
    }
}

#[test]
fn a_public_trait_has_at_most_six_methods() {
    for (name, text) in files("crates/zcp/src").into_iter().chain(files("crates/wire/src")) {
        for part in text.split("pub trait ").skip(1) {
            let body = part.split("\n}").next().unwrap_or_default();
            let methods = body.lines().filter(|line| line.starts_with("    fn ")).count();
            let trait_name = part.split(['<', ':', ' ', '{']).next().unwrap_or_default();
            assert!(methods <= 6, "{name}: `{trait_name}` has {methods} methods");
        }
    }
}

/// The rows the specification's own suite does not check, and a few of ours.
fn required_rows() -> Vec<String> {
    let servers = (1..=57).map(|number| format!("SV{number:02}"));
    let stdio = (1..=9).map(|number| format!("SI{number:02}"));
    let legacy = (1..=21).map(|number| format!("LE{number:02}"));
    let tasks = (1..=17).map(|number| format!("ST{number:02}"));
    let clients = (1..=34).map(|number| format!("CL{number:02}"));
    servers.chain(stdio).chain(tasks).chain(legacy).chain(clients).collect()
}

#[test]
fn every_row_of_the_conformance_page_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/conformance.md")).expect("the page is there");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| ["| S", "| LE", "| CL"].iter().any(|row| line.starts_with(row)))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for required in required_rows() {
        let row = rows.iter().find(|row| row[0] == required);
        assert!(row.is_some(), "docs/conformance.md has no row {required}");
    }
    for row in rows {
        let tests = row.last().expect("a row has columns");
        let named: Vec<&str> = tests.split(',').map(|name| name.trim().trim_matches('`')).collect();
        assert!(!named.is_empty() && named.iter().all(|name| !name.is_empty()), "{row:?}");
        for name in named {
            let (file, test) = name.split_once("::").expect("a test is `file::name`");
            let path = root().join("tests").join(format!("{file}.rs"));
            let text = fs::read_to_string(&path).unwrap_or_default();
            let exists = text.contains(&format!("fn {test}("));
            assert!(exists, "row {}: there is no test {name}", row[0]);
        }
    }
}

/// The names of all functions of tests and crates.
fn all_functions() -> std::collections::HashSet<String> {
    let sources = sources_below("tests").into_iter().chain(sources_below("crates"));
    let named = sources.flat_map(|text| {
        let names = text.lines().filter_map(|line| line.trim_start().split_once("fn "));
        let names = names.filter_map(|(_, rest)| rest.split_once('('));
        names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    });
    named.collect()
}

fn sources_below(folder: &str) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                found.push(fs::read_to_string(&path).expect("text"));
            }
        }
    }
    let mut found = vec![];
    walk(&root().join(folder), &mut found);
    found
}

#[test]
fn every_guarantee_of_the_security_page_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("the page is there");
    let functions = all_functions();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() > 60, "{} rows", rows.len());
    for row in rows {
        let tests = row.trim_matches('|').rsplit('|').next().expect("a row has columns").trim();
        if tests == "tests" {
            continue;
        }
        for name in tests.split(',').map(|name| name.trim().trim_matches('`')) {
            let test = name.rsplit("::").next().expect("there is a last part");
            assert!(functions.contains(test), "there is no test `{name}`: {row}");
        }
    }
}
