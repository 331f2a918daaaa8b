//! `zcp import` from a URL, again after a change, and of scripts that have options.

use axum::{Router, http::StatusCode, routing::get};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use zcp_tests::{examples::zcp, folder::Folder};

/// A server with a description of an API of one operation.
struct Api {
    origin: String,
    _served: AbortOnDropHandle<()>,
}

impl Api {
    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("it is bound"));
        let operation = json!({ "operationId": "getItem", "summary": "Finds an item." });
        let described = json!({ "openapi": "3.1.0", "info": { "title": "Shop", "version": "1" },
            "paths": { "/items": { "get": operation } } });
        let missing = (StatusCode::NOT_FOUND, "no such item");
        let app = Router::new()
            .route("/openapi.json", get(move || async move { described.to_string() }))
            .route("/items", get(move || async move { missing }));
        let serving =
            tokio::spawn(async move { axum::serve(listener, app).await.expect("it works") });
        Self { origin, _served: AbortOnDropHandle::new(serving) }
    }
}

async fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = tokio::process::Command::from({
        let mut command = Command::new(zcp());
        command.args(words).current_dir(folder).env("HOME", folder).stdin(Stdio::null());
        command
    });
    command.output().await.expect("the command runs")
}

fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn complaint(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_is_imported_from_its_url() {
    let (api, folder) = (Api::new().await, Folder::new("import-url"));
    let x = folder.0.as_path();
    let url = format!("{}/openapi.json", api.origin);
    let told = json_of(&run(x, &["--json", "import", &url, "--into", "shop"]).await);
    assert_eq!(told["written"][0]["tool"], "get_item", "{told}");
    let file = fs::read_to_string(x.join("shop/tools/get_item.http")).expect("it is there");
    assert!(file.contains(&format!("GET {}/items", api.origin)), "{file}");
    let (code, why) = complaint(&run(x, &["import", &format!("{}/none", api.origin)]).await);
    assert_eq!((code, why.contains("HTTP 404 Not Found")), (Some(1), true), "{why}");
    // What an API refuses is no program that failed.
    let (code, why) = complaint(&run(x, &["call", "./shop", "get_item"]).await);
    assert_eq!(code, Some(3), "{why}");
    assert!(why.contains("HTTP 404 Not Found\nno such item"), "{why}");
    assert!(!why.contains("exit code") && !why.contains("last words"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_updated_where_it_differs() {
    let (api, folder) = (Api::new().await, Folder::new("import-update"));
    let x = folder.0.as_path();
    let url = format!("{}/openapi.json", api.origin);
    let import = ["--json", "import", &url, "--into", "shop"];
    run(x, &import).await;
    let file = x.join("shop/tools/get_item.http");
    let whole = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, "# Old.\nGET http://127.0.0.1:1/\n").expect("it can be written");
    let kept = json_of(&run(x, &import).await);
    assert!(kept["kept"][0]["why"].as_str().is_some_and(|why| why.contains("--update")), "{kept}");
    let updated = json_of(&run(x, &[&import[..], &["--update"]].concat()).await);
    assert_eq!(updated["updated"][0]["tool"], "get_item", "{updated}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), whole);
    let backup = updated["updated"][0]["backups"][0].as_str().expect("a copy");
    assert!(fs::read_to_string(x.join(backup)).expect("it is there").starts_with("# Old."));
    let again = json_of(&run(x, &[&import[..], &["--update"]].concat()).await);
    assert_eq!(
        (&again["updated"], &again["kept"][0]["why"]),
        (&json!([]), &json!("it is up to date"))
    );
    // A copy is no tool.
    let listed = json_of(&run(x, &["--json", "list", "./shop", "tools"]).await);
    assert_eq!(listed["tools"].as_array().map(Vec::len), Some(1), "{listed}");
}

#[tokio::test]
async fn a_script_with_options_becomes_a_tool() {
    let folder = Folder::new("import-script");
    let x = folder.0.as_path();
    let script = "import argparse\np = argparse.ArgumentParser(description='Joins words.')\n\
                  p.add_argument('--with', dest='sep', required=True, help='What stands between.')\n\
                  p.add_argument('--loud', action='store_true')\np.add_argument('words', nargs='+')\n\
                  a = p.parse_args()\nt = a.sep.join(a.words)\nprint(t.upper() if a.loud else t)\n";
    fs::write(x.join("joins.py"), script).expect("it can be written");
    let told = json_of(&run(x, &["--json", "import", "joins.py", "--into", "kit"]).await);
    assert_eq!(told["written"][0]["tool"], "joins", "{told}");
    let args = r#"{"with": ", ", "loud": true, "words": ["a", "-b"]}"#;
    let called = run(x, &["run", "joins", "--in", "kit", "--args", args]).await;
    assert_eq!(String::from_utf8_lossy(&called.stdout), "A, -B\n", "{called:?}");
    let listed = run(x, &["list", "./kit"]).await;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("with: string") && listed.contains("loud?: boolean"), "{listed}");
    fs::write(x.join("plain.py"), "print('no options')\n").expect("it can be written");
    let (code, why) = complaint(&run(x, &["import", "plain.py", "--into", "kit", "--yes"]).await);
    assert_eq!((code, why.contains("names no options")), (Some(1), true), "{why}");
}

#[tokio::test]
async fn a_script_among_the_tools_gets_a_header() {
    let folder = Folder::new("import-header");
    let x = folder.0.as_path();
    let script = "#!/usr/bin/env python3\n\"\"\"Says a word loudly.\"\"\"\nimport argparse\n\
                  p = argparse.ArgumentParser()\np.add_argument('word')\n\
                  print(p.parse_args().word.upper())\n";
    let file = x.join("kit/tools/shouts.py");
    fs::create_dir_all(x.join("kit/tools")).expect("it can be made");
    fs::write(&file, script).expect("it can be written");
    let validated = run(x, &["validate", "kit"]).await;
    let told = String::from_utf8_lossy(&validated.stdout).into_owned();
    assert!(told.contains("zcp import") && told.contains("--update"), "{told}");
    let words = ["--json", "import", "kit/tools/shouts.py", "--into", "kit", "--update"];
    let told = json_of(&run(x, &words).await);
    assert_eq!(told["updated"][0]["tool"], "shouts", "{told}");
    let text = fs::read_to_string(&file).expect("it is there");
    assert!(text.starts_with("#!/usr/bin/env python3\n# Says a word loudly.\n"), "{text}");
    let called = run(x, &["run", "shouts", "--in", "kit", "word=-hey"]).await;
    assert_eq!(String::from_utf8_lossy(&called.stdout), "-HEY\n", "{called:?}");
    let validated = run(x, &["validate", "kit"]).await;
    assert!(!String::from_utf8_lossy(&validated.stdout).contains("declares no arguments"));
}
