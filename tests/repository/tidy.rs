//! The rules of ARCHITECTURE.md, section 5, checked on the text of the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};
use zcp::wire::method::METHODS;

/// Longest file, in lines; tests at its foot not counted. And what half of all files, and nine of ten,
/// have at most.
const LONGEST: usize = 486;
const MEDIAN: usize = 149;
const MOST_OF_THEM: usize = 352;
const CRATES: [&str; 9] = [
    "crates/schema/src",
    "crates/wire/src",
    "crates/zcp/src",
    "crates/client/src",
    "crates/gateway/src",
    "crates/policy/src",
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
        (name, before_tests(&text).to_owned())
    };
    found.into_iter().map(read).collect()
}

/// A file without the tests at its foot. What only tests use may be anywhere, and is code.
fn before_tests(text: &str) -> &str {
    let at = text.match_indices("#[cfg(test)]\n").find(|(at, mark)| {
        let next = text[at + mark.len()..].trim_start_matches("#[");
        next.starts_with("mod tests {") || next.starts_with("mod tests;")
    });
    at.map_or(text, |(at, _)| &text[..at])
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
fn a_file_is_read_up_to_its_tests() {
    let text = "#[cfg(test)]\nfn helper() {}\nfn code() {}\n#[cfg(test)]\nmod tests {\n";
    assert_eq!(before_tests(text), "#[cfg(test)]\nfn helper() {}\nfn code() {}\n");
    assert_eq!(before_tests("fn code() {}\n"), "fn code() {}\n");
    let all: Vec<(String, String)> = CRATES.iter().flat_map(|folder| files(folder)).collect();
    let found = |name: &str| all.iter().find(|(file, _)| file.ends_with(name)).expect(name);
    assert!(!found("store/written.rs").1.contains("mod tests"));
}

#[test]
#[should_panic(expected = "must not say")]
fn a_planted_word_is_found() {
    forbid("crates/wire/src", &["Revision"], &[]);
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
    forbid("crates/zcp/src/transport", &["Revision", "MethodName"], &[]);
    let methods: Vec<String> =
        METHODS.iter().map(|row| format!("Method::{:?}", row.method)).collect();
    let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
    assert!(methods.contains(&"Method::CallTool"));
    forbid("crates/zcp/src/transport", &methods, &[]);
}

/// Whether a line of code spells the name of a method.
fn spells_method(line: &str) -> bool {
    METHODS.iter().any(|row| line.contains(&format!("\"{}\"", row.name)))
}

#[test]
fn names_of_methods_are_spelled_in_their_table() {
    assert!(spells_method(r#"if method == "tools/call" {"#) && spells_method(r#"("ping", ..)"#));
    assert!(!spells_method(r#"Some("tools")"#) && !spells_method("Method::CallTool"));
    for folder in CRATES.into_iter().filter(|folder| *folder != "crates/wire/src") {
        for (place, line) in code(folder) {
            // Commands have names without a slash, such as `zcp ping`.
            let line =
                if folder.ends_with("cli/src") { line.replace("\"ping\"", "") } else { line };
            assert!(!spells_method(&line), "{place} spells a method: {}", line.trim());
        }
    }
    let table = code("crates/wire/src").into_iter().filter(|(_, line)| spells_method(line));
    for (place, line) in table {
        assert!(place.contains("src/method.rs"), "{place} spells a method: {}", line.trim());
    }
}

/// The file of the server that may ask which era or revision is spoken: where a message enters.
const SERVER_ERAS: &[&str] = &["protocol/mcp/entry.rs"];
/// Files of the client that may: one detects it, one remembers it, and one chooses the dialect by it.
const CLIENT_ERAS: &[&str] = &["connection/connect.rs", "connection/eras.rs", "dialect/mod.rs"];

/// Whether a line of code asks for an era or compares a revision.
fn asks_for_era(line: &str) -> bool {
    let compared = ["==", "!=", "<", ">"].map(|operator| format!("revision {operator}"));
    ["Era", "era"].iter().any(|word| has_word(line, word))
        || line.contains("Revision::V2")
        || compared.iter().any(|text| line.contains(text))
}

#[test]
fn eras_are_asked_for_in_few_files() {
    for asks in
        ["if server.revision.era() == wanted {", "only.map(Revision::era)", "use wire::Era;"]
    {
        assert!(asks_for_era(asks), "{asks}");
    }
    assert!(asks_for_era("if revision >= newest {") && asks_for_era("Revision::V2025_11_25"));
    assert!(!asks_for_era("if link.dialect.questions() == Questions::AsResults {"));
    let none: &[&str] = &[];
    let others = CRATES.into_iter().filter(|folder| *folder != "crates/wire/src");
    for folder in others {
        let files = match folder {
            "crates/zcp/src" => SERVER_ERAS,
            "crates/client/src" => CLIENT_ERAS,
            _ => none,
        };
        let lines = code(folder);
        let is_in = |place: &str, file: &str| place.contains(&format!("{file}:"));
        for file in files {
            let needed = lines.iter().any(|(place, line)| is_in(place, file) && asks_for_era(line));
            assert!(needed, "{file} asks for no era: take it off the list");
        }
        for (place, line) in lines {
            let here = files.iter().any(|file| is_in(&place, file));
            assert!(here || !asks_for_era(&line), "{place} asks for an era: {}", line.trim());
        }
    }
}

/// Files with a static that holds state, and why.
const STATICS: &[(&str, &str)] = &[
    ("scripts/src/spawn.rs", "the resource limit that tags a run is set for the whole process"),
    ("protocol/mcp/mod.rs", "an empty map that never changes"),
];

/// Files that make a tracker of tasks and wait for it elsewhere, or not at all, and why.
const WAITED_FOR_ELSEWHERE: &[(&str, &str)] = &[
    ("client/src/oauth/tokens.rs", "a renewal must not be stopped, and ends by its timeout"),
    ("zcp/src/runtime/tasks/engine.rs", "`Engine::close`, in keeper.rs"),
    ("zcp/src/store/redis.rs", "it only hears of changes, and is stopped with the store"),
    ("zcp/src/transport/http/mod.rs", "`Serving::end` in accept.rs; a router in axum is axum's"),
    ("zcp/src/transport/http/ws/echo.rs", "a server of tests, which ends with its process"),
    ("zcp/src/transport/converse.rs", "each transport waits for its conversations"),
];

#[test]
fn whoever_starts_tasks_waits_for_them() {
    let all: Vec<_> = CRATES.iter().flat_map(|folder| files(folder)).collect();
    let makes = |text: &str| text.contains("TaskTracker::new()") && !text.contains(".wait()");
    assert!(makes("let tasks = TaskTracker::new();") && !makes("TaskTracker::new(); t.wait()"));
    for (name, text) in &all {
        let listed = WAITED_FOR_ELSEWHERE.iter().any(|(file, _)| name.ends_with(file));
        assert!(!makes(text) || listed, "{name} makes a tracker of tasks and never waits for it");
        assert!(makes(text) || !listed, "{name} waits for its tasks: take it off the list");
    }
}

/// Whether a line declares a static, rather than naming the lifetime.
fn is_static(line: &str) -> bool {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        rest.strip_prefix("(crate)").or(rest.strip_prefix("(super)")).unwrap_or(rest).trim_start()
    });
    line.starts_with("static ")
}

#[test]
fn nothing_is_hidden_in_statics_or_tasks() {
    assert!(is_static("    pub(crate) static SEEN: Mutex<u8> = Mutex::new(0);"));
    assert!(is_static("static SEEN: Mutex<u8>") && !is_static("fn of(name: &'static Mutex<u8>)"));
    for folder in CRATES {
        for (place, line) in code(folder) {
            let inner = ["Mutex", "Atomic", "OnceLock", "LazyLock", "RwLock", "RefCell"];
            let hidden = is_static(&line) && inner.iter().any(|cell| line.contains(cell));
            let known = STATICS.iter().any(|(file, _)| place.contains(file));
            assert!(!hidden || known, "{place} hides state: {}", line.trim());
            assert!(!line.contains("task_local!"), "{place} hides state in a task");
            let detached =
                line.contains("tokio::spawn") || line.contains("TaskTracker::new().spawn");
            assert!(!detached, "{place} starts a task nobody owns");
            // What the macros write lands in other people's code, where a lint may or may not fire.
            let written = place.contains("crates/macros") || !line.contains("#[allow");
            assert!(written, "{place}: use #[expect(.., reason = \"..\")]");
        }
    }
}

#[test]
fn mutexes_are_locked_in_one_way() {
    for folder in CRATES {
        for (place, line) in code(folder) {
            let here = place.contains("wire/src/sync.rs");
            assert!(here || !line.contains(".lock().unwrap_or_else"), "{place}: use `sync::lock`");
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

/// The top-level modules of a crate, and the other ones that each of them names.
fn uses(folder: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in files(folder) {
        let module = name.trim_start_matches(folder).trim_start_matches('/');
        let module = module.split(['/', '.']).next().unwrap_or_default().to_owned();
        let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let named = modules_named(&code.collect::<Vec<_>>().join("\n"));
        used.entry(module).or_default().extend(named);
    }
    // The root uses all of them.
    used.retain(|module, _| module != "lib" && module != "main");
    let modules: BTreeSet<String> = used.keys().cloned().collect();
    for (module, others) in &mut used {
        others.retain(|other| other != module && modules.contains(other));
    }
    used
}

/// What is left after taking away again and again all modules that use none of the others.
fn cycle(mut used: BTreeMap<String, BTreeSet<String>>) -> BTreeMap<String, BTreeSet<String>> {
    loop {
        let left: BTreeSet<String> = used.keys().cloned().collect();
        used.values_mut().for_each(|others| others.retain(|other| left.contains(other)));
        used.retain(|_, others| !others.is_empty());
        if used.len() == left.len() {
            return used;
        }
    }
}

#[test]
fn modules_of_a_crate_form_no_cycle() {
    for folder in CRATES {
        let used = uses(folder);
        assert!(!used.is_empty(), "{folder} has no modules");
        let cycle = cycle(used);
        assert!(cycle.is_empty(), "modules of {folder} use each other: {cycle:#?}");
    }
}

/// The names in the first column of the tables of a crate in ARCHITECTURE.md.
fn described(page: &str, name: &str) -> BTreeSet<String> {
    let start =
        page.find(&format!("\n**{name}**")).unwrap_or_else(|| panic!("{name} has no table"));
    let part = &page[start + 1..];
    let part = part.find("\n**").or(part.find("\n## ")).map_or(part, |end| &part[..end]);
    let first = |line: &str| line.strip_prefix("| `")?.split(" |").next().map(str::to_owned);
    let names = part.lines().filter_map(first).flat_map(|cell| {
        let names: Vec<String> = cell.split(", ").map(|one| one.replace('`', "")).collect();
        names
    });
    names.map(|name| name.trim_end_matches('/').to_owned()).collect()
}

#[test]
fn the_tables_of_modules_are_those_of_the_folders() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it can be read");
    for folder in CRATES {
        let name = folder.trim_start_matches("crates/").trim_end_matches("/src");
        let described = described(&page, name);
        let top = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
        let named: BTreeSet<String> = described.iter().map(top).collect();
        let missing: Vec<String> = files(folder)
            .iter()
            .map(|(file, _)| file.trim_start_matches(folder).trim_start_matches('/').to_owned())
            .filter_map(|file| file.split(['/', '.']).next().map(str::to_owned))
            .filter(|module| module != "lib" && module != "main" && !named.contains(module))
            .collect();
        assert!(missing.is_empty(), "ARCHITECTURE.md has no row for {missing:?} of {folder}");
        for module in described {
            let path = root().join(folder).join(&module);
            let exists = path.is_dir() || path.with_extension("rs").is_file();
            assert!(exists, "ARCHITECTURE.md has a row for `{module}`, which {folder} has not");
        }
    }
}

#[test]
fn a_planted_cycle_is_found() {
    let sample =
        "use crate::{\n client::{Client, task::Task},\n error::Result,\n};\ncrate::oauth::x()";
    let named = BTreeSet::from(["client", "error", "oauth"].map(str::to_owned));
    assert_eq!(modules_named(sample), named);
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut used = BTreeMap::from([
        ("a".to_owned(), set(&["b", "d"])),
        ("b".to_owned(), set(&["c"])),
        ("c".to_owned(), set(&["d"])),
        ("d".to_owned(), set(&[])),
    ]);
    assert!(cycle(used.clone()).is_empty());
    used.insert("d".to_owned(), set(&["b"]));
    let found: Vec<String> = cycle(used).into_keys().collect();
    assert_eq!(found, ["a", "b", "c", "d"]);
}

#[test]
fn features_are_chosen_on_mod_and_use_lines() {
    for (name, text) in files("crates/zcp/src").into_iter().chain(files("crates/wire/src")) {
        for (line, next) in text.lines().zip(text.lines().skip(1)) {
            let choices = ["cfg(feature", "cfg(not(feature", "cfg(all(feature", "cfg(any(feature"];
            let chosen = choices.iter().any(|choice| line.contains(choice));
            let allowed = has_word(next, "mod") || next.starts_with("pub use ");
            assert!(!chosen || allowed, "{name}: {}", line.trim());
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
fn half_of_all_files_are_short() {
    let mut lines: Vec<usize> = CRATES
        .iter()
        .flat_map(|folder| files(folder))
        .map(|(_, text)| text.lines().count())
        .collect();
    lines.sort_unstable();
    let at = |share: usize| lines[lines.len() * share / 100];
    assert!(at(50) <= MEDIAN, "half of all files have {} lines", at(50));
    assert!(at(90) <= MOST_OF_THEM, "a tenth of all files have {} lines and more", at(90));
}

#[test]
fn a_public_trait_has_at_most_six_methods() {
    let is_method = |line: &&str| line.starts_with("    fn ") || line.starts_with("    async fn ");
    assert!(is_method(&"    async fn close(&self);") && !is_method(&"        fn inner() {"));
    for (name, text) in CRATES.iter().flat_map(|folder| files(folder)) {
        for part in text.split("\npub trait ").skip(1) {
            let body = part.split("\n}").next().unwrap_or_default();
            let methods = body.lines().filter(is_method).count();
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
        .filter(|line| ["| S", "| LE", "| CL", "| CM"].iter().any(|row| line.starts_with(row)))
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
            let text = test_file(file).unwrap_or_default();
            let exists = text.contains(&format!("fn {test}("));
            assert!(exists, "row {}: there is no test {name}", row[0]);
        }
    }
}

/// The text of a file of tests: some are in the folder of a theme, and some are a program of their own.
fn test_file(name: &str) -> Option<String> {
    let file = format!("{name}.rs");
    let folders = fs::read_dir(root().join("tests")).expect("a folder").flatten();
    let mut places = folders.map(|folder| folder.path().join(&file));
    let in_folder =
        places.find(|path| path.is_file() && !path.to_string_lossy().contains("harness"));
    fs::read_to_string(in_folder.unwrap_or_else(|| root().join("tests").join(&file))).ok()
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
