//! Scripts that read a command line, and do not say which arguments go there.

use crate::{findings::Finding, needs};
use regex::Regex;
use std::path::Path;
use zcp_scripts::Program;

/// How much of a script is looked at.
const LOOK: u64 = 256 * 1024;

/// What in a script reads its command line, by how the script's name ends.
const READERS: [(&[&str], &str, &str); 6] = [
    (&["py"], r"(?m)^\s*(import|from)\s+argparse\b", "uses `argparse`"),
    (
        &["py"],
        r"(?m)^\s*(import|from)\s+(click|typer|docopt|fire)\b|\bsys\.argv\b",
        "reads `sys.argv`",
    ),
    (&["sh", "bash", "zsh", ""], r"\bgetopts?\s", "uses `getopts`"),
    (&["sh", "bash", "zsh", ""], r"\$[1-9@*]|\$\{[1-9@*]", "reads `$1` or `$@`"),
    (&["js", "mjs", "cjs", "ts"], r"\bprocess\.argv\b", "reads `process.argv`"),
    (&["rb", "pl"], r"\bARGV\b|\bOptionParser\b|\bGetopt::", "reads `ARGV`"),
];
/// What stands in a header that says which arguments there are.
const SAID: [&str; 6] = ["@param", "@args", "@arg ", ":param", "Args:", "mcp:"];

/// Says of a script that reads a command line that it declares no arguments.
pub(super) fn undeclared(program: &Program) -> Option<Finding> {
    let script = &program.script;
    let text = needs::beginning(script, LOOK)?;
    let name = script.file_name()?.to_str()?;
    let stem = script.file_stem()?.to_str()?;
    let is_beside =
        [name, stem].iter().any(|name| script.with_file_name(format!("{name}.meta.json")).exists());
    let how = how(&text, script.extension().and_then(|ending| ending.to_str()).unwrap_or(""))?;
    if is_beside || SAID.iter().any(|word| text.contains(word)) {
        return None;
    }
    let why = format!("{how}, and declares no arguments: clients can give it none");
    let folder = script.parent().filter(|folder| folder.ends_with("tools"));
    let folder = folder.and_then(Path::parent).or(script.parent())?;
    let (file, folder) = (script.display().to_string(), folder.display().to_string());
    let import = shell_words::join(["zcp", "import", &file, "--into", &folder, "--update"]);
    let fix = format!(
        "say `@param NAME TYPE words` and `@args --name {{name}}` in its header; `{import}` writes that from its --help"
    );
    Some(Finding::warning(&program.tool, why).fix(fix))
}

/// How a script reads its command line, if it does.
fn how(text: &str, ending: &str) -> Option<&'static str> {
    let is_shell = ["sh", "bash", "zsh", ""].contains(&ending);
    let text = if is_shell { outside_functions(text) } else { text.to_owned() };
    let mut known = READERS.iter().filter(|(endings, ..)| endings.contains(&ending));
    let found = known
        .find(|(_, pattern, _)| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&text)));
    found.map(|(_, _, how)| *how)
}

/// A shell script without comments, the bodies of functions, which have a `$1` of their own, and
/// words for other programs such as awk.
fn outside_functions(text: &str) -> String {
    let mut all = String::new();
    let (mut is_inside, mut is_quoted) = (false, false);
    for line in text.lines() {
        let bare = line.trim();
        if is_inside {
            is_inside = !line.starts_with('}');
            continue;
        }
        let begins = bare.contains("()") && bare.ends_with('{');
        if begins || bare.starts_with("function ") && bare.ends_with('{') {
            is_inside = true;
            continue;
        }
        if bare.starts_with('#') || bare.contains("() {") && bare.ends_with('}') {
            continue;
        }
        for (number, part) in line.split('\'').enumerate() {
            is_quoted ^= number > 0;
            if !is_quoted {
                all += part;
            }
        }
        all.push('\n');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::how;

    #[test]
    fn a_command_line_is_noticed_where_it_is_read() {
        for (ending, text, expected) in [
            ("py", "import argparse\n", Some("uses `argparse`")),
            ("py", "import json\n", None),
            ("sh", "#!/bin/sh\necho \"$1\"\n", Some("reads `$1` or `$@`")),
            ("sh", "while getopts ab: o; do :; done\n", Some("uses `getopts`")),
            ("sh", "greet() {\n  echo \"$1\"\n}\ngreet \"$ARG_NAME\"\n", None),
            ("sh", "# say $1\ndf | awk '{ print $1 }'\n", None),
            ("js", "console.log(process.argv[2])", Some("reads `process.argv`")),
        ] {
            assert_eq!(how(text, ending), expected, "{text}");
        }
    }
}
