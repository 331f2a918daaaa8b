//! A jq for scripts on machines that have none: the command by that name, as far as scripts use it.

mod options;

use jaq_core::{
    Compiler, Ctx, DataT, Exn, Lut, Vars,
    data::HasLut,
    load::{Arena, File, Loader},
};
use jaq_json::{
    Val, read,
    write::{Pp, write},
};
use jaq_std::input::{HasInputs, Inputs, RcIter};
use options::Asked;
use std::{
    ffi::OsString,
    fs,
    io::{self, Write},
    process::ExitCode,
};

const HELP: &str = "A jq for scripts. Usage: jq [OPTIONS] FILTER [FILE...]

  -n  no input              -r  raw strings        -j  raw, and no line breaks
  -s  all input as a list   -R  input as strings   -c  on one line
  -e  exit by the result    -S  sorted keys        -f FILE  the filter is in a file
  --arg NAME VALUE   --argjson NAME JSON   --slurpfile NAME FILE   --rawfile NAME FILE
  --args VALUES...   --jsonargs VALUES...  --tab   --indent N
";

/// What scripts use and the library leaves to others.
const DEFINITIONS: &str = r#"
def __cell(f): if . == null then "" elif type == "string" then f
    elif type == "array" or type == "object" then error("\(type) cannot be in a row") else tostring end;
def @tsv: [.[] | __cell(gsub("\\\\"; "\\\\") | gsub("\t"; "\\t") | gsub("\n"; "\\n") | gsub("\r"; "\\r"))] | join("\t");
def @csv: [.[] | __cell("\"" + gsub("\""; "\"\"") + "\"")] | join(",");
def __values: fromjson;
def fromjson: [__values] | if length == 1 then .[0] else error("\(length) values where one is expected") end;
def tostream: path(def r: (.[]? | r), .; r) as $p | getpath($p)
    | reduce path(.[]?) as $q ([$p, .]; [$p + $q]);
"#;

/// The words after `jq`, if that is what this program is started as.
pub(crate) fn called_as() -> Option<Vec<String>> {
    let mut words = std::env::args_os().map(|word: OsString| word.to_string_lossy().into_owned());
    let program = words.next()?;
    let name = std::path::Path::new(&program).file_stem()?.to_str()?.to_owned();
    let rest: Vec<String> = words.collect();
    match (name.as_str(), rest.split_first()) {
        ("jq", _) => Some(rest),
        (_, Some((first, rest))) if first == "jq" => Some(rest.to_vec()),
        _ => None,
    }
}

/// Why it did not go well: an exit code, and words.
struct Wrong(u8, String);

/// Does what jq does.
pub(crate) fn run(words: &[String]) -> ExitCode {
    let done = match words.first().map(String::as_str) {
        Some("-h" | "--help") => print_text(HELP),
        Some("-V" | "--version") => print_text("jq-1.7 (zcp)\n"),
        _ => Asked::read(words).and_then(|asked| filter(&asked)),
    };
    match done {
        Ok(code) => ExitCode::from(code),
        Err(Wrong(code, why)) => {
            if !why.is_empty() {
                let _ = writeln!(io::stderr(), "jq: error: {why}");
            }
            ExitCode::from(code)
        }
    }
}

fn print_text(text: &str) -> Result<u8, Wrong> {
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(0)
}

fn read_file(path: &str) -> Result<Vec<u8>, Wrong> {
    fs::read(path).map_err(|error| Wrong(2, format!("{path}: {error}")))
}

#[expect(clippy::needless_pass_by_value, reason = "it stands where errors are mapped")]
fn parse_error(error: read::Error) -> Wrong {
    Wrong(2, format!("parse error: {error}"))
}

fn json(text: &str) -> Result<Val, Wrong> {
    read::parse_single(text.as_bytes())
        .map_err(|_| Wrong(2, format!("Invalid JSON text passed to --argjson: {text}")))
}

/// All values of a text as a list.
fn many(bytes: &[u8]) -> Result<Val, Wrong> {
    let all: Result<Vec<Val>, Wrong> =
        read::parse_many(bytes).map(|value| value.map_err(parse_error)).collect();
    Ok(all?.into_iter().collect())
}

/// What filters know beside their input: the inputs to come.
struct Known;

#[derive(Clone)]
struct Global<'a> {
    lut: &'a Lut<Known>,
    inputs: Inputs<'a, Val>,
}

impl DataT for Known {
    type V<'a> = Val;
    type Data<'a> = Global<'a>;
}

impl<'a> HasLut<'a, Known> for Global<'a> {
    fn lut(&self) -> &'a Lut<Known> {
        self.lut
    }
}

impl<'a> HasInputs<'a, Val> for Global<'a> {
    fn inputs(&self) -> Inputs<'a, Val> {
        self.inputs
    }
}

fn filter(asked: &Asked) -> Result<u8, Wrong> {
    let code =
        asked.filter.as_deref().ok_or_else(|| Wrong(2, "no filter: see jq --help".into()))?;
    let (names, values) = variables(asked);
    let arena = Arena::default();
    let own = jaq_core::load::parse(DEFINITIONS, |parser| parser.defs()).unwrap_or_default();
    let defs = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own);
    let modules = Loader::new(defs).load(&arena, File { code, path: () }).map_err(|errors| {
        let first = errors.first().map(|(_, error)| format!("{error:?}")).unwrap_or_default();
        Wrong(3, format!("syntax error in `{code}`: {first}"))
    })?;
    let funs = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let inputs_funs = jaq_std::input::funs().into_vec().into_iter().map(jaq_core::native::run);
    let compiler = Compiler::default().with_funs(funs.chain(inputs_funs));
    let compiler = compiler.with_global_vars(names.iter().map(String::as_str));
    let filter = compiler.compile(modules).map_err(|errors| {
        let undefined = errors.iter().flat_map(|(_, all)| all.iter().map(|(name, _)| *name));
        Wrong(3, format!("{} is not defined", undefined.collect::<Vec<_>>().join(", ")))
    })?;
    let inputs = RcIter::new(asked.inputs()?);
    let inputs: Inputs<'_, Val> = &inputs;
    let mut out = Out { asked, stdout: io::stdout().lock(), last: None };
    let global = Global { lut: &filter.lut, inputs };
    let mut one = |input: Val| -> Result<(), Wrong> {
        let ctx = Ctx::<Known>::new(global.clone(), Vars::new(values.clone()));
        for value in filter.id.run((ctx, input)) {
            match value {
                Ok(value) => out.write(&value)?,
                Err(ended) => return Err(wrong(ended)),
            }
        }
        Ok(())
    };
    let done = match asked.null_input {
        true => one(Val::default()),
        false => {
            let mut inputs = inputs;
            inputs.try_for_each(|input| one(input.map_err(|why| Wrong(2, why))?))
        }
    };
    done?;
    Ok(out.code())
}

/// Why a filter did not come to its end.
fn wrong(ended: Exn<'_, Val>) -> Wrong {
    match ended.get_err() {
        Ok(error) => Wrong(
            5,
            match error.into_val() {
                Val::TStr(text) => String::from_utf8_lossy(&text).into_owned(),
                other => other.to_string(),
            },
        ),
        // It said so itself, and with which code.
        Err(ended) => {
            let code = ended.get_halt().unwrap_or(5);
            Wrong(u8::try_from(code).unwrap_or(5), String::new())
        }
    }
}

/// The variables a filter sees, and their values.
fn variables(asked: &Asked) -> (Vec<String>, Vec<Val>) {
    let text = |text: &str| Val::from(text.to_owned());
    let object = |all: Vec<(Val, Val)>| Val::obj(all.into_iter().collect());
    let named = asked.named.iter().map(|(name, value)| (text(name), value.clone())).collect();
    let args = object(vec![
        (text("positional"), asked.positional.iter().cloned().collect()),
        (text("named"), object(named)),
    ]);
    let env = object(std::env::vars().map(|(name, value)| (text(&name), text(&value))).collect());
    let mut all = vec![("$ARGS".to_owned(), args), ("$ENV".to_owned(), env)];
    all.extend(asked.named.iter().map(|(name, value)| (format!("${name}"), value.clone())));
    all.into_iter().unzip()
}

/// Where values go.
struct Out<'a> {
    asked: &'a Asked,
    stdout: io::StdoutLock<'static>,
    last: Option<bool>,
}

impl Out<'_> {
    fn write(&mut self, value: &Val) -> Result<(), Wrong> {
        self.last = Some(!matches!(value, Val::Null | Val::Bool(false)));
        self.print(value).map_err(|error| Wrong(2, error.to_string()))
    }

    fn print(&mut self, value: &Val) -> io::Result<()> {
        match value {
            Val::TStr(text) if self.asked.raw => self.stdout.write_all(text)?,
            value => {
                let pp = Pp {
                    indent: self.asked.indent.clone(),
                    sort_keys: self.asked.sort_keys,
                    sep_space: self.asked.indent.is_some(),
                    ..Pp::default()
                };
                write(&mut self.stdout, &pp, 0, value)?;
            }
        }
        if self.asked.join { Ok(()) } else { self.stdout.write_all(b"\n") }
    }

    /// With `-e` the last value decides.
    fn code(&self) -> u8 {
        match (self.asked.exit_status, self.last) {
            (false, _) | (true, Some(true)) => 0,
            (true, Some(false)) => 1,
            (true, None) => 4,
        }
    }
}
