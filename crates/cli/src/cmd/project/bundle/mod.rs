//! `zcp bundle`: a folder of scripts and this command in one file, which clients install (MCPB).

mod about;
mod bundle_summary;
mod conf;
mod files;
mod manifest;
mod pack;
mod user_config;

use crate::errors::usage;
use about::About;
use files::Files;
use pack::Part;
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp bundle ./my-tools                         my-tools-0.1.0.mcpb, for this system
  zcp bundle ./my-tools --platform win32 --binary ./zcp.exe
  zcp bundle ./my-tools --output dist")]
pub(crate) struct Bundle {
    /// A folder of scripts.
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,

    /// The folder the bundle is written into.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    pub(crate) output: PathBuf,

    /// What it is called, instead of as the folder is.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// Its version, instead of the folder's.
    #[arg(long)]
    pub(crate) version: Option<String>,

    /// Target platform: darwin, linux or win32. Default: this machine's.
    #[arg(long)]
    pub(crate) platform: Option<String>,

    /// Path of the `zcp` binary for that platform. Default: this one.
    #[arg(long, value_name = "FILE")]
    pub(crate) binary: Option<PathBuf>,
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A bundle that was made.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    file: PathBuf,
    bytes: u64,
    name: String,
    version: String,
    platform: &'static str,
    tools: usize,
    prompts: usize,
    files: usize,
    /// There was one of that name before.
    replaced: bool,
    left_out: Vec<files::LeftOut>,
    warnings: Vec<String>,
}

pub(crate) async fn run(bundle: &Bundle, json: bool) -> Result<()> {
    let folder = &bundle.folder;
    let root = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()));
    let root = root.map_err(|error| usage(error.into()))?;
    let (platform, program) = program(bundle).map_err(usage)?;
    let (mut about, mut warnings) =
        About::read(&root, bundle.name.as_deref(), bundle.version.as_deref())?;
    about.user_config = user_config::checked(&about.user_config)?;
    user_config::check_env(&about.env, &about.user_config)?;
    for key in user_config::unused(&about.env, &about.user_config) {
        warnings.push(format!("no variable is made of the setting `{key}`: add one to `env`"));
    }
    let offers = manifest::Offers::of(&root, &mut warnings).await?;
    let found = files::find(&root, &offers.private_files)?;
    warnings.extend(found.warnings.iter().cloned());
    if about.name.is_empty() {
        about.name = offers.name.clone();
    }
    if !root.join("server.d").is_dir() {
        warnings.extend(unseen(&about, &root, &found)?);
    }
    let mut parts = pack::project(&found);
    about.icon = icon(&about, &root)?.map(|(name, path)| {
        path.into_iter().for_each(|path| {
            parts.insert(name.clone(), Part::File(path, Some(0o644)));
        });
        name
    });
    let entry = if platform == "win32" { "server/zcp.exe" } else { "server/zcp" };
    let manifest = manifest::manifest(&about, &offers, platform, entry)?;
    parts.insert("manifest.json".to_owned(), Part::Text(manifest));
    parts.insert(entry.to_owned(), Part::File(program, Some(0o755)));
    fs::create_dir_all(&bundle.output)?;
    let file = bundle.output.join(file_name(&about, platform));
    let replaced = file.exists();
    let bytes = pack::write(&file, &parts)?;
    bundle_summary::made(
        &Made {
            file,
            bytes,
            name: about.name,
            version: about.version,
            platform,
            tools: offers.tools.len(),
            prompts: offers.prompts.len(),
            files: found.kept.iter().filter(|one| !one.is_folder).count(),
            replaced,
            left_out: found.left_out,
            warnings,
        },
        json,
    )
}

const PLATFORMS: [&str; 3] = ["darwin", "linux", "win32"];

/// This system, as bundles call it.
fn this_platform() -> &'static str {
    match std::env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        _ => "linux",
    }
}

/// The system a bundle is for, and the command for it.
fn program(bundle: &Bundle) -> Result<(&'static str, PathBuf)> {
    let said = bundle.platform.as_deref().unwrap_or_else(|| this_platform());
    let platform = PLATFORMS.into_iter().find(|known| *known == said);
    let platform = platform
        .ok_or_else(|| format!("`{said}` is no platform; there are {}", PLATFORMS.join(", ")))?;
    let program = match &bundle.binary {
        Some(path) => path.clone(),
        None if platform == this_platform() => std::env::current_exe()?,
        None => {
            let hint = "say where it is with --binary";
            return Err(
                format!("a bundle for {platform} needs the zcp command for it: {hint}").into()
            );
        }
    };
    let shown = program.display();
    match pack::system_of(&program).map_err(|error| format!("{shown}: {error}"))? {
        Some(system) if system == platform => Ok((platform, program)),
        Some(system) => Err(format!("{shown} is for {system}, and not for {platform}").into()),
        None => Err(format!("{shown} is no program for {platform}").into()),
    }
}

fn file_name(about: &About, platform: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || "-_.+".contains(c) { c } else { '-' };
    let name: String = format!("{}-{}", about.name, about.version).chars().map(plain).collect();
    match platform == this_platform() {
        true => format!("{name}.mcpb"),
        false => format!("{name}-{platform}.mcpb"),
    }
}

/// The picture of the bundle: what it is called there, and the file if it is one.
fn icon(about: &About, root: &Path) -> Result<Option<(String, Option<PathBuf>)>> {
    let usual = || ["icon.png", "icon.svg"].into_iter().find(|name| root.join(name).is_file());
    let Some(said) = about.icon.as_deref().or_else(usual) else { return Ok(None) };
    if said.starts_with("https://") {
        return Ok(Some((said.to_owned(), None)));
    }
    let path = root.join(said).canonicalize().map_err(|error| format!("icon {said}: {error}"))?;
    if !path.starts_with(root) {
        return Err(format!("icon {said} is not in the folder").into());
    }
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or("png");
    Ok(Some((format!("icon.{ending}"), Some(path))))
}

/// Variables that no script is shown, as far as one can see.
fn unseen(about: &About, root: &Path, found: &Files) -> Result<Vec<String>> {
    let file = about::toml_of(root)?;
    let settings = format!("{}{}", file["defaults"], file["tools"]);
    let mut unseen: Vec<&String> =
        about.env.keys().filter(|name| !settings.contains(*name)).collect();
    for one in
        found.kept.iter().filter(|one| !one.is_folder && !one.name.starts_with("node_modules/"))
    {
        if unseen.is_empty() {
            break;
        }
        let text = fs::read_to_string(&one.path).unwrap_or_default();
        let is_sidecar = one.name.contains(".meta.");
        let shows = |name: &String| {
            text.lines().any(|line| (is_sidecar || line.contains("@env")) && line.contains(name))
        };
        unseen.retain(|name| !shows(name));
    }
    let say = |name| format!("no script is shown {name}: add `@env {name}` to those that need it");
    Ok(unseen.into_iter().map(say).collect())
}
