//! `zcp run`: a tool of a folder, once.

use crate::{
    cmd::reach::call,
    errors::{Exited, usage},
    nearest, print, project,
    target::{self, Target},
};
use serde_json::{Value, json};
use std::{
    error::Error,
    path::{Path, PathBuf},
};
use zcp_client::wire::mcp::{
    roots::Root,
    tools::{CallToolResult, Tool},
};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Arguments are strings where the tool's schema says so, and JSON otherwise. The exit code is
the tool's own where it has one.

Examples:
  zcp run greet name=Ann
  zcp run greet --in ./my-tools --args @ann.json
  zcp run greet name=Ann --dry-run"
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
}

pub(crate) async fn run(run: Run, json: bool) -> Result<(), Box<dyn Error>> {
    if !run.folder.is_dir() {
        let why = format!("{} is no folder: say which with --in FOLDER", run.folder.display());
        return Err(usage(why.into()));
    }
    let whole = call::whole(run.whole.as_deref()).map_err(usage)?;
    let roots: Vec<Root> = run.roots.iter().map(|path| root(path)).collect::<Result<_, _>>()?;
    let target = Target::folder(&run.folder, &run.env, run.timeout);
    let mut builder = target::client(&target, json)?;
    if !roots.is_empty() {
        builder = builder.roots(roots);
    }
    if !json {
        builder = builder.on_log(|line| print::aside(&said(&line.data)));
    }
    let client = target::connect(builder, target::way(&target)?).await?;
    let tools = client.list_tools().await?;
    let Some(tool) = tools.iter().find(|tool| tool.name == run.tool) else {
        let hint = nearest::hint(&run.tool, tools.iter().map(|tool| tool.name.as_str()));
        let scripts = project::folder(&run.folder)?;
        let mut why = format!("{} has no tool `{}`: {hint}", run.folder.display(), run.tool);
        for mistake in scripts.mistakes().borrow().iter() {
            why += &format!("\nleft out: {mistake}");
        }
        return Err(usage(why.into()));
    };
    let args = Value::Object(call::filled(whole, &run.args, Some(tool)).map_err(usage)?);
    if run.dry_run {
        check(tool, &args).map_err(usage)?;
        client.close().await;
        if json {
            return Ok(print::json(&json!({ "tool": tool.name, "arguments": args }))?);
        }
        return Ok(print::words(&format!("{} would be called with {args}", tool.name))?);
    }
    let result = call::made_known(client.tool(&run.tool).args(args), json).await?;
    client.close().await;
    match result.is_error {
        true => Err(failed(result)),
        false => Ok(()),
    }
}

fn check(tool: &Tool, args: &Value) -> Result<(), Box<dyn Error>> {
    let schema = zcp_schema::Schema::compile(&tool.input_schema)
        .map_err(|error| format!("the schema of `{}`: {error}", tool.name))?;
    Ok(schema.check(args)?)
}

fn failed(result: CallToolResult) -> Box<dyn Error> {
    let code = result.meta.as_ref().and_then(|meta| meta.get("exitCode")?.as_u64());
    let code = code.and_then(|code| u8::try_from(code).ok()).filter(|code| *code != 0);
    let error = zcp_client::Error::Tool(Box::new(result));
    match code {
        Some(code) => Box::new(Exited::new(code, error.to_string())),
        None => error.into(),
    }
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
