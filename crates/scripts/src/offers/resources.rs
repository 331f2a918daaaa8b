//! Files, programs and providers as resources.

use super::resource_reader::{Reader, Source, places};
use crate::{
    call::program::Program,
    call_files, content,
    host::Host,
    manifest::{Beside, beside, icons::icons, is_sidecar, read_value},
    project::{Project, globs, scan},
    providers,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};
use zcp::{Annotations, Resource, Result, Signature};

/// What is said of a resource.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Said {
    pub(crate) name: Option<String>,
    title: Option<String>,
    description: Option<String>,
    pub(crate) uri: Option<String>,
    #[serde(alias = "uri_template")]
    uri_template: Option<String>,
    #[serde(alias = "mime_type", alias = "mime")]
    mime_type: Option<String>,
    provider: Option<String>,
    icons: Vec<Value>,
    annotations: Option<Annotations>,
    #[serde(rename = "_meta", alias = "meta")]
    meta: Option<Map<String, Value>>,
    /// The files of the project it stands for, each of them.
    glob: Option<String>,
    /// Where it is, for those that are registered.
    path: Option<PathBuf>,
}

/// A resource that was found, and the file it changes with.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) resource: Resource,
    pub(crate) name: String,
    pub(crate) uri: String,
    pub(crate) is_template: bool,
    pub(crate) file: Option<PathBuf>,
    /// What is said of it.
    pub(crate) entry: Value,
}

/// What is needed to make resources of what is found.
#[derive(Debug, Clone)]
pub(crate) struct Maker {
    pub(crate) project: Arc<Project>,
    pub(crate) host: Arc<Host>,
}

impl Maker {
    /// The resources of a project's folder, and what is wrong with it.
    pub(crate) fn found(&self) -> (Vec<Found>, Vec<String>) {
        let folder = self.project.folder("resources");
        let files = scan::files(&folder);
        let (mut all, mut mistakes, mut spoken_of) = (vec![], vec![], BTreeSet::new());
        let places = places(&self.project, &self.host);
        for file in files.iter().filter(|file| is_resource(file)) {
            if !file.canonicalize().is_ok_and(|real| content::is_in(&real, &places)) {
                mistakes.push(format!("{}: it leads out of the project", file.display()));
                continue;
            }
            let made = beside(file).and_then(|beside| {
                spoken_of.extend(beside.iter().map(|beside| beside.path.clone()));
                self.of_file(file, beside)
            });
            match made {
                Ok(found) => all.push(found),
                Err(why) => mistakes.push(why),
            }
        }
        // What is said of no file may still say where it is read.
        for path in files
            .iter()
            .filter(|path| is_sidecar(&path.to_string_lossy()) && !spoken_of.contains(*path))
        {
            match read_value(path) {
                Ok(value) => self.of_entry(&value, path, (&mut all, &mut mistakes)),
                Err(why) => mistakes.push(why),
            }
        }
        let file = self.project.root.join("zcp.toml");
        for (name, value) in &self.project.resources {
            let mut value = value.clone();
            if let Some(members) = value.as_object_mut().filter(|one| !one.contains_key("glob")) {
                members.entry("name").or_insert_with(|| name.as_str().into());
            }
            self.of_entry(&value, &file, (&mut all, &mut mistakes));
        }
        (all, mistakes)
    }

    /// Entries that are registered, and what is wrong with them.
    pub(crate) fn registered(&self, entries: &[Value]) -> (Vec<Found>, Vec<String>) {
        let list = self.project.folder("server.d").join("register.json");
        let (mut all, mut mistakes) = (vec![], vec![]);
        for entry in entries {
            self.of_entry(entry, &list, (&mut all, &mut mistakes));
        }
        (all, mistakes)
    }

    /// What an entry stands for: one resource, or the files of a pattern.
    fn of_entry(
        &self,
        value: &Value,
        path: &Path,
        (all, mistakes): (&mut Vec<Found>, &mut Vec<String>),
    ) {
        let made = match value.get("glob").is_some() {
            true => self.of_glob(value, path, all),
            false => self.of_value(value, path).map(|found| (vec![found], None)),
        };
        match made {
            Ok((found, mistake)) => {
                all.extend(found);
                mistakes.extend(mistake);
            }
            Err(why) => mistakes.push(why),
        }
    }

    /// The files of a pattern that are not there already, and whether there are too many.
    fn of_glob(
        &self,
        value: &Value,
        path: &Path,
        already: &[Found],
    ) -> Result<(Vec<Found>, Option<String>), String> {
        let wrong = |why: &str| format!("{}: {why}", path.display());
        let said = read(value, path)?;
        let pattern = said.glob.as_deref().unwrap_or_default();
        if said.uri_template.is_some() || said.provider.is_some() {
            return Err(wrong("a `glob` has neither `uriTemplate` nor `provider`"));
        }
        if said.uri.as_deref().is_some_and(|uri| !uri.contains("{path}")) {
            return Err(wrong("the `uri` of a `glob` has a `{path}` in it"));
        }
        let root = &self.project.root;
        let matched = globs::matched(root, pattern).map_err(|why| wrong(&why))?;
        let more = matched.more.then(|| {
            wrong(&format!(
                "`{pattern}` names more than {} files: the rest is left out",
                globs::MOST
            ))
        });
        let (known, mut found): (BTreeSet<&str>, Vec<Found>) =
            (already.iter().map(|one| one.uri.as_str()).collect(), vec![]);
        // The log of calls is nobody's to read.
        let own = self.project.policy.own_files();
        for file in matched.files.into_iter().filter(|file| !own.contains(file)) {
            let below = content::escaped(file.strip_prefix(&matched.begins).unwrap_or(&file));
            let uri = match &said.uri {
                Some(uri) => uri.replace("{path}", &below),
                None => content::uri_of(&file),
            };
            if known.contains(uri.as_str()) {
                continue;
            }
            let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let said = Said { name: Some(name), ..said.clone() };
            let source = Source::Inside(file.clone());
            found.push(self.make(&said, uri, source, Some(file), root));
        }
        Ok((found, more))
    }

    fn of_file(&self, file: &Path, beside: Option<Beside>) -> Result<Found, String> {
        let value = beside.map(|beside| beside.value).unwrap_or_default();
        let mut said = read(&value, file)?;
        let header = header(file);
        said.uri = said.uri.or(header.uri);
        said.description = said.description.or(header.description);
        said.name = said.name.or(header.name).or_else(|| Some(scan::stem(file)));
        // A file that may be executed makes its content, unless the project is of a kind that knows no
        // such thing.
        let runs =
            !self.project.is_mcp_bash && said.provider.is_none() && scan::is_executable(file);
        let provider = said
            .provider
            .clone()
            .filter(|provider| provider != "file" || said.uri_template.is_some());
        let source = match (provider, runs.then(|| scan::program(file)).flatten()) {
            (Some(provider), _) if said.uri.is_some() || said.uri_template.is_some() => {
                Source::Provider(provider)
            }
            (_, Some(_)) => {
                Source::Program(Arc::new(Program::of(file, None, &self.project, &self.host)?))
            }
            _ if said.uri_template.is_some() => {
                Source::Provider(scheme(said.uri_template.as_deref()))
            }
            _ => match said.uri.as_deref().filter(|uri| !uri.starts_with("file:")) {
                Some(uri) if providers::is_known(&self.project, &scheme(Some(uri))) => {
                    Source::Provider(scheme(Some(uri)))
                }
                _ => Source::File(file.to_path_buf()),
            },
        };
        let uri =
            said.uri_template.clone().or(said.uri.clone()).unwrap_or_else(|| content::uri_of(file));
        let folder = file.parent().unwrap_or(&self.project.root).to_path_buf();
        Ok(self.make(&said, uri, source, Some(file.to_path_buf()), &folder))
    }

    /// One that is said to be somewhere, without a file of its own.
    fn of_value(&self, value: &Value, path: &Path) -> Result<Found, String> {
        let wrong = |why: &str| format!("{}: {why}", path.display());
        let said = read(value, path)?;
        let (uri, is_template) = match (&said.uri, &said.uri_template) {
            (Some(_), Some(_)) => return Err(wrong("it has a `uri` and a `uriTemplate`: say one")),
            (Some(uri), None) => (uri.clone(), false),
            (None, Some(template)) => (template.clone(), true),
            (None, None) => return Err(wrong("it has no file, no `uri` and no `uriTemplate`")),
        };
        if is_template && said.name.as_deref().unwrap_or_default().is_empty() {
            return Err(wrong("a template needs a `name`"));
        }
        let provider = said.provider.clone().unwrap_or_else(|| scheme(Some(&uri)));
        let file = said.path.as_ref().map(|file| self.project.folder("resources").join(file));
        let source = match &file {
            Some(file) if provider == "file" && file.is_file() => Source::File(file.clone()),
            _ => Source::Provider(provider),
        };
        let folder = path.parent().unwrap_or(&self.project.root).to_path_buf();
        Ok(self.make(&said, uri, source, file, &folder))
    }

    fn make(
        &self,
        said: &Said,
        uri: String,
        source: Source,
        file: Option<PathBuf>,
        folder: &Path,
    ) -> Found {
        let name = said.name.clone().unwrap_or_else(|| uri.clone());
        let (is_template, is_file) =
            (said.uri_template.is_some(), matches!(source, Source::File(_) | Source::Inside(_)));
        let provider = match &source {
            Source::Provider(name) => name.clone(),
            Source::File(_) | Source::Inside(_) => "file".to_owned(),
            Source::Program(_) => String::new(),
        };
        let reader = Arc::new(Reader {
            source,
            mime: said.mime_type.clone(),
            project: self.project.clone(),
            host: self.host.clone(),
        });
        let mut resource = Resource::from_parts(&uri, Signature::default(), move |input| {
            let reader = reader.clone();
            Box::pin(async move { reader.read(&input).await })
        })
        .name(&name);
        resource = said.title.iter().fold(resource, |one, text| one.title(text));
        resource = said.description.iter().fold(resource, |one, text| one.description(text));
        let mime = said.mime_type.clone().or_else(|| {
            let file = file.as_deref().filter(|_| is_file)?;
            Some(content::mime_of(Some(file), &call_files::head(file).unwrap_or_default()))
        });
        resource = mime.iter().fold(resource, |one, mime| one.mime_type(mime));
        resource =
            said.annotations.iter().fold(resource, |one, notes| one.annotations(notes.clone()));
        resource = icons(&said.icons, folder, &self.project.places("resources"))
            .into_iter()
            .fold(resource, Resource::icon);
        resource = said
            .meta
            .iter()
            .flatten()
            .fold(resource, |one, (key, value)| one.meta(key, value.clone()));
        if let Some(size) =
            file.as_deref().filter(|_| is_file).and_then(|file| file.metadata().ok())
        {
            resource = resource.size(size.len());
        }
        if is_file {
            resource = resource.watched();
        }
        if is_template {
            // Whoever reads decides what is inside: the provider looks again.
            resource = resource.allow_any_path();
        }
        let resources = self.project.folder("resources");
        let path = file.as_deref().map(|file| file.strip_prefix(resources).unwrap_or(file));
        let entry = json!({
            "name": name,
            "description": said.description.as_deref().unwrap_or_default(),
            "path": path.unwrap_or(Path::new("")),
            (if is_template { "uriTemplate" } else { "uri" }): uri,
            "mimeType": mime.as_deref().unwrap_or("text/plain"),
            "provider": provider,
        });
        Found { resource, name, uri, is_template, file, entry }
    }
}

fn read(value: &Value, path: &Path) -> Result<Said, String> {
    match value {
        Value::Null => Ok(Said::default()),
        value => Said::deserialize(value).map_err(|error| format!("{}: {error}", path.display())),
    }
}

/// What a file says of itself in its one-line header.
fn header(file: &Path) -> Said {
    let head = call_files::head(file).unwrap_or_default();
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().take(10).find_map(|line| line.split_once("mcp:")).map(|(_, json)| json);
    line.and_then(|json| serde_json::from_str(json.trim()).ok()).unwrap_or_default()
}

/// What reads a URI: its scheme.
fn scheme(uri: Option<&str>) -> String {
    let scheme = uri.and_then(|uri| uri.split_once(':')).map_or("file", |(scheme, _)| scheme);
    match scheme {
        "git+https" => "git".to_owned(),
        scheme => scheme.to_owned(),
    }
}

/// Whether a file of the folder is offered: notes for people, and helpers, are not.
fn is_resource(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_note = name.to_lowercase().starts_with("readme");
    let completes = name.ends_with(".completion") || name.ends_with(".completion.sh");
    !is_sidecar(name) && !is_note && !completes && !name.starts_with('_')
}

/// The resources by the file they change with.
pub(crate) fn by_file(all: &[Found]) -> BTreeMap<PathBuf, Vec<String>> {
    let mut by_file: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for found in all {
        if let Some(file) = &found.file {
            by_file.entry(file.clone()).or_default().push(found.uri.clone());
        }
    }
    by_file
}
