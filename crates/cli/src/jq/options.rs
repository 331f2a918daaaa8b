//! The options of jq, as scripts give them.

use super::{Wrong, json, many, read_file};
use jaq_json::{Val, read};
use std::io::{self, BufRead, Read};

/// What was asked for.
#[derive(Default)]
pub(super) struct Asked {
    pub(super) filter: Option<String>,
    pub(super) from_file: bool,
    pub(super) files: Vec<String>,
    pub(super) null_input: bool,
    pub(super) raw_input: bool,
    pub(super) slurp: bool,
    pub(super) raw: bool,
    pub(super) join: bool,
    pub(super) exit_status: bool,
    pub(super) sort_keys: bool,
    pub(super) indent: Option<String>,
    pub(super) named: Vec<(String, Val)>,
    pub(super) positional: Vec<Val>,
}

/// What a plain word is.
enum Plain {
    File,
    Text,
    Json,
}

impl Asked {
    /// Reads the words of a command line.
    pub(super) fn read(words: &[String]) -> Result<Self, Wrong> {
        let mut asked = Self { indent: Some("  ".into()), ..Self::default() };
        let mut words = words.iter();
        // What plain words are, once the filter is known.
        let mut plain = Plain::File;
        let mut options = true;
        while let Some(word) = words.next() {
            let mut value = || {
                let missing = || Wrong(2, format!("{word} needs a value"));
                words.next().cloned().ok_or_else(missing)
            };
            match word.as_str() {
                "--" if options => options = false,
                "--arg" => {
                    let (name, text) = (value()?, value()?);
                    asked.named.push((name, Val::from(text)));
                }
                "--argjson" => {
                    let (name, text) = (value()?, value()?);
                    asked.named.push((name, json(&text)?));
                }
                "--slurpfile" => {
                    let (name, file) = (value()?, value()?);
                    asked.named.push((name, many(&read_file(&file)?)?));
                }
                "--rawfile" => {
                    let (name, file) = (value()?, value()?);
                    let text = String::from_utf8_lossy(&read_file(&file)?).into_owned();
                    asked.named.push((name, Val::from(text)));
                }
                "--args" => plain = Plain::Text,
                "--jsonargs" => plain = Plain::Json,
                "--indent" => {
                    let spaces =
                        value()?.parse().map_err(|_| Wrong(2, "--indent needs a number".into()))?;
                    asked.indent = Some(" ".repeat(spaces)).filter(|_| spaces > 0);
                }
                "--from-file" => asked.from_file = true,
                long if options && long.starts_with("--") => asked.set(long)?,
                short if options && short.starts_with('-') && short.len() > 1 => {
                    for letter in short[1..].chars() {
                        asked.set(&format!("-{letter}"))?;
                    }
                }
                word if asked.filter.is_none() => asked.filter = Some(word.to_owned()),
                word => match plain {
                    Plain::File => asked.files.push(word.to_owned()),
                    Plain::Text => asked.positional.push(Val::from(word.to_owned())),
                    Plain::Json => asked.positional.push(json(word)?),
                },
            }
        }
        if asked.from_file {
            let file = asked.filter.take().ok_or_else(|| Wrong(2, "-f needs a file".into()))?;
            let text = read_file(&file)?;
            asked.filter = Some(String::from_utf8_lossy(&text).into_owned());
        }
        Ok(asked)
    }

    fn set(&mut self, option: &str) -> Result<(), Wrong> {
        match option {
            "-n" | "--null-input" => self.null_input = true,
            "-R" | "--raw-input" => self.raw_input = true,
            "-s" | "--slurp" => self.slurp = true,
            "-r" | "--raw-output" => self.raw = true,
            "-j" | "--join-output" => (self.raw, self.join) = (true, true),
            "-c" | "--compact-output" => self.indent = None,
            "-e" | "--exit-status" => self.exit_status = true,
            "-S" | "--sort-keys" => self.sort_keys = true,
            "-f" => self.from_file = true,
            "--tab" => self.indent = Some("\t".into()),
            "-M"
            | "-C"
            | "-a"
            | "--monochrome-output"
            | "--color-output"
            | "--ascii-output"
            | "--unbuffered"
            | "--seq" => (),
            other => return Err(Wrong(2, format!("unknown option {other}: see jq --help"))),
        }
        Ok(())
    }

    /// What is filtered, one after the other as it comes.
    pub(super) fn inputs(&self) -> Result<Box<dyn Iterator<Item = Result<Val, String>>>, Wrong> {
        let mut input: Box<dyn Read> = Box::new(io::stdin().lock());
        if !self.files.is_empty() {
            let mut all = vec![];
            for file in &self.files {
                all.extend(read_file(file)?);
            }
            input = Box::new(io::Cursor::new(all));
        }
        let mut input = io::BufReader::new(input);
        let failed = |error: io::Error| Wrong(2, error.to_string());
        let mut bytes = vec![];
        if self.slurp {
            input.read_to_end(&mut bytes).map_err(failed)?;
        }
        Ok(match (self.raw_input, self.slurp) {
            (true, true) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                Box::new(std::iter::once(Ok(Val::from(text))))
            }
            (true, false) => Box::new(input.lines().map(|line| match line {
                Ok(line) => Ok(Val::from(line)),
                Err(error) => Err(error.to_string()),
            })),
            (false, true) => Box::new(std::iter::once(Ok(many(&bytes)?))),
            (false, false) => Box::new(
                read::read_many(input)
                    .map(|value| value.map_err(|error| format!("parse error: {error}"))),
            ),
        })
    }
}
