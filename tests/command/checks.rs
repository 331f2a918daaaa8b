//! What validate, lint, doctor and install find before a client does.

use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};
use zcp_tests::{examples::zcp, folder::Folder};

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(zcp());
    command.args(words).current_dir(folder).env("HOME", folder.join("home"));
    command.env_remove("SHOP_KEY").env_remove("SHOP_TOKEN").stdin(Stdio::null());
    command
}

fn run(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().expect("the command runs")
}

/// What was found, as one text for each finding.
fn found(output: &Output) -> Vec<String> {
    let told: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    told["findings"].as_array().expect("findings").iter().map(ToString::to_string).collect()
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

#[test]
fn validate_finds_scripts_their_interpreters_cannot_read() {
    let folder = Folder::new("checks-syntax");
    let x = folder.0.as_path();
    write(&x.join("tools/shell.sh"), "# Says something.\nif true; then echo a\n");
    write(&x.join("tools/snake.py"), "\"\"\"Says something.\"\"\"\nprint('a'\n");
    write(&x.join("tools/fine.py"), "\"\"\"Says more.\"\"\"\nopen('ran', 'w').write('x')\n");
    write(&x.join("tools/web.js"), "// Says something.\nconsole.log(;\n");
    let output = run(x, &["--json", "validate"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = found(&output);
    for (tool, why) in
        [("shell", "syntax error"), ("snake", "never closed"), ("web", "SyntaxError")]
    {
        let is_it = |one: &&String| one.contains(tool) && one.contains("cannot be read");
        let Some(one) = found.iter().find(is_it) else { panic!("{tool}: {found:#?}") };
        assert!(one.contains(why) || one.contains("SyntaxError"), "{one}");
    }
    assert!(!found.iter().any(|one| one.contains("fine")), "{found:#?}");
    assert!(!x.join("ran").exists() && !x.join("tools/ran").exists(), "it was run");
    assert!(!x.join("tools/__pycache__").exists(), "something was left");
}

#[test]
fn validate_and_lint_name_scripts_with_undeclared_arguments() {
    let folder = Folder::new("checks-options");
    let x = folder.0.as_path();
    let python =
        "\"\"\"Resizes pictures.\"\"\"\nimport argparse\nargparse.ArgumentParser().parse_args()\n";
    write(&x.join("tools/resizes.py"), python);
    write(&x.join("tools/greets.sh"), "# Greets somebody.\necho \"Hello, $1\"\n");
    let said = "# Greets others.\n# @param name string  Who.\n# @args {name}\necho \"Hi, $1\"\n";
    write(&x.join("tools/says.sh"), said);
    for command in ["validate", "lint"] {
        let found = found(&run(x, &["--json", command, "."]));
        let named = |tool: &str| {
            found.iter().any(|one| one.contains(tool) && one.contains("declares no arguments"))
        };
        assert!(named("resizes") && named("greets") && !named("says"), "{command}: {found:#?}");
    }
}

#[test]
fn what_a_folder_needs_and_lacks_is_reported() {
    let folder = Folder::new("checks-needs");
    let x = folder.0.as_path();
    let script = "# Sells things.\n# @env SHOP_KEY\n# @env T=secret://env/SHOP_TOKEN\necho\n";
    write(&x.join("tools/sells.sh"), script);
    let doctor = run(x, &["--json", "doctor", "."]);
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    for output in [doctor, run(x, &["--json", "validate", "."])] {
        let found = found(&output);
        for name in ["SHOP_KEY", "SHOP_TOKEN"] {
            let is_it = |one: &String| one.contains("sells") && one.contains(&format!("{name}=…"));
            assert!(found.iter().any(is_it), "{name}: {found:#?}");
        }
    }
    let mut set = command(x, &["--json", "doctor", "."]);
    let set = set.env("SHOP_KEY", "k").env("SHOP_TOKEN", "t").output().expect("it runs");
    assert!(set.status.success(), "{set:?}");
    let installed = run(x, &["install", "codex", ".", "--env", "SHOP_KEY=k"]);
    let told = String::from_utf8_lossy(&installed.stderr).into_owned();
    assert!(told.contains("--env SHOP_TOKEN=…") && !told.contains("SHOP_KEY"), "{told}");
}

#[test]
fn install_says_what_a_short_path_does_not_find() {
    let folder = Folder::new("checks-path");
    let x = folder.0.as_path();
    let program = x.join("bin/odd-language");
    write(&program, "#!/bin/sh\nexec sh \"$@\"\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it is ours");
    write(&x.join("kit/tools/odd.sh"), "#!/usr/bin/env odd-language\n# Is odd.\necho\n");
    let path = format!("{}:/usr/bin:/bin", x.join("bin").display());
    for (client, is_told) in [("claude-desktop", true), ("claude-code", false)] {
        let mut install = command(x, &["install", client, "kit"]);
        let done = install.env("PATH", &path).output().expect("it runs");
        let told = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(told.contains("short PATH") && told.contains("odd-language"), is_told, "{told}");
    }
    let set = format!("PATH={path}");
    let mut install = command(x, &["install", "claude-desktop", "kit", "--env", &set]);
    let done = install.env("PATH", &path).output().expect("it runs");
    assert!(!String::from_utf8_lossy(&done.stderr).contains("short PATH"), "{done:?}");
}

#[test]
fn lint_advises_others_without_comments_of_scripts() {
    let folder = Folder::new("checks-advice");
    let x = folder.0.as_path();
    let schema = r#"{"inputSchema":{"type":"object","properties":{"any":{"type":"string"}}}}"#;
    write(&x.join("kit/tools/silent.sh"), "echo\n");
    write(&x.join("kit/tools/silent.meta.json"), schema);
    let server = format!("{} serve kit --stdio", zcp().display());
    for (server, is_script) in [("./kit", true), (server.as_str(), false)] {
        let found = found(&run(x, &["--json", "lint", server])).join("\n");
        assert!(found.contains("nothing of `any`") && found.contains("no description"), "{found}");
        assert_eq!(found.contains("@param"), is_script, "{found}");
        assert_eq!(found.contains("comment at its top"), is_script, "{found}");
    }
}

/// Whoever looks at a project runs nothing of it.
#[test]
fn validate_and_doctor_run_no_program_of_a_project() {
    let folder = Folder::new("checks-runs-nothing");
    let x = folder.0.as_path();
    let ran = x.join("ran.txt");
    let plants = format!("#!/bin/sh\necho ran >> {}\n", ran.display());
    for program in ["tools/bash", ".venv/bin/python", "tools/secret.sh"] {
        write(&x.join(program), &plants);
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(x.join(program), mode).expect("it is ours");
    }
    write(&x.join("tools/b.sh"), "# Says something.\n# @command ./bash {file}\necho\n");
    write(&x.join("tools/snake.py"), "\"\"\"Says something.\"\"\"\nprint('a'\n");
    let secret = x.join("tools/secret.sh").display().to_string();
    let mounts =
        format!("[mounts.other]\ncommand = [\"cat\"]\nenv = {{ A = \"secret://cmd/{secret}\" }}\n");
    write(&x.join("zcp.toml"), &mounts);
    let output = run(x, &["--json", "validate"]);
    let found = found(&output);
    assert!(found.iter().any(|one| one.contains("snake")), "it is read all the same: {found:?}");
    run(x, &["doctor", "."]);
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap_or_default());
}
