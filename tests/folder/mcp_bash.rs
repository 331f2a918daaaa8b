//! Projects written for mcp-bash: every tool, resource, prompt and completion of them answers as
//! its documentation says.

use futures_util::{StreamExt, stream};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};
use zcp_tests::{folder::Folder, project::Project};

fn read(path: &Path) -> Value {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).expect("the folder is there").flatten();
    let mut all: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    all.sort();
    all
}

async fn answers_as_documented(source: &Path, expected: &Value, path: Option<&str>) {
    let project = Project::open(source, expected, path).await;
    let differences = project.follow(expected).await;
    assert!(differences.is_empty(), "{}:\n{}", source.display(), differences.join("\n"));
}

fn own_projects() -> Vec<PathBuf> {
    let projects = folders(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/projects"));
    assert_eq!(projects.len(), 19);
    projects
}

/// Runs projects beside each other: most of their time they wait.
async fn all_answer(projects: Vec<PathBuf>, path: Option<&str>) {
    let runs = projects.into_iter().map(|project| async move {
        answers_as_documented(&project, &read(&project.join("expected.json")), path).await;
    });
    stream::iter(runs).buffer_unordered(4).collect::<()>().await;
}

/// Our own projects, one for each of the examples there are.
#[tokio::test]
async fn projects_of_every_kind_answer_as_documented() {
    all_answer(own_projects(), None).await;
}

/// The same on a machine without jq.
#[tokio::test]
async fn projects_need_no_jq() {
    let path = Folder::new("path-without-jq");
    for program in fs::read_dir("/usr/bin").expect("programs").flatten().map(|entry| entry.path()) {
        let name = program.file_name().expect("a name");
        if name != "jq" {
            symlink(&program, path.0.join(name)).expect("a link");
        }
    }
    let path = path.0.to_string_lossy();
    // The slow ones are not faster without.
    let projects = own_projects().into_iter().filter(|project| !project.ends_with("99-slow"));
    all_answer(projects.collect(), Some(&path)).await;
}

/// The examples of mcp-bash itself, where a copy is at hand.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "where the copy is, the machine knows")]
async fn the_original_examples_answer_as_documented() {
    const COPY: &str = "MCP_BASH_EXAMPLES";
    let Ok(copy) = std::env::var(COPY) else {
        println!("{COPY} names no copy of the examples of mcp-bash: they were not run");
        return;
    };
    let expectations = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/examples");
    let examples = folders(Path::new(&copy)).into_iter();
    let examples = examples.chain(folders(&Path::new(&copy).join("advanced")));
    let mut run = 0;
    for example in examples.filter(|path| !path.ends_with("advanced")) {
        let name = example.file_name().expect("a name").to_string_lossy().into_owned();
        let expected = read(&expectations.join(format!("{name}.json")));
        let needs = expected["needs"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for program in needs {
            let found = std::process::Command::new(program).arg("-version").output();
            assert!(found.is_ok(), "{name} needs `{program}`: apt-get install -y {program}");
        }
        answers_as_documented(&example, &expected, None).await;
        run += 1;
    }
    assert_eq!(run, 19);
}
