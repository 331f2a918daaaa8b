//! What is said of a script in a file beside it: JSON, TOML or YAML.

use super::Manifest;
use crate::call_files;
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How such files end, the first that is there counts.
const ENDINGS: [&str; 5] = ["meta.json", "meta.toml", "meta.yaml", "meta.yml", "meta.jsonc"];
/// The longest such file that is read.
const LONGEST: u64 = 1024 * 1024;

/// What a file beside another says.
#[derive(Debug)]
pub(crate) struct Beside {
    pub(crate) path: PathBuf,
    pub(crate) value: Value,
}

impl Beside {
    /// The same, as what is said of a tool.
    pub(crate) fn manifest(&self) -> Result<Manifest, String> {
        // The arguments of a prompt may be a list, which says nothing of a tool.
        serde_json::from_value(self.value.clone())
            .map_err(|error| format!("{}: {error}", self.path.display()))
    }
}

/// What is said of a file: in `X.EXT.meta.json` or `X.meta.json`, or the same in TOML or YAML.
pub(crate) fn beside(file: &Path) -> Result<Option<Beside>, String> {
    for start in [file.to_path_buf(), file.with_extension("")] {
        for ending in ENDINGS {
            let path = PathBuf::from(format!("{}.{ending}", start.display()));
            match fs::metadata(&path) {
                Ok(about) if about.is_file() => {
                    let value = read_value(&path)?;
                    return Ok(Some(Beside { path, value }));
                }
                Ok(_) => (),
                Err(error) if error.kind() == io::ErrorKind::NotFound => (),
                // One that cannot be looked at may say that a sandbox is needed.
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
    }
    Ok(None)
}

/// A file of JSON, TOML or YAML as a value, by its name.
pub(crate) fn read_value(path: &Path) -> Result<Value, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = call_files::read_text(path, LONGEST).map_err(|error| wrong(&error))?;
    let text = text.trim_start_matches('\u{feff}');
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => toml::from_str(text).map_err(|error| wrong(&error)),
        Some("yaml" | "yml") => serde_saphyr::from_str(text).map_err(|error| wrong(&error)),
        _ => serde_json::from_str(text).map_err(|error| wrong(&error)),
    }
}

/// Whether a file says something of another.
pub(crate) fn is_sidecar(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(&format!(".{ending}")))
}
