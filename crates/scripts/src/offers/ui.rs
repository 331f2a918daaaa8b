//! Pages of a project: user interfaces that clients show beside a tool's answer.

use crate::{
    call_files, content,
    manifest::read_value,
    offers::ui_templates,
    project::{Project, scan},
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};
use zcp::{CallError, Contents, Resource, ResourceContents, Signature};

/// What such pages are.
pub(crate) const MIME: &str = "text/html;profile=mcp-app";
/// The largest page.
const LARGEST: u64 = 1024 * 1024;

/// What is said of a page, in `ui.meta.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    name: Option<String>,
    description: Option<String>,
    entrypoint: Option<String>,
    /// What the page is made of, if it is no file.
    template: Option<String>,
    config: Value,
    meta: Map<String, Value>,
}

/// A page that was found.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) uri: String,
    pub(crate) resource: Resource,
    /// The file it changes with.
    pub(crate) file: PathBuf,
}

/// What a page's text comes from.
#[derive(Debug)]
enum Source {
    /// A file in its folder.
    File(PathBuf, PathBuf),
    Made(String),
}

/// The page in a folder, if there is one.
pub(crate) fn page(folder: &Path, name: &str, project: &Project) -> Result<Option<Page>, String> {
    let about = folder.join("ui.meta.json");
    if !about.is_file() && !folder.join("index.html").is_file() {
        return Ok(None);
    }
    let said: Said = match about.is_file() {
        true => serde_json::from_value(read_value(&about)?)
            .map_err(|error| format!("{}: {error}", about.display()))?,
        false => Said::default(),
    };
    let wrong = |why: &str| format!("{}: {why}", folder.display());
    let entry = said.entrypoint.as_deref().unwrap_or("index.html");
    let file = folder.join(entry);
    let name = said.name.unwrap_or_else(|| name.to_owned());
    let (source, file) = match &said.template {
        // A page of a project's own goes before one that is made.
        Some(template) if !file.is_file() => {
            let made =
                ui_templates::page(template, &said.config, &name).map_err(|why| wrong(&why))?;
            (Source::Made(made), about)
        }
        _ => {
            let inside = file.canonicalize().ok().zip(folder.canonicalize().ok());
            if !inside.is_some_and(|(file, folder)| file.starts_with(folder)) {
                return Err(wrong(&format!("the page `{entry}` is not in its folder")));
            }
            (Source::File(file.clone(), folder.to_path_buf()), file)
        }
    };
    let uri = format!("ui://{}/{name}", scan::tidy(&project.name()));
    // Where it may reach, what it may use, and whether it has a border.
    let mut shown = Map::new();
    for key in ["csp", "permissions", "prefersBorder", "domain"] {
        shown.extend(said.meta.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    // It has had another name.
    if let (false, Some(domain)) = (shown.contains_key("domain"), said.meta.get("sandboxDomain")) {
        shown.insert("domain".to_owned(), domain.clone());
    }
    let resource = resource(&uri, source, shown.clone()).name(&name).mime_type(MIME);
    let resource = said.description.iter().fold(resource, |one, text| one.description(text));
    let resource = match shown.is_empty() {
        true => resource,
        false => resource.meta("ui", Value::Object(shown)),
    };
    Ok(Some(Page { uri, resource, file }))
}

/// The pages that belong to no tool, and what is wrong with them.
pub(crate) fn standalone(project: &Project) -> (Vec<Page>, Vec<String>) {
    let (mut pages, mut mistakes) = (vec![], vec![]);
    let folders = fs::read_dir(project.folder("ui")).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        folders.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    for folder in folders {
        match page(&folder, &scan::stem(&folder), project) {
            Ok(page) => pages.extend(page),
            Err(why) => mistakes.push(why),
        }
    }
    (pages, mistakes)
}

/// What a tool says of its page.
pub(crate) fn linked(uri: &str) -> Value {
    json!({ "resourceUri": uri, "visibility": ["model", "app"] })
}

fn resource(uri: &str, source: Source, shown: Map<String, Value>) -> Resource {
    let (source, shown) = (Arc::new(source), Arc::new(shown));
    let address = uri.to_owned();
    Resource::from_parts(uri, Signature::default(), move |_| {
        let (source, shown, uri) = (source.clone(), shown.clone(), address.clone());
        Box::pin(async move {
            let page = source.read(&uri).await?;
            let mut page: ResourceContents = content::contents(page, MIME.to_owned(), &uri);
            if !shown.is_empty() {
                let mut meta = Map::new();
                meta.insert("ui".into(), Value::Object((*shown).clone()));
                page.meta = Some(meta);
            }
            Ok(Contents::Parts(vec![page]))
        })
    })
    .watched()
}

impl Source {
    async fn read(&self, uri: &str) -> Result<Vec<u8>, CallError> {
        let (file, folder) = match self {
            Self::File(file, folder) => (file, folder),
            Self::Made(page) => return Ok(page.clone().into_bytes()),
        };
        let (file, folder) = (file.clone(), folder.clone());
        let read = move || call_files::read_inside(&file, LARGEST, &[folder]);
        let read = tokio::task::spawn_blocking(read).await.map_err(io::Error::other);
        read.flatten().map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => {
                CallError::new(format!("the page is too large: {error}"))
            }
            _ => CallError::not_found(uri),
        })
    }
}
