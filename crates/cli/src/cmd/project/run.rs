//! `zcp run`: a tool of a folder, once.

use crate::{
    cmd::reach::{
        call,
        result::{self, Shown},
        tool_line::arguments,
    },
    errors::usage,
    findings, nearest, print, project,
    target::{self, Target},
};
use serde_json::{Value, json};
use std::{
    error::Error,
    path::{Path, PathBuf},
};
use zcp_client::wire::mcp::{roots::Root, tools::Tool};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Arguments are strings where the tool's schema says so, and JSON otherwise. The exit code is
the tool's own where it has one. What the tool writes to standard error is shown there.

Examples:
  zcp run greet name=Ann
  zcp run greet --in ./my-tools --args @ann.json
  zcp run greet name=Ann --dry-run
  zcp run deploy env=staging --answer '{\"confirm\": true}'
  zcp run chart --output chart.png"
)]
pub(crate) struct Run {
    /// Which tool.
    pub(crate) tool: String,

    /// Arguments.
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) args: Vec<String>,

    /// A folder of scripts.
    #[arg(long = "in", value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,

    /// All arguments as a JSON object: the text itself, @FILE, or - for standard input.
    #[arg(long = "args", value_name = "JSON")]
    pub(crate) whole: Option<String>,

    /// Folders the tool is told the client works in, with commas between.
    #[arg(long, value_name = "FOLDERS", value_delimiter = ',')]
    pub(crate) roots: Vec<PathBuf>,

    /// A variable of the server's environment. Repeat for more.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,

    /// Give up after this many seconds without progress or a result.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,

    /// Check the arguments, and run nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Write what it gives to this file: an image or other bytes as they are, otherwise the text.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Answer the tool's next question with this: the form's values as a JSON object, or accept,
    /// decline or cancel. Repeat for more questions.
    #[arg(long, value_name = "JSON")]
    pub(crate) answer: Vec<String>,
}

pub(crate) async fn run(run: Run, json: bool) -> Result<(), Box<dyn Error>> {
    if !run.folder.is_dir() {
        let why = format!("{} is no folder: say which with --in FOLDER", run.folder.display());
        return Err(usage(why.into()));
    }
    let whole = call::whole(run.whole.as_deref()).map_err(usage)?;
    let roots: Vec<Root> = run.roots.iter().map(|path| root(path)).collect::<Result<_, _>>()?;
    let mut target = Target::folder(&run.folder, &run.env, run.timeout);
    target.answer.clone_from(&run.answer);
    let mut builder = target::client(&target, json).map_err(usage)?;
    if !roots.is_empty() {
        builder = builder.roots(roots);
    }
    if !json {
        builder = builder.on_log(|line| print::aside(&said(&line.data)));
    }
    let client = target::connect(builder, target::watched(&target, &run.tool)?).await?;
    let tools = client.list_tools().await?;
    let Some(tool) = tools.iter().find(|tool| tool.name == run.tool) else {
        return Err(unknown(&run.folder, &run.tool, &tools)?);
    };
    let declares_none = arguments(&tool.input_schema).is_empty();
    let filled = call::filled(whole, &run.args, Some(tool)).map_err(|error| match declares_none {
        true => usage(format!("{error}: see `zcp validate {}`", run.folder.display()).into()),
        false => usage(error),
    });
    let args = Value::Object(filled?);
    if let Some(first) =
        args.as_object().and_then(|args| args.keys().next()).filter(|_| declares_none)
    {
        let variable: String = first
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
            .collect();
        print::aside(&format!(
            "`{}` declares no arguments: they are passed on as they are, as JSON on standard input and \
             in variables such as `ARG_{variable}`, not as `$1`",
            tool.name
        ));
    }
    if run.dry_run {
        check(tool, &args).map_err(usage)?;
        let args = with_defaults(tool, args);
        client.close().await;
        if json {
            return Ok(print::json(&json!({ "tool": tool.name, "arguments": args }))?);
        }
        return Ok(print::words(&format!("{} would be called with {args}", tool.name))?);
    }
    let result = call::followed(client.tool(&run.tool).args(args.clone()), json).await;
    target.check_answers()?;
    let result = result?;
    let shown = Shown { json, file: run.output, is_whole: true, is_run: true };
    result::show(&client, &result, &shown).await?;
    // What the tool wrote to standard error has arrived when its server has ended.
    client.close().await;
    match result.is_error {
        true => Err(result::failure(&result, Some(tool), &args, true)),
        false => Ok(()),
    }
}

/// Says that a folder has no such tool: what was probably meant, and what is wrong with it.
pub(crate) fn unknown(
    folder: &Path,
    tool: &str,
    tools: &[Tool],
) -> Result<Box<dyn Error>, Box<dyn Error>> {
    let hint = nearest::hint(tool, tools.iter().map(|one| one.name.as_str()));
    let mut why = format!("{} has no tool `{tool}`: {hint}", folder.display());
    let scripts = project::folder(folder)?;
    let (own, others): (Vec<_>, Vec<_>) =
        findings::lines(&scripts).into_iter().partition(|line| line.contains(tool));
    own.iter().for_each(|line| why += &format!("\n{line}"));
    if !others.is_empty() {
        why += &format!("\nSee also: zcp validate {}", folder.display());
    }
    Ok(usage(why.into()))
}

/// Arguments, with the defaults of those that were not given.
fn with_defaults(tool: &Tool, args: Value) -> Value {
    let Value::Object(mut args) = args else { return args };
    for one in arguments(&tool.input_schema) {
        if let Some(default) = one.default {
            args.entry(one.name).or_insert(default);
        }
    }
    Value::Object(args)
}

fn check(tool: &Tool, args: &Value) -> Result<(), Box<dyn Error>> {
    let schema = zcp_schema::Schema::compile(&tool.input_schema)
        .map_err(|error| format!("the schema of `{}`: {error}", tool.name))?;
    Ok(schema.check(args)?)
}

fn root(path: &Path) -> Result<Root, Box<dyn Error>> {
    let whole =
        path.canonicalize().map_err(|error| format!("--roots {}: {error}", path.display()))?;
    let uri = zcp_client::oauth::Url::from_directory_path(&whole)
        .map_err(|()| format!("--roots {}: it has no address", path.display()))?;
    Ok(Root { uri: uri.as_str().trim_end_matches('/').to_owned(), ..Root::default() })
}

/// What was logged, in words.
fn said(data: &Value) -> String {
    data.as_str().map_or_else(|| data.to_string(), str::to_owned)
}
