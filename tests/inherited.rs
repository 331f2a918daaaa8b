//! What the programs that a server starts inherit of the server.
#![expect(clippy::unwrap_used, reason = "a test that meets nothing where there is something fails")]

use std::{os::unix::fs::PermissionsExt, process::Command};
use zcp_tests::{examples::zcp, folder::Folder};

/// Runs a tool of a folder by way of a shell, as a user who may not read everything.
fn run(folder: &Folder, before: &str, tool: &str) -> String {
    let (program, root) = (zcp(), folder.0.display());
    let words = format!("{before} exec '{}' run {tool} --in '{root}'", program.display());
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut shell = match is_root {
        false => Command::new("bash"),
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "bash"]);
            command
        }
    };
    let output = shell.args(["-c", &words]).env("HOME", &folder.0).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn folder(name: &str, script: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::create_dir_all(folder.0.join("tools")).unwrap();
    std::fs::write(folder.0.join("tools/look.sh"), script).unwrap();
    std::fs::write(folder.0.join("left-open"), "a secret of whoever started it").unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&folder.0, open).unwrap();
    folder
}

#[test]
fn a_script_has_no_file_that_was_left_open_for_the_server() {
    let folder = folder("left-open", "#!/bin/bash\n# Looks.\ncat <&19 2>&1\necho done\n");
    let file = folder.0.join("left-open");
    let said = run(&folder, &format!("exec 19<'{}';", file.display()), "look");
    assert!(said.contains("done") && !said.contains("a secret"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_script_cannot_read_the_environment_of_its_server() {
    let look = "#!/bin/bash\n# Looks.\ntr '\\0' '\\n' < /proc/$PPID/environ 2>&1\necho done\n";
    let folder = folder("environment", look);
    let said = run(&folder, "export ONLY_THE_SERVER=hidden;", "look");
    assert!(said.contains("done") && !said.contains("ONLY_THE_SERVER"), "{said}");
}
