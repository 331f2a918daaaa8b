//! `zcp new`: a folder of scripts begun, or something added to one.

use super::validate;
use crate::{errors::usage, nearest, print, project};
use serde_json::json;
use std::{
    error::Error,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "What is there already is never overwritten.

Examples:
  zcp new my-tools                          a folder with one tool, in bash
  zcp new my-tools --lang python            the same in Python
  zcp new my-tools --tool weather           a tool more
  zcp new my-tools --prompt review --completion review --resource motd
  zcp new my-tools --page board --template kanban")]
pub(crate) struct New {
    /// The folder.
    pub(crate) folder: PathBuf,

    /// Which language tools are written in.
    #[arg(long, value_enum, default_value_t = Lang::Bash)]
    pub(crate) lang: Lang,

    /// Add a tool of this name. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) tool: Vec<String>,

    /// Add a prompt of this name. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt: Vec<String>,

    /// Add a script that completes the arguments of the prompt of this name. Repeat for more.
    #[arg(long, value_name = "PROMPT")]
    pub(crate) completion: Vec<String>,

    /// Add a resource of this name. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: Vec<String>,

    /// Add a page of this name, shown by clients that show pages. Repeat for more.
    #[arg(long, value_name = "NAME")]
    pub(crate) page: Vec<String>,

    /// What such a page is made of: form, data-table, progress, diff-viewer, tree-view or kanban.
    #[arg(long, value_name = "TEMPLATE", default_value = "form")]
    pub(crate) template: String,
}

/// A language there is a template for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Lang {
    Bash,
    Python,
    Node,
    Ruby,
    Perl,
    Powershell,
    /// A request to a web service: no language at all.
    Http,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const PROJECT: &str = include_str!("../../../templates/zcp.toml");
const README: &str = include_str!("../../../templates/README.md");
const CASES: &str = include_str!("../../../templates/cases.yaml");
const PROMPT: &str = include_str!("../../../templates/prompt.md");
const COMPLETION: &str = include_str!("../../../templates/completion.sh");
const RESOURCE: &str = include_str!("../../../templates/resource.md");

impl Lang {
    /// The ending of its files, and the tool to begin with.
    fn template(self) -> (&'static str, &'static str) {
        match self {
            Self::Bash => ("sh", include_str!("../../../templates/tool.sh")),
            Self::Python => ("py", include_str!("../../../templates/tool.py")),
            Self::Node => ("js", include_str!("../../../templates/tool.js")),
            Self::Ruby => ("rb", include_str!("../../../templates/tool.rb")),
            Self::Perl => ("pl", include_str!("../../../templates/tool.pl")),
            Self::Powershell => ("ps1", include_str!("../../../templates/tool.ps1")),
            Self::Http => ("http", include_str!("../../../templates/tool.http")),
        }
    }

    /// Arguments such a tool can be tried with.
    fn example(self) -> &'static str {
        match self {
            Self::Http => "path=index.html",
            _ => "name=Ann",
        }
    }
}

pub(crate) fn run(new: &New, json: bool) -> Result<()> {
    let all = [&new.tool, &new.prompt, &new.completion, &new.resource, &new.page];
    for name in all.into_iter().flatten() {
        check(name).map_err(usage)?;
    }
    let is_flat = project::is_flat(&new.folder);
    if let Some(hiding) = hiding(new).filter(|_| is_flat) {
        let why = format!(
            "{} has its scripts directly in it, and a folder `{hiding}` would hide them: move them into \
             `tools/` first",
            new.folder.display()
        );
        return Err(usage(why.into()));
    }
    let mut made = Made { folder: &new.folder, is_flat, files: vec![], kept: vec![] };
    let adds_nothing = all.iter().all(|names| names.is_empty());
    let is_new = !new.folder.join("zcp.toml").exists() && !new.folder.join("tools").exists();
    let mut tools = new.tool.clone();
    if adds_nothing {
        tools.push("hello".to_owned());
    }
    let name = called(&new.folder)?;
    if is_new && !is_flat {
        made.file("zcp.toml", &PROJECT.replace("{{name}}", &name))?;
        let first = tools.first().map_or("TOOL", String::as_str);
        let readme = README.replace("{{name}}", &name).replace("{{tool}}", first);
        made.file("README.md", &readme.replace("{{example}}", new.lang.example()))?;
    }
    for tool in &tools {
        made.tool(tool, new.lang)?;
    }
    for prompt in &new.prompt {
        made.file(&format!("prompts/{prompt}.md"), PROMPT)?;
    }
    for prompt in &new.completion {
        made.file(&format!("prompts/{prompt}.completion.sh"), COMPLETION)?;
    }
    for resource in &new.resource {
        made.file(&format!("resources/{resource}.md"), &RESOURCE.replace("{{name}}", resource))?;
    }
    made.pages(&new.page, &new.template)?;
    if json {
        let Made { files, kept, .. } = &made;
        return Ok(print::json(&json!({ "folder": new.folder, "made": files, "kept": kept }))?);
    }
    made.tell(tools.first().map(|tool| (tool.as_str(), new.lang)))
}

/// A folder that would be made, and would be all that is served of a folder of scripts.
fn hiding(new: &New) -> Option<&'static str> {
    let all = [
        ("prompts", new.prompt.is_empty() && new.completion.is_empty()),
        ("resources", new.resource.is_empty()),
        ("ui", new.page.is_empty()),
    ];
    all.into_iter().find(|(_, is_empty)| !is_empty).map(|(folder, _)| folder)
}

/// What a folder is called, whatever way it is written.
fn called(folder: &Path) -> Result<String> {
    let whole = std::path::absolute(folder)?;
    let name =
        whole.components().next_back().map(|last| last.as_os_str().to_string_lossy().into_owned());
    let name = name.filter(|name| name != "/").unwrap_or_else(|| "tools".to_owned());
    Ok(name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .collect())
}

/// Names every client and every file system takes.
fn check(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !name.is_empty()
        && name.len() <= 64
        && name.chars().all(allowed)
        && !name.starts_with(['-', '_'])
    {
        true => Ok(()),
        false => Err(format!(
            "`{name}` is no name that every client takes: use up to 64 letters, digits, - and _, \
             and begin with a letter or digit"
        )
        .into()),
    }
}

/// What was written, and what was there already.
struct Made<'a> {
    folder: &'a Path,
    /// Whether its scripts are directly in it.
    is_flat: bool,
    files: Vec<PathBuf>,
    kept: Vec<PathBuf>,
}

impl Made<'_> {
    fn tool(&mut self, name: &str, lang: Lang) -> Result<()> {
        let (ending, text) = lang.template();
        // In a project written for mcp-bash each tool has its folder, and says how it is called.
        let is_mcp_bash = self.folder.join("server.d").is_dir();
        let path = match (is_mcp_bash, self.is_flat) {
            (true, _) => format!("tools/{name}/tool.{ending}"),
            (false, true) => format!("{name}.{ending}"),
            (false, false) => format!("tools/{name}.{ending}"),
        };
        if let Some(there) = self.other(name, ending) {
            let why = format!("there is a tool `{name}` already: {}", there.display());
            return Err(usage(why.into()));
        }
        if self.file(&path, text)? {
            // Scripts that say what runs them can be run by hand.
            if text.starts_with("#!") {
                validate::make_executable(&self.folder.join(&path))?;
            }
            if is_mcp_bash {
                let meta = format!("{{ \"name\": \"{name}\", \"args\": \"both\" }}\n");
                self.file(&format!("tools/{name}/tool.meta.json"), &meta)?;
            }
            if lang != Lang::Http {
                self.file(&format!("tests/{name}.yaml"), &CASES.replace("{{name}}", name))?;
            }
        }
        Ok(())
    }

    /// A tool of that name in another language.
    fn other(&self, name: &str, ending: &str) -> Option<PathBuf> {
        let tools = if self.is_flat { "" } else { "tools" };
        let tools = fs::read_dir(self.folder.join(tools)).into_iter().flatten().flatten();
        tools.map(|entry| entry.path()).find(|path| {
            let is_named = path.file_stem().is_some_and(|stem| stem == name);
            let is_other = self.is_flat && path.is_dir();
            is_named && !is_other && path.extension().is_none_or(|other| other != ending)
        })
    }

    fn pages(&mut self, names: &[String], template: &str) -> Result<()> {
        let known = zcp_scripts::page_templates();
        let Some((_, sample)) = known.iter().find(|(name, _)| *name == template) else {
            let hint = nearest::hint(template, known.iter().map(|(name, _)| *name));
            return Err(usage(format!("no page is made of `{template}`: {hint}").into()));
        };
        for name in names {
            self.file(&format!("ui/{name}/ui.meta.json"), sample)?;
        }
        Ok(())
    }

    /// Writes a file that is not there yet, and says whether it was not.
    fn file(&mut self, path: &str, text: &str) -> Result<bool> {
        let whole = self.folder.join(path);
        let told = |error: io::Error| format!("{}: {error}", whole.display());
        if let Some(above) = whole.parent() {
            fs::create_dir_all(above).map_err(told)?;
        }
        match OpenOptions::new().write(true).create_new(true).open(&whole) {
            Ok(mut file) => {
                file.write_all(text.as_bytes()).map_err(told)?;
                self.files.push(whole);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.kept.push(whole);
                Ok(false)
            }
            Err(error) => Err(told(error).into()),
        }
    }

    /// What was made, and what to do next.
    fn tell(&self, tool: Option<(&str, Lang)>) -> Result<()> {
        let rows = |all: &[PathBuf]| -> Vec<(String, String)> {
            all.iter().map(|path| (path.display().to_string(), String::new())).collect()
        };
        if !self.files.is_empty() {
            print::table("made", &rows(&self.files))?;
        }
        if !self.kept.is_empty() {
            print::table("there already, and left as it is", &rows(&self.kept))?;
        }
        let folder = shell_words::quote(&self.folder.to_string_lossy()).into_owned();
        let mut next = vec![];
        if let Some((tool, lang)) = tool {
            next.push((format!("zcp run {tool} {} --in {folder}", lang.example()), "try it"));
        }
        next.push((format!("zcp dev {folder}"), "serve it, and show what happens"));
        next.push((format!("zcp install claude-code {folder}"), "let a client start it"));
        Ok(print::next(&next)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_every_client_takes_are_taken() {
        assert!(["hello", "get-it_2", "9lives"].iter().all(|name| check(name).is_ok()));
        assert!(["", "../x", "a b", "-x", "_x", "é"].iter().all(|name| check(name).is_err()));
        assert!(check(&"x".repeat(65)).is_err());
    }

    #[test]
    fn a_folder_has_a_name_however_it_is_written() {
        assert_eq!(called(Path::new("/a/my tools")).unwrap(), "my-tools");
        assert_eq!(called(Path::new("/")).unwrap(), "tools");
        assert!(!called(Path::new(".")).unwrap().is_empty());
    }
}
