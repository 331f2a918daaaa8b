//! What a crate of ours brings along. Licences, sources and duplicates are checked by `cargo deny`.

use std::{collections::BTreeSet, path::Path, process::Command};

/// Whoever serves on stdio alone compiles no web server.
#[test]
fn a_server_on_stdio_alone_needs_no_web_server() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent");
    let needed = |features: &[&str]| {
        let tree = ["tree", "-p", "zcp", "-e", "normal", "--prefix", "none", "--locked", "--quiet"];
        let mut command = Command::new(env!("CARGO"));
        let told = command.args(tree).args(features).current_dir(root).output();
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

/// With this feature, names in anybody's JSON are taken for something else.
#[test]
fn the_command_reads_json_without_private_names() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent");
    let tree = ["tree", "-p", "zcp-cli", "-e", "features,no-dev", "-i", "serde_json"];
    let mut command = Command::new(env!("CARGO"));
    let told = command.args(tree).args(["--locked", "--quiet"]).current_dir(root).output();
    let told = told.expect("cargo runs");
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let text = String::from_utf8(told.stdout).expect("text");
    assert!(text.contains("feature \"preserve_order\""), "{text}");
    for feature in ["raw_value", "arbitrary_precision"] {
        assert!(!text.contains(&format!("feature \"{feature}\"")), "{feature}: {text}");
    }
}
