//! What is in a bundle, and what its version is.

use serde_json::Value;
use std::{fs, path::Path, process::Command};
use zcp_tests::{examples::zcp, folder::Folder};
use zip::ZipArchive;

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

#[test]
fn a_bundle_has_no_cases_and_the_version_of_the_server() {
    let folder = Folder::new("bundle-contents");
    let x = folder.0.as_path();
    write(&x.join("kit/tools/greet.sh"), "# Greets.\necho hi\n");
    write(&x.join("kit/tests/all.yaml"), "- tool: greet\n");
    write(&x.join("elf"), "\x7fELF and more");
    let run = |words: &[&str]| {
        let mut command = Command::new(zcp());
        let done = command.args(words).current_dir(x).env("HOME", x).output().expect("it runs");
        assert!(done.status.success(), "{done:?}");
        done.stdout
    };
    run(&["bundle", "kit", "--binary", "elf", "--output", "dist"]);
    let listed: Value = serde_json::from_slice(&run(&["--json", "list", "./kit"])).expect("JSON");
    let version = listed["server"]["info"]["version"].as_str().expect("a version");
    let file = x.join(format!("dist/kit-{version}.mcpb"));
    let archive = ZipArchive::new(fs::File::open(file).expect("a bundle")).expect("a ZIP");
    let names: Vec<String> =
        archive.file_names().map(|name| name.expect("UTF-8").into_owned()).collect();
    assert!(names.iter().any(|name| name.ends_with("tools/greet.sh")), "{names:?}");
    assert!(!names.iter().any(|name| name.contains("tests/")), "{names:?}");
}
