//! `zcp import`: what an API, a Makefile, a justfile or a package.json offers, as tools of a folder.

mod draft;
pub(super) mod help_text;
mod just;
mod make;
mod npm;
mod openapi;
mod place;
mod remote;
mod schema;
mod secure;
mod server_url;

use crate::{errors::usage, print, target::as_folder};
use draft::{Imported, Named, Tool};
use place::{Fate, Place};
use serde_json::{Value, json};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is there already is only overwritten with --update. Nothing that is imported runs meanwhile,
but for a script, which is run with --help.

Examples:
  zcp import openapi.yaml --into ./my-tools
  zcp import Makefile --into ./my-tools --only build,test
  zcp import package.json --into ./my-tools --dry-run
  zcp import https://example.com/openapi.json --into ./my-tools --update
  zcp import resize.py --into ./my-tools       its options, as its --help says them"
)]
pub(crate) struct Import {
    /// An OpenAPI description (JSON or YAML) or its URL, a Makefile, a justfile, a package.json, or a
    /// script that has options.
    pub(crate) file: PathBuf,

    /// The folder of scripts the tools are written into; made if it is not there.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) into: PathBuf,

    /// Only these operations, targets, recipes or scripts, with commas between; * stands for
    /// anything.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,

    /// What tools' names begin with.
    #[arg(long, default_value = "")]
    pub(crate) prefix: String,

    /// Write tools that are there already anew where they differ, and keep a copy of what they were.
    #[arg(long)]
    pub(crate) update: bool,

    /// Run a script with --help though nothing in it says that it knows that option.
    #[arg(long)]
    pub(crate) yes: bool,

    /// Show what would be written, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Bytes a file may have.
const LARGEST: u64 = 64 * 1024 * 1024;
const KNOWN: &str = "an OpenAPI 3 or Swagger 2 description (JSON or YAML), a Makefile, a justfile, a package.json, or a script";

pub(crate) async fn run(import: &Import, json: bool) -> Result<(), Box<dyn Error>> {
    let url = import.file.to_str();
    let url = url.filter(|text| text.starts_with("http://") || text.starts_with("https://"));
    let (place, mut imported) = match url {
        // What is described elsewhere runs nowhere here.
        Some(url) => (Place::new(&import.into, Path::new("x"), false)?, remote::import(url).await?),
        None => {
            let is_script = help_text::is_script_file(&import.file);
            let place = Place::new(&import.into, &import.file, is_script)?;
            let imported = read(import, &place).await?;
            (place, imported)
        }
    };
    choose(&mut imported, &import.only).map_err(usage)?;
    let named = draft::name(imported.tools, &import.prefix).map_err(|why| usage(why.into()))?;
    let mut done = vec![];
    for named in named {
        let fate = match import.dry_run {
            true => place.foresee(&named, import.update),
            false => place.put(&named, import.update)?,
        };
        done.push((named, fate));
    }
    let is_used = |name: &String| done.iter().any(|(named, _)| named.tool.env.contains(name));
    imported.variables.retain(|variable| is_used(&variable.name));
    let report = Report {
        import,
        place: &place,
        done: &done,
        left_out: &imported.left_out,
        variables: &imported.variables,
    };
    match json {
        true => Ok(print::json(&report.json())?),
        false => report.words(),
    }
}

/// What a file offers.
async fn read(import: &Import, place: &Place) -> Result<Imported, Box<dyn Error>> {
    let file = import.file.as_path();
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let about = fs::metadata(file).map_err(|error| wrong(&error))?;
    if about.len() > LARGEST {
        return Err(wrong(&format!("it has more than {LARGEST} bytes")).into());
    }
    let unknown = || usage(wrong(&format!("it is none of what can be imported: {KNOWN}")).into());
    if !about.is_file() {
        return Err(unknown());
    }
    let text = fs::read_to_string(file).map_err(|error| wrong(&error))?;
    let text = text.trim_start_matches('\u{feff}');
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if name.contains(char::is_control) {
        return Err(unknown());
    }
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    match (name.to_lowercase().as_str(), ending) {
        ("makefile" | "gnumakefile", _) | (_, "mk" | "mak") => {
            return Ok(make::import(text, name, &place.cwd));
        }
        ("justfile" | ".justfile", _) | (_, "just") => {
            return Ok(just::import(text, name, &place.cwd));
        }
        _ => (),
    }
    if help_text::is_script(file, text) {
        if !import.yes && !help_text::has_help(text) {
            return Err(usage(wrong(&help_text::NO_HELP).into()));
        }
        return Ok(help_text::import(file, text, place).await.map_err(|why| wrong(&why))?);
    }
    let value: Value = match (ending, text.trim_start().starts_with('{')) {
        ("json", _) | (_, true) => serde_json::from_str(text).map_err(|error| wrong(&error))?,
        ("yaml" | "yml", _) => yaml(text).map_err(|error| wrong(&error))?,
        _ => return Err(unknown()),
    };
    if value.get("openapi").or(value.get("swagger")).is_some() {
        return Ok(openapi::import(&value).map_err(|why| wrong(&why))?);
    }
    match value.get("scripts").and_then(Value::as_object) {
        Some(scripts) if name == "package.json" => {
            let folder = file.parent().unwrap_or(Path::new("."));
            Ok(npm::import(scripts, npm::Runner::of(&value, folder), &place.cwd))
        }
        None if name == "package.json" => Err(wrong(&"it has no scripts").into()),
        _ => Err(unknown()),
    }
}

/// Descriptions of large APIs have more in them than settings do.
fn yaml(text: &str) -> Result<Value, serde_saphyr::Error> {
    let mut options = serde_saphyr::Options::default();
    if let Some(budget) = &mut options.budget {
        budget.max_nodes = 5_000_000;
        budget.max_events = 20_000_000;
    }
    serde_saphyr::from_str_with_options(text, options)
}

/// Leaves only what was asked for.
fn choose(imported: &mut Imported, only: &[String]) -> Result<(), Box<dyn Error>> {
    if imported.tools.is_empty() && imported.left_out.is_empty() {
        return Err("it offers nothing that could be a tool".into());
    }
    if only.is_empty() {
        return Ok(());
    }
    let is_meant = |pattern: &str, tool: &Tool| {
        fits(pattern, &tool.source) || fits(pattern, &tool.name) || fits(pattern, &tool.about)
    };
    if let Some(none) = only.iter().find(|one| !imported.tools.iter().any(|t| is_meant(one, t))) {
        let known: Vec<_> = imported.tools.iter().map(|tool| tool.source.as_str()).collect();
        return Err(format!("--only {none} fits nothing; there are {}", known.join(", ")).into());
    }
    imported.tools.retain(|tool| only.iter().any(|one| is_meant(one, tool)));
    imported.left_out.retain(|(what, _)| only.iter().any(|one| fits(one, what)));
    Ok(())
}

/// Whether a name is meant by a pattern, in which `*` stands for anything.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    ends.into_iter().any(|at| fits(rest, &name[at..]))
}

/// What came of an import.
struct Report<'a> {
    import: &'a Import,
    place: &'a Place,
    done: &'a [(Named, Fate)],
    left_out: &'a [(String, String)],
    variables: &'a [secure::Variable],
}

impl Report<'_> {
    fn json(&self) -> Value {
        let tool = |(named, fate): &(Named, Fate)| {
            let files = self.place.files(named);
            let mut told = json!({
                "tool": named.name,
                "from": named.tool.about,
                "files": files.iter().map(|(path, _)| path.display().to_string()).collect::<Vec<_>>(),
            });
            if self.import.dry_run {
                told["text"] = files.iter().map(|(_, text)| text.as_str()).collect();
            }
            match fate {
                Fate::Written => (),
                Fate::Updated(before) => told["backups"] = json!(before),
                Fate::Kept(why) => told["why"] = why.as_str().into(),
            }
            told
        };
        let of = |is_meant: fn(&Fate) -> bool| -> Vec<Value> {
            self.done.iter().filter(|(_, fate)| is_meant(fate)).map(tool).collect()
        };
        let left_out = self.left_out.iter().map(|(what, why)| json!({ "from": what, "why": why }));
        let variable =
            |one: &secure::Variable| json!({ "name": one.name, "about": one.about.as_str() });
        json!({
            "dryRun": self.import.dry_run,
            "written": of(|fate| matches!(fate, Fate::Written)),
            "updated": of(|fate| matches!(fate, Fate::Updated(_))),
            "kept": of(|fate| matches!(fate, Fate::Kept(_))),
            "leftOut": left_out.collect::<Vec<_>>(),
            "variables": self.variables.iter().map(variable).collect::<Vec<_>>(),
        })
    }

    fn words(&self) -> Result<(), Box<dyn Error>> {
        let rows = |is_wanted: fn(&Fate) -> bool| -> Vec<(String, String)> {
            let wanted = self.done.iter().filter(|(_, fate)| is_wanted(fate));
            wanted
                .map(|(named, fate)| match fate {
                    Fate::Written | Fate::Updated(_) => {
                        (named.name.clone(), named.tool.about.clone())
                    }
                    Fate::Kept(why) => (named.name.clone(), why.clone()),
                })
                .collect()
        };
        let written = rows(|fate| matches!(fate, Fate::Written));
        let kept = rows(|fate| matches!(fate, Fate::Kept(_)));
        if self.import.dry_run {
            self.preview()?;
        }
        let verb = if self.import.dry_run { "would be written to" } else { "written to" };
        print::table(&format!("{verb} {}", self.place.tools.display()), &written)?;
        let updated = rows(|fate| matches!(fate, Fate::Updated(_)));
        if !updated.is_empty() {
            let verb = if self.import.dry_run { "would be written anew" } else { "written anew" };
            print::table(&format!("{verb}, as they were in a copy beside them"), &updated)?;
        }
        if !kept.is_empty() {
            print::table("left as they are", &kept)?;
        }
        if !self.left_out.is_empty() {
            print::table("left out", self.left_out)?;
        }
        if !self.variables.is_empty() {
            let rows: Vec<_> =
                self.variables.iter().map(|one| (one.name.clone(), one.about.clone())).collect();
            print::table("variables to set for the server", &rows)?;
        }
        if !self.import.dry_run && !written.is_empty() {
            let folder = as_folder(&self.import.into);
            let folder = shell_words::quote(&folder);
            print::words(&format!("See them: zcp list {folder} tools"))?;
        }
        Ok(())
    }

    /// The files as they would be.
    fn preview(&self) -> Result<(), Box<dyn Error>> {
        for (named, fate) in self.done {
            for (path, text) in self.place.files(named) {
                if !matches!(fate, Fate::Kept(_)) {
                    print::words(&format!("--- {}\n{}", path.display(), print::harmless(&text)))?;
                    print::words("")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name) in [
            ("build", "build"),
            ("*", "x"),
            ("get*", "getPet"),
            ("*Pet*", "aPetB"),
            ("a*b*c", "abc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("build", "builds"), ("get*", "aget"), ("a*b", "abc"), ("", "x")] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn yaml_with_numbers_as_names_is_read() {
        let read = yaml("openapi: 3.0.0\nresponses:\n  200: { description: Fine }\n").unwrap();
        assert_eq!(read["responses"]["200"]["description"], "Fine");
        assert_eq!(read["openapi"], "3.0.0");
    }
}
