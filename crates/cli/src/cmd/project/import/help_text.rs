//! A script that has options already: what its `--help` says of them, as a tool that starts it.

use super::{
    draft::{Imported, Tool},
    make::bare,
    place::Place,
};
use crate::needs;
use regex::Regex;
use serde_json::{Map, Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};
use tokio::{io::AsyncReadExt, process::Command};

/// How long a script may take to say its options, and how much of that is read.
const TIME: Duration = Duration::from_secs(10);
const HEARD: u64 = 256 * 1024;
/// What runs a script, by how its name ends.
const RUNNERS: [(&str, &str); 8] = [
    ("py", "python3"),
    ("sh", "bash"),
    ("bash", "bash"),
    ("js", "node"),
    ("mjs", "node"),
    ("cjs", "node"),
    ("rb", "ruby"),
    ("pl", "perl"),
];
/// Names of values that are whole numbers.
const NUMBERS: [&str; 7] = ["N", "NUM", "NUMBER", "INT", "INTEGER", "COUNT", "PORT"];

/// What in a script says that it knows `--help`, or has a library that does.
const KNOWS_HELP: &str = r"--help\b|\bargparse\b|\bgetopts?\b|\boptparse\b|\bOptionParser\b|\bGetopt::|\bparseArgs\b|\bcommander\b|\byargs\b|\b(import|from)\s+(click|typer|docopt|fire)\b";
/// Why a script is not run.
pub(super) const NO_HELP: &str = "an import runs the script once with `--help`, and nothing in it says \
    that it knows that option: it might do its work with `--help` as its argument. Write `@param` and \
    `@args` into its header yourself, or say --yes to run it all the same";

/// Whether a script says that it can be asked for help.
pub(in crate::cmd::project) fn has_help(text: &str) -> bool {
    Regex::new(KNOWS_HELP).is_ok_and(|pattern| pattern.is_match(text))
}

/// Whether a file is taken for a script by its name or its first bytes.
pub(super) fn is_script_file(file: &Path) -> bool {
    runner(file).is_some() || needs::beginning(file, 2).is_some_and(|text| text == "#!")
}

/// Whether a file is taken for a script.
pub(super) fn is_script(file: &Path, text: &str) -> bool {
    runner(file).is_some() || text.starts_with("#!")
}

/// The program that runs a script; none for one that starts by itself.
fn runner(file: &Path) -> Option<&'static str> {
    let ending = file.extension()?.to_str()?;
    RUNNERS.iter().find(|(known, _)| *known == ending).map(|(_, runner)| *runner)
}

/// The tool of a script. The script is run with `--help`. It stays where it is; if that is among the
/// tools already, it gets a header.
pub(super) async fn import(file: &Path, text: &str, place: &Place) -> Result<Imported, String> {
    let file = fs::canonicalize(file).map_err(|error| error.to_string())?;
    let is_tool = fs::canonicalize(&place.tools).is_ok_and(|tools| file.parent() == Some(&tools));
    let name = file.file_name().and_then(|name| name.to_str()).ok_or("its name is not UTF-8")?;
    let words = starting(&file, text, name)?;
    let help = help(&file, &words).await?;
    let read = Help::read(&help);
    if read.has_commands {
        return Err("it has subcommands: write a tool for each by hand".to_owned());
    }
    if read.arguments.is_empty() {
        let hint = "write `@param` and `@args` by hand";
        return Err(format!("its --help names no options that could be read: {hint}"));
    }
    let mut tags = vec![format!("args {}", read.template())];
    if !is_tool {
        let command = shell_words::join(words.iter().map(String::as_str).chain(["{no-file}"]));
        tags.insert(0, format!("command {}", bare(&command)));
        tags.extend((place.cwd != ".").then(|| format!("cwd {}", place.cwd)));
    }
    let ending = file.extension().and_then(|ending| ending.to_str());
    let own = RUNNERS.iter().find(|(known, _)| Some(*known) == ending).map(|(known, _)| *known);
    let (shebang, body) = match (is_tool, text.starts_with("#!")) {
        (true, true) => text.split_at(text.find('\n').map_or(text.len(), |end| end + 1)),
        (true, false) => ("", text),
        (false, _) => ("", ""),
    };
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
    let required = read.arguments.iter().filter(|one| one.is_required);
    let tool = Tool {
        source: stem.to_owned(),
        about: format!("{name} --help"),
        name: stem.to_owned(),
        ending: match is_tool {
            true => own.ok_or("its name has no ending: write `@param` and `@args` by hand")?,
            false => "sh",
        },
        description: match (read.about.is_empty(), first_words(text)) {
            (false, _) => read.about.clone(),
            (true, Some(words)) => words,
            (true, None) => format!("Runs {name}."),
        },
        shebang: shebang.to_owned(),
        body: body.to_owned(),
        tags,
        required: required.map(|one| one.name.clone()).collect(),
        properties: read.arguments.iter().map(|one| (one.name.clone(), one.schema())).collect(),
        ..Tool::default()
    };
    Ok(Imported { tools: vec![tool], ..Imported::default() })
}

/// What a script says of itself first, in a comment or a docstring.
fn first_words(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.starts_with("#!"));
    let first = lines.find(|line| !line.is_empty())?;
    let marks = ["\"\"\"", "'''", "//", "#"];
    let words = marks.iter().find_map(|mark| first.strip_prefix(mark))?;
    let words = words.trim_end_matches("\"\"\"").trim_end_matches("'''").trim();
    words.starts_with(char::is_alphanumeric).then(|| words.to_owned())
}

/// The words that start a script in its folder.
fn starting(file: &Path, text: &str, name: &str) -> Result<Vec<String>, String> {
    if let Some(runner) = runner(file) {
        return Ok(vec![runner.to_owned(), name.to_owned()]);
    }
    let line = text.lines().next().and_then(|line| line.strip_prefix("#!")).unwrap_or_default();
    let words = shell_words::split(line).map_err(|error| error.to_string())?;
    let mut words: Vec<String> = words
        .into_iter()
        .filter(|word| !word.ends_with("/env") && word != "-S")
        .map(|word| word.rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    words.push(name.to_owned());
    Ok(words)
}

/// What a script says when it is asked for help.
async fn help(file: &Path, words: &[String]) -> Result<String, String> {
    let (program, rest) = words.split_first().ok_or("nothing starts it")?;
    let folder: PathBuf = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut command = Command::new(program);
    command.args(rest).arg("--help").current_dir(folder).kill_on_drop(true);
    // Wide, so that few lines are broken.
    command.env("COLUMNS", "200").env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("`{program}`: {error}"))?;
    let mut said = vec![];
    let saying = async {
        if let Some(output) = child.stdout.take() {
            output.take(HEARD).read_to_end(&mut said).await?;
        }
        child.wait().await
    };
    match tokio::time::timeout(TIME, saying).await {
        Ok(Ok(status)) if status.success() => Ok(String::from_utf8_lossy(&said).into_owned()),
        Ok(Ok(status)) => Err(format!("`{} --help` fails: {status}", words.join(" "))),
        Ok(Err(error)) => Err(format!("`{} --help`: {error}", words.join(" "))),
        Err(_) => Err(format!("`{} --help` takes too long", words.join(" "))),
    }
}

/// What a script's help says.
#[derive(Debug, Default)]
struct Help {
    about: String,
    arguments: Vec<Argument>,
    has_commands: bool,
}

/// An option or a word of a command line.
#[derive(Debug, Default, PartialEq)]
struct Argument {
    name: String,
    /// The option, or nothing where it is a word by itself.
    flag: Option<String>,
    takes: Takes,
    choices: Vec<String>,
    is_number: bool,
    is_required: bool,
    about: String,
}

/// What follows an option.
#[derive(Debug, Default, PartialEq)]
enum Takes {
    #[default]
    Nothing,
    One,
    Many,
}

impl Help {
    fn read(text: &str) -> Self {
        let mut help = Self::default();
        let (usage, rest) = usage(text);
        let mut entry: Option<String> = None;
        let mut entries = vec![];
        for line in rest.lines() {
            let depth = line.len() - line.trim_start().len();
            let is_heading = depth == 0 && line.trim_end().ends_with(':');
            match depth {
                _ if line.trim().is_empty() || is_heading => entries.extend(entry.take()),
                0 if help.about.is_empty() && entries.is_empty() => {
                    line.trim().clone_into(&mut help.about)
                }
                1..=8 if entry.is_none() || line.trim_start().starts_with('-') || depth <= 2 => {
                    entries.extend(entry.replace(line.trim().to_owned()));
                }
                _ => {
                    if let Some(entry) = &mut entry {
                        *entry += &format!("  {}", line.trim());
                    }
                }
            }
        }
        entries.extend(entry);
        for entry in entries {
            match Argument::read(&entry, &usage) {
                Some(argument) if argument.name == "help" || argument.name == "version" => (),
                Some(argument) => help.arguments.push(argument),
                None => help.has_commands |= entry.starts_with('{'),
            }
        }
        help
    }

    /// The command line, with a place for each argument.
    fn template(&self) -> String {
        let (words, flags): (Vec<_>, Vec<_>) =
            self.arguments.iter().partition(|one| one.flag.is_none());
        let mut all: Vec<String> = flags.into_iter().map(Argument::place).collect();
        if !words.is_empty() {
            // What is given is no option, whatever it begins with.
            all.push("--".to_owned());
            all.extend(words.into_iter().map(Argument::place));
        }
        all.join(" ")
    }
}

/// The usage on one line, and what follows it.
fn usage(text: &str) -> (String, String) {
    let mut lines = text.lines();
    let mut before = vec![];
    let mut usage = String::new();
    for line in lines.by_ref() {
        let low = line.trim_start().to_lowercase();
        if let Some(first) = low.strip_prefix("usage:") {
            usage = line.trim_start()[line.trim_start().len() - first.len()..].to_owned();
            break;
        }
        before.push(line);
    }
    for line in lines.by_ref() {
        if line.trim().is_empty() || !line.starts_with(' ') {
            before.push(line);
            break;
        }
        usage += " ";
        usage += line.trim();
    }
    let rest: Vec<&str> = before.into_iter().chain(lines).collect();
    (usage, rest.join("\n"))
}

impl Argument {
    /// Reads `-w WIDTH, --width WIDTH  Words.`, `--width=WIDTH` or `name  Words.`.
    fn read(entry: &str, usage: &str) -> Option<Self> {
        let (said, about) = entry.split_once("  ").unwrap_or((entry, ""));
        let mut argument = Self { about: about.trim().to_owned(), ..Self::default() };
        if !said.starts_with('-') {
            let name = said.split_whitespace().next()?;
            if !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
                return None;
            }
            argument.name = name.replace('-', "_");
            let is_many =
                usage.contains(&format!("{name} ...")) || usage.contains(&format!("{name}..."));
            argument.takes = if is_many { Takes::Many } else { Takes::One };
            argument.is_required = is_outside_brackets(usage, name);
            return Some(argument);
        }
        let parts: Vec<&str> = split_outside_braces(said);
        let long = parts.iter().find(|part| part.starts_with("--")).or(parts.first())?;
        let (flag, value) = long.split_once(['=', ' ']).unwrap_or((long, ""));
        let flag = flag.trim_end_matches('[');
        // A short form may be the only one that says what follows.
        let value = match value.is_empty() {
            true => {
                parts.iter().find_map(|part| part.split_once(' ')).map_or("", |(_, value)| value)
            }
            false => value,
        };
        let value = value.trim_matches(['[', ']', '<', '>', ' ']);
        argument.name = flag.trim_start_matches('-').replace('-', "_");
        argument.flag = Some(flag.to_owned());
        argument.takes = match value {
            "" => Takes::Nothing,
            value if value.contains("...") => Takes::Many,
            _ => Takes::One,
        };
        if let Some(inside) = value.strip_prefix('{').and_then(|rest| rest.split('}').next()) {
            argument.choices = inside.split(',').map(|one| one.trim().to_owned()).collect();
        }
        argument.is_number = NUMBERS.contains(&value);
        let forms = parts.iter().filter_map(|part| part.split([' ', '=']).next());
        argument.is_required = forms.into_iter().any(|form| is_outside_brackets(usage, form));
        (!argument.name.is_empty()).then_some(argument)
    }

    fn schema(&self) -> Value {
        let one = match (self.choices.is_empty(), self.is_number) {
            (false, _) => json!({ "type": "string", "enum": self.choices }),
            (true, true) => json!({ "type": "integer" }),
            (true, false) => json!({ "type": "string" }),
        };
        let schema = match self.takes {
            Takes::Nothing => json!({ "type": "boolean" }),
            Takes::One => one,
            Takes::Many => json!({ "type": "array", "items": one }),
        };
        let mut schema: Map<String, Value> = schema.as_object().cloned().unwrap_or_default();
        if !self.about.is_empty() {
            schema.insert("description".to_owned(), self.about.clone().into());
        }
        schema.into()
    }

    /// Its place in the command line.
    fn place(&self) -> String {
        let name = &self.name;
        match (&self.flag, &self.takes) {
            (Some(flag), Takes::Nothing) => format!("{{{name}?{flag}}}"),
            (Some(flag), Takes::One) if flag.starts_with("--") => format!("{{{flag}={name}}}"),
            (Some(flag), Takes::One) => format!("{flag} {{{name}}}"),
            (Some(flag), Takes::Many) => format!("{flag} {{{name}...}}"),
            (None, Takes::Many) => format!("{{{name}...}}"),
            (None, _) => format!("{{{name}}}"),
        }
    }
}

/// The forms of an option, between commas that are not among choices.
fn split_outside_braces(said: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let is_end = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => (),
        }
        c == ',' && depth == 0
    };
    said.split(is_end).map(str::trim).collect()
}

/// Whether a word of a usage stands where nothing says that it may be left out.
fn is_outside_brackets(usage: &str, word: &str) -> bool {
    let mut outside = String::new();
    let mut depth = 0_usize;
    for c in usage.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            c if depth == 0 => outside.push(c),
            _ => (),
        }
    }
    let pattern = format!(r"(^|[\s(|]){}($|[\s)=|.])", regex::escape(word));
    Regex::new(&pattern).is_ok_and(|pattern| pattern.is_match(&outside))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGPARSE: &str = "usage: argp.py [-h] --width WIDTH [--mode {a,b}] [-v] [--count N] files [files ...]\n\n\
        Resizes pictures.\n\npositional arguments:\n  files                 Files to resize.\n\n\
        options:\n  -h, --help            show this help message and exit\n  \
        --width WIDTH         The width\n                        in pixels.\n  \
        -m {a,b}, --mode {a,b}\n                        How.\n  -v, --verbose         Says more.\n  \
        --count N\n";

    #[test]
    fn options_of_argparse_are_read() {
        let help = Help::read(ARGPARSE);
        assert_eq!(help.about, "Resizes pictures.");
        let names: Vec<&str> = help.arguments.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["files", "width", "mode", "verbose", "count"], "{help:#?}");
        let required = help.arguments.iter().filter(|one| one.is_required);
        assert_eq!(required.map(|one| one.name.as_str()).collect::<Vec<_>>(), ["files", "width"]);
        assert_eq!(help.arguments[1].about, "The width  in pixels.");
        assert_eq!(help.arguments[2].schema()["enum"], json!(["a", "b"]));
        assert_eq!(help.arguments[3].schema()["type"], "boolean");
        assert_eq!(help.arguments[4].schema()["type"], "integer");
        assert_eq!(
            help.template(),
            "{--width=width} {--mode=mode} {verbose?--verbose} {--count=count} -- {files...}"
        );
    }

    #[test]
    fn subcommands_are_noticed() {
        let text = "usage: x [-h] {add,remove} ...\n\npositional arguments:\n  {add,remove}\n    add    Adds.\n";
        assert!(Help::read(text).has_commands);
    }
}
