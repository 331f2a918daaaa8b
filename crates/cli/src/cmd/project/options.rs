//! Scripts that read a command line, and do not say which arguments go there.

use super::import::help_text;
use crate::{findings::Finding, needs};
use regex::Regex;
use std::path::Path;
use zcp_scripts::Program;

/// How much of a script is looked at.
const LOOK: u64 = 256 * 1024;

/// What in a script reads its command line, by how the script's name ends.
const READERS: [(&[&str], &str, &str, Words); 7] = [
    (&["py"], r"(?m)^\s*(import|from)\s+argparse\b", "uses `argparse`", Words::Options),
    (
        &["py"],
        r"(?m)^\s*(import|from)\s+(click|typer|docopt|fire)\b",
        "reads `sys.argv`",
        Words::Options,
    ),
    (&["py"], r"\bsys\.argv\b", "reads `sys.argv`", Words::InOrder("sys.argv[1]", "sys.argv[2]")),
    (&["sh", "bash", "zsh", ""], r"\bgetopts?\s", "uses `getopts`", Words::Letters),
    (
        &["sh", "bash", "zsh", ""],
        r"\$[1-9@*]|\$\{[1-9@*]",
        "reads `$1` or `$@`",
        Words::InOrder("$1", "$2"),
    ),
    (
        &["js", "mjs", "cjs", "ts"],
        r"\bprocess\.argv\b",
        "reads `process.argv`",
        Words::InOrder("process.argv[2]", "process.argv[3]"),
    ),
    (
        &["rb", "pl"],
        r"\bARGV\b|\bOptionParser\b|\bGetopt::",
        "reads `ARGV`",
        Words::InOrder("ARGV[0]", "ARGV[1]"),
    ),
];

/// What a command line is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Options with names.
    Options,
    /// Options of one letter.
    Letters,
    /// Words by their places: what a script calls the first and the second.
    InOrder(&'static str, &'static str),
}

impl Words {
    /// What to write into a header.
    fn advice(self) -> String {
        let param = "`@param name string  Who.`";
        match self {
            Self::Options => format!("write {param} and `@args {{--name=name}}` into its header"),
            Self::Letters => format!("write {param} and `@args -n {{name}}` into its header"),
            Self::InOrder(first, second) => format!(
                "write {param} and `@args {{name}}` into its header, with the words in the order of \
                 {first}, {second}"
            ),
        }
    }
}

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
    let (how, words) =
        how(&text, script.extension().and_then(|ending| ending.to_str()).unwrap_or(""))?;
    if is_beside || SAID.iter().any(|word| text.contains(word)) {
        return None;
    }
    let why = format!("{how}, and declares no arguments: clients can give it none");
    let mut fix = words.advice();
    if help_text::has_help(&text) {
        let folder = script.parent().filter(|folder| folder.ends_with("tools"));
        let folder = folder.and_then(Path::parent).or(script.parent())?;
        let (file, folder) = (script.display().to_string(), folder.display().to_string());
        let import = shell_words::join(["zcp", "import", &file, "--into", &folder, "--update"]);
        fix += &format!("; `{import}` writes them from its --help (runs it once with `--help`)");
    }
    Some(Finding::warning(&program.tool, why).fix(fix))
}

/// How a script reads its command line, if it does.
fn how(text: &str, ending: &str) -> Option<(&'static str, Words)> {
    let is_shell = ["sh", "bash", "zsh", ""].contains(&ending);
    let text = if is_shell { outside_functions(text) } else { text.to_owned() };
    let mut known = READERS.iter().filter(|(endings, ..)| endings.contains(&ending));
    let found = known
        .find(|(_, pattern, ..)| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&text)));
    let (_, _, how, words) = found?;
    let is_in_order = matches!(words, Words::InOrder(..));
    Some((how, if is_in_order && help_text::has_help(&text) { Words::Options } else { *words }))
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
    use super::{Words, how};

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
            assert_eq!(how(text, ending).map(|(how, _)| how), expected, "{text}");
        }
    }

    #[test]
    fn advice_is_what_the_script_reads() {
        for (ending, text, words, args) in [
            ("py", "import argparse\n", Words::Options, "@args {--name=name}"),
            ("sh", "while getopts n: o; do :; done\n", Words::Letters, "@args -n {name}"),
            ("sh", "echo $1\n", Words::InOrder("$1", "$2"), "@args {name}"),
            ("sh", "[ \"$1\" = --help ] && exit\n", Words::Options, "@args {--name=name}"),
        ] {
            let (_, found) = how(text, ending).expect("it reads a command line");
            assert_eq!(found, words, "{text}");
            assert!(found.advice().contains(&format!("`{args}`")), "{}", found.advice());
        }
    }
}
