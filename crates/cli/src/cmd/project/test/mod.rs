//! `zcp test`: the cases of a folder, played one after another.

mod player;
mod test_report;
mod verdict;

use crate::{
    cases::{Case, File},
    errors::usage,
    print,
};
use player::Player;
use serde_json::{Value, json};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Cases are in tests/*.yaml of the folder:

  - name: greets by name
    tool: greet
    args: { name: Ann }
    expect: { text: \"Hello, Ann!\" }

Examples:
  zcp test                        run the cases of this folder
  zcp test ./my-tools --only greet
  zcp test ./my-tools --record    write what comes out as what is expected")]
pub(crate) struct Test {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// A file of cases, instead of those in tests/. Repeat for more.
    #[arg(long, value_name = "FILE")]
    pub(crate) cases: Vec<PathBuf>,

    /// Only cases whose name or tool contains this.
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Write what comes out into the cases, as what is expected from now on.
    #[arg(long)]
    pub(crate) record: bool,
}

/// A case that was run, or was not.
struct Ran {
    name: String,
    file: PathBuf,
    took: Duration,
    fate: Fate,
}

/// What became of a case.
enum Fate {
    Passed,
    /// What came out is what is expected from now on, a failure for example.
    Recorded {
        fails: bool,
    },
    Skipped(String),
    Failed(String),
}

pub(crate) async fn run(test: Test, json: bool) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let paths = match test.cases.is_empty() {
        true => found(&test.folder)?,
        false => test.cases.clone(),
    };
    let mut files = paths.iter().map(|path| File::read(path)).collect::<Result<Vec<_>, _>>()?;
    if files.iter().all(|file| file.cases.is_empty()) {
        return Err(nothing(&test.folder).into());
    }
    let is_wanted = |case: &Case| {
        let only = test.only.as_deref().unwrap_or_default();
        let called = [&case.tool, &case.prompt, &case.resource].into_iter().flatten();
        called.chain([&case.title()]).any(|text| text.contains(only))
    };
    if !files.iter().flat_map(|file| &file.cases).any(is_wanted) {
        let only = test.only.unwrap_or_default();
        return Err(usage(format!("no case's name or tool contains `{only}`").into()));
    }
    let mut player = Player::new(&test.folder)?;
    let mut ran = vec![];
    for file in &mut files {
        let wanted = file.cases.iter().enumerate().filter(|(_, case)| is_wanted(case));
        let wanted: Vec<_> = wanted.map(|(number, case)| (number, case.clone())).collect();
        if !json && !wanted.is_empty() {
            test_report::file(&file.path)?;
        }
        let before = ran.len();
        for (number, case) in wanted {
            let one = played(&mut player, file, number, &case, test.record).await;
            if !json {
                test_report::case(&one)?;
            }
            ran.push(one);
        }
        if ran[before..].iter().any(|one| matches!(one.fate, Fate::Recorded { .. })) {
            let before = file.save()?;
            if let Some(before) = before.filter(|_| !json) {
                test_report::saved(&file.path, &before)?;
            }
        }
    }
    player.close().await;
    match json {
        true => print::json(&ran.iter().map(Ran::for_programs).collect::<Vec<_>>())?,
        false => test_report::summary(&ran, begun.elapsed())?,
    }
    match ran.iter().filter(|one| matches!(one.fate, Fate::Failed(_))).count() {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} cases failed", ran.len()).into()),
    }
}

/// Plays a case, and says what became of it; records it where that is wanted.
async fn played(
    player: &mut Player,
    file: &mut File,
    number: usize,
    case: &Case,
    record: bool,
) -> Ran {
    let begun = Instant::now();
    let fate = match &case.skip {
        Some(why) => Fate::Skipped(why.clone()),
        None => match judged(player, file, number, case, record).await {
            Ok(fate) => fate,
            Err(error) => Fate::Failed(error.to_string()),
        },
    };
    Ran { name: case.title(), file: file.path.clone(), took: begun.elapsed(), fate }
}

async fn judged(
    player: &mut Player,
    file: &mut File,
    number: usize,
    case: &Case,
    record: bool,
) -> Result<Fate, Box<dyn Error>> {
    let (got, wrong) = player.play(case).await?;
    // What was said because nobody had an answer is nothing to expect.
    if !wrong.is_empty() {
        return Ok(Fate::Failed(wrong.join("\n")));
    }
    let expect = case.expect.clone().unwrap_or_default();
    let differences = verdict::differences(&expect, &got);
    if record && case.expect.is_none() {
        file.expect(number, &got.expected())?;
        return Ok(Fate::Recorded { fails: got.is_error });
    }
    if differences.is_empty() {
        return Ok(Fate::Passed);
    }
    let (parts, told): (Vec<_>, Vec<_>) = differences.into_iter().unzip();
    if record {
        file.expect(number, &verdict::renewed(&expect, &parts, &got))?;
        return Ok(Fate::Recorded { fails: got.is_error });
    }
    Ok(Fate::Failed(told.join("\n")))
}

/// The files of cases in a folder.
fn found(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !folder.is_dir() {
        return Err(usage(format!("{} is no folder", folder.display()).into()));
    }
    let tests = folder.join("tests");
    let entries = fs::read_dir(&tests).into_iter().flatten().flatten();
    let is_cases =
        |path: &PathBuf| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_cases).collect();
    paths.sort();
    Ok(paths)
}

/// How to begin.
fn nothing(folder: &Path) -> String {
    let file = folder.join("tests").join("first.yaml");
    format!(
        "no cases yet: write one to {}, for example

  - name: greets by name
    tool: greet
    args: {{ name: Ann }}
    expect: {{ text: \"Hello, Ann!\" }}

or leave `expect` out, and let `zcp test --record` write it",
        file.display()
    )
}

impl Ran {
    fn for_programs(&self) -> Value {
        let mut one = json!({
            "name": self.name,
            "file": self.file,
            "ok": !matches!(self.fate, Fate::Failed(_)),
            "seconds": self.took.as_secs_f64(),
            "difference": null,
        });
        match &self.fate {
            Fate::Passed => (),
            Fate::Recorded { fails } => {
                one["recorded"] = true.into();
                one["fails"] = (*fails).into();
            }
            Fate::Skipped(why) => one["skipped"] = why.clone().into(),
            Fate::Failed(difference) => one["difference"] = difference.clone().into(),
        }
        one
    }
}
