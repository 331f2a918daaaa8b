//! A project's folder as a catalog: everything in it that can be called, read or got.

pub(crate) mod completions;
mod entries;
pub(crate) mod follow;
pub(crate) mod prompts;
mod resource_reader;
pub(crate) mod resources;
pub(crate) mod skills;
pub(crate) mod text_template;
pub(crate) mod ui;
pub(crate) mod ui_templates;

use crate::{
    call::{
        script::Script,
        tool::{Program, ScriptTool},
    },
    compat::mcp_bash::{
        metadata,
        policy_hook::HookJudge,
        registered::{Registered, registered},
    },
    host::{Host, reserved::Reserved},
    manifest::{Manifest, beside, icons, of_text},
    project::{Project, data_folders, scan},
    providers,
};
use completions::{Completing, Of};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, HashSet, btree_map::Entry},
    path::{Path, PathBuf},
    sync::Arc,
};
use zcp::{CallError, Catalog, Contents, Ctx, Resource, Uri};
use zcp_policy::Policy;

/// What a folder holds now.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) catalog: Catalog,
    /// Who may call what of it, and of whatever else is served with it.
    pub(crate) policy: Policy,
    pub(crate) project: Arc<Project>,
    /// What is wrong: whatever it concerns is left out.
    pub(crate) mistakes: Vec<String>,
    /// What its tools are run by.
    pub(crate) programs: Vec<Program>,
    /// Whether there is nothing in it that anybody could see.
    pub(crate) is_empty: bool,
    /// Which resources change with which file.
    pub(crate) files: BTreeMap<PathBuf, Vec<String>>,
}

/// Looks at a folder.
pub(crate) fn look(root: &Path, host: &Arc<Host>) -> Snapshot {
    let (mut project, mut mistakes) = Project::open(root, host.environment.variables());
    let said = project.tools.values().chain([&project.defaults]);
    mistakes.extend(said.flat_map(|said| &said.mistakes).map(|why| format!("zcp.toml: {why}")));
    let registered = registered(&project.folder("server.d"), &project.root, host);
    let (scripts, wrong) = match &registered {
        Ok(registered) => found_tools(&project, registered.kind("tools")),
        Err(_) => (vec![], vec![]),
    };
    mistakes.extend(wrong);
    let said = scripts.iter().filter_map(|(_, said)| said.as_ref().ok());
    let reserved = Arc::new(data_folders::reserved(&project, host, said));
    host.note_reserved(reserved.clone());
    if let Some(sandbox) = project.defaults.sandbox.take() {
        // What makes resources, prompts and completions runs all the same, and writes less.
        let others = host.reserved_beside();
        let why = reserved.refuses(&sandbox, &[], &others);
        mistakes.extend(why.map(|why| format!("zcp.toml: {why}")));
        let sandbox = reserved.allowed(sandbox, &others);
        host.note_writable(&sandbox, &project.root);
        project.defaults.sandbox = Some(sandbox);
    }
    let project = Arc::new(project);
    let mut gathering = Gathering {
        catalog: Catalog::default(),
        mistakes,
        programs: vec![],
        described: BTreeMap::new(),
        is_empty: true,
        pages: BTreeMap::new(),
        reserved,
        project,
        host: host.clone(),
    };
    let files = match registered {
        Ok(registered) => gathering.gather(&registered, scripts),
        Err(why) => {
            gathering.mistakes.push(why);
            BTreeMap::new()
        }
    };
    let Gathering { mut catalog, mut mistakes, is_empty, project, programs, described, .. } =
        gathering;
    mistakes.extend(catalog.take_mistakes());
    let is_there = |name: &str| programs.iter().any(|program| program.tool == name);
    let is_mounted =
        |name: &str| project.mounts.iter().any(|(mount, said)| said.names(mount, name));
    mistakes.extend(project.policy.mistakes(|name| is_there(name) || is_mounted(name)));
    let is_file = |name: &str| programs.iter().any(|program| is_called(&program.script, name));
    mistakes.extend(
        project
            .tools
            .iter()
            .filter(|(name, said)| !is_there(name) && !is_file(name) && said.enabled != Some(false))
            .map(|(name, _)| format!("zcp.toml speaks of a tool `{name}`, and there is none")),
    );
    let policy = policy(&project, host, described);
    Snapshot { catalog, policy, project, mistakes, is_empty, programs, files }
}

/// The policy of a project, with the program that decides, too.
fn policy(project: &Project, host: &Arc<Host>, described: BTreeMap<String, Value>) -> Policy {
    let policy = project.policy.clone();
    match project.policy_hook.clone() {
        Some(hook) => {
            let (root, host) = (project.root.clone(), host.clone());
            policy.judged_by(Arc::new(HookJudge { hook, root, host, described }))
        }
        None => policy,
    }
}

/// Whether a script, or the folder it is alone in, has a name.
fn is_called(script: &Path, name: &str) -> bool {
    let folder = script.parent().and_then(Path::file_name);
    [script.file_stem(), folder].contains(&Some(name.as_ref()))
}

struct Gathering {
    catalog: Catalog,
    mistakes: Vec<String>,
    is_empty: bool,
    programs: Vec<Program>,
    /// Tools as a policy hook is told of them.
    described: BTreeMap<String, Value>,
    /// Pages that are there already, and the files they change with.
    pages: BTreeMap<String, PathBuf>,
    reserved: Arc<Reserved>,
    project: Arc<Project>,
    host: Arc<Host>,
}

impl Gathering {
    fn gather(
        &mut self,
        registered: &Registered,
        scripts: Vec<FoundTool>,
    ) -> BTreeMap<PathBuf, Vec<String>> {
        let completing = self.completing(registered);
        self.tools(scripts);
        let files = self.resources(registered, &completing);
        self.prompts(registered.kind("prompts"), &completing);
        let found = skills::skills(&self.project);
        for skill in self.note(found) {
            self.add(|catalog| catalog.skill(skill));
        }
        for completing in completing {
            self.add(|catalog| catalog.complete(completing.name.clone(), completing));
        }
        files
    }

    fn add(&mut self, add: impl FnOnce(Catalog) -> Catalog) {
        self.is_empty = false;
        self.catalog = add(std::mem::take(&mut self.catalog));
    }

    fn note<T>(&mut self, (found, mistakes): (Vec<T>, Vec<String>)) -> Vec<T> {
        self.mistakes.extend(mistakes);
        found
    }

    fn tools(&mut self, scripts: Vec<FoundTool>) {
        let mut names = HashSet::new();
        let files = self.files_by_name(&scripts);
        let mut all = vec![];
        for (found, said) in scripts {
            let path = found.path.clone();
            let said = said.map(|said| self.restricted(&found.name, said));
            let strange = said.iter().flat_map(|said| &said.mistakes);
            let strange: Vec<String> =
                strange.map(|why| format!("{}: {why}", path.display())).collect();
            self.mistakes.extend(strange.iter().cloned());
            let mut pages = vec![];
            let made = said.and_then(|mut said| {
                pages.extend(self.page(&found, &mut said)?);
                self.script(found, said, &files)
            });
            all.push((path, strange, pages, made));
        }
        // What sandboxes may write is known by now.
        for (path, strange, pages, made) in all {
            let made = made.and_then(|script| self.with_safe_folder(script));
            let wrong = made.iter().flatten().find_map(|script| self.missing_folder(script));
            self.mistakes.extend(wrong.map(|why| format!("{}: {why}", path.display())));
            for page in pages {
                self.pages.insert(page.uri.clone(), page.file);
                self.add(|catalog| catalog.resource(page.resource));
            }
            match made {
                Ok(None) => (),
                Ok(Some(script)) if names.insert(script.name.clone()) => {
                    self.is_empty = false;
                    self.icons(&script);
                    let mut program = Program::of(&script, &self.project);
                    self.mistakes.extend(program.mistakes.iter().cloned());
                    if self.project.policy_hook.is_some() {
                        let described = metadata(&script.context(self.project.context()));
                        self.described.insert(script.name.clone(), described);
                    }
                    match ScriptTool::new(script, &self.project, &self.host) {
                        Ok(tool) => {
                            program.mistakes.extend(strange);
                            self.add(|catalog| catalog.tool(tool.offered()));
                        }
                        Err(mistakes) => {
                            program.mistakes.clear();
                            self.mistakes.extend(mistakes);
                        }
                    }
                    self.programs.push(program);
                }
                Ok(Some(script)) => self.mistakes.push(format!(
                    "{}: another tool is called `{}` already: give one of them another name",
                    path.display(),
                    script.name
                )),
                Err(why) => self.mistakes.push(format!("{}: {why}", path.display())),
            }
        }
    }

    /// The page of a tool, which says so.
    fn page(&self, found: &scan::Found, said: &mut Manifest) -> Result<Option<ui::Page>, String> {
        let folder = found.path.parent().map(|folder| folder.join("ui")).unwrap_or_default();
        let is_own = found.path.parent() != Some(&self.project.folder("tools"));
        if !is_own || !folder.is_dir() {
            return Ok(None);
        }
        let name = said.name.clone().unwrap_or_else(|| found.name.clone());
        let page = ui::page(&folder, &name, &self.project)?;
        if let Some(page) = &page {
            let meta = said.meta.get_or_insert_with(serde_json::Map::new);
            meta.entry("ui").or_insert_with(|| ui::linked(&page.uri));
        }
        Ok(page)
    }

    /// A script as a tool, unless it is not to be one. `files` counts all scripts by the names of
    /// their files.
    fn script(
        &self,
        found: scan::Found,
        said: Manifest,
        files: &HashMap<String, usize>,
    ) -> Result<Option<Script>, String> {
        let name = said.name.clone().unwrap_or_else(|| found.name.clone());
        let tools = &self.project.tools;
        let said = match (tools.get(&found.name), tools.get(&name)) {
            (Some(project), _) if files.get(&found.name) == Some(&1) => project.clone().or(said),
            (Some(project), _) => project.clone().only_restricting(&said).or(said),
            // It chose the name itself, which allows it nothing more. If the file of another script is
            // called so, the entry is for that one alone.
            (None, Some(project)) if !files.contains_key(&name) => {
                project.clone().only_restricting(&said).or(said)
            }
            (None, _) => said,
        };
        let said = said.or(self.project.defaults.clone());
        match said.enabled {
            Some(false) => Ok(None),
            _ => {
                let script = Script::new(found, said, &self.project, &self.host.environment)?;
                if let Some(sandbox) = &script.manifest.sandbox {
                    let (runs, others) =
                        (script.runs(&self.project.root), self.host.reserved_beside());
                    if let Some(why) = self.reserved.refuses(sandbox, &runs, &others) {
                        return Err(why);
                    }
                    if self.reserved.leaves_open(sandbox) {
                        tracing::warn!(
                            "`{}`: its sandbox does not restrict which files it reads and writes, so \
                             it can reach the server's store with its keys",
                            script.name
                        );
                    }
                    self.host.note_writable(sandbox, &self.project.root);
                }
                Ok(Some(script))
            }
        }
    }

    /// A script, unless it may write anything and runs where a sandbox may write.
    fn with_safe_folder(&self, script: Option<Script>) -> Result<Option<Script>, String> {
        let cwd = script.iter().find_map(|script| script.unsafe_folder(&self.project, &self.host));
        match cwd {
            Some(cwd) => Err(format!(
                "it must not run in `{}`: a script in a sandbox may write there, and many programs \
                 run what they find where they are started. Name another folder",
                cwd.display()
            )),
            None => Ok(script),
        }
    }

    /// Notes what is wrong with a script's pictures.
    fn icons(&mut self, script: &Script) {
        let folder = script.path.parent().unwrap_or(&self.project.root);
        let places = self.project.places("tools");
        let (_, wrong) = icons::checked(&script.manifest.icons, folder, &places);
        self.mistakes.extend(wrong);
    }

    /// What will keep a script from running, and is not said by anything else.
    fn missing_folder(&self, script: &Script) -> Option<String> {
        let cwd = script.cwd(&self.project.root);
        (!cwd.is_dir()).then(|| format!("it is to run in {}, which is no folder", cwd.display()))
    }

    fn resources(
        &mut self,
        registered: &Registered,
        completing: &[Completing],
    ) -> BTreeMap<PathBuf, Vec<String>> {
        let maker = resources::Maker { project: self.project.clone(), host: self.host.clone() };
        let found = match registered.kind("resources") {
            Some(entries) => {
                let mut all = self.note(maker.registered(entries));
                // Templates are found beside what is registered.
                let found = self.note(maker.found());
                all.extend(found.into_iter().filter(|one| one.is_template));
                all
            }
            None => self.note(maker.found()),
        };
        let mut all = match registered.kind("resourceTemplates") {
            Some(entries) => self.note(maker.registered(entries)),
            None => vec![],
        };
        // What is registered goes before what is found under the same name.
        let known: HashSet<String> = all.iter().map(|one| one.name.clone()).collect();
        all.extend(found.into_iter().filter(|one| !one.is_template || !known.contains(&one.name)));
        let mut files = resources::by_file(&all);
        for one in all {
            let of = || Of::resource(one.file.as_deref(), &one.uri, &one.entry);
            let beside = one.file.as_ref().and_then(|file| {
                completions::beside(&one.name, file, of(), &self.project, &self.host)
            });
            let named = completing.iter().find(|completing| completing.name == one.name);
            let named = named.map(|completing| completing.clone().of(of()));
            let uri = one.uri.clone();
            self.add(|catalog| catalog.resource(one.resource));
            if let Some(completing) = named.or(beside) {
                self.add(|catalog| catalog.complete(uri, completing));
            }
        }
        let pages = self.note(ui::standalone(&self.project));
        for page in pages {
            // A tool's page goes before one of the same name.
            if let Entry::Vacant(place) = self.pages.entry(page.uri) {
                place.insert(page.file);
                self.add(|catalog| catalog.resource(page.resource));
            }
        }
        for (uri, file) in &self.pages {
            files.entry(file.clone()).or_default().push(uri.clone());
        }
        self.unlisted();
        files
    }

    /// What can be read by whoever knows its URI: everything of a scheme, and outputs that were too
    /// long to be shown.
    fn unlisted(&mut self) {
        for scheme in providers::at_large(&self.project, &self.host) {
            let resource = resource_reader::by_scheme(&scheme, &self.project, &self.host);
            self.add(|catalog| catalog.resource(resource));
        }
        let host = self.host.clone();
        let begins = host.outputs.scheme.clone();
        let output = Resource::new(format!("{begins}{{+id}}"), move |uri: Uri, ctx: Ctx| {
            let host = host.clone();
            let id = uri.0.strip_prefix(&begins).unwrap_or_default().to_owned();
            async move {
                let kept: Option<Contents> = host.outputs.read(&id, &ctx.owner()).await;
                kept.ok_or_else(|| CallError::not_found("this output is not kept any more"))
            }
        });
        self.catalog = std::mem::take(&mut self.catalog).resource(output.unlisted());
    }

    fn prompts(&mut self, registered: Option<&Vec<Value>>, completing: &[Completing]) {
        let maker = prompts::Maker { project: self.project.clone(), host: self.host.clone() };
        let all = match registered {
            Some(entries) => self.note(maker.registered(entries)),
            None => self.note(maker.found()),
        };
        for one in all {
            let of = Of::prompt(&one.file, &one.entry);
            let is_named = completing.iter().any(|completing| completing.name == one.name);
            let found = completions::beside(&one.name, &one.file, of, &self.project, &self.host);
            if let Some(completing) = found.filter(|_| !is_named) {
                self.add(|catalog| catalog.complete(completing.name.clone(), completing));
            }
            self.add(|catalog| catalog.prompt(one.prompt));
        }
    }

    fn completing(&mut self, registered: &Registered) -> Vec<Completing> {
        let entries = registered.kind("completions").cloned().unwrap_or_default();
        let made = completions::registered(&entries, &self.project, &self.host);
        self.note(made)
    }
}

/// A program that may be a tool, and what is said of it.
type FoundTool = (scan::Found, Result<Manifest, String>);

/// The programs of a project that may be tools, and what is wrong with those that are registered.
fn found_tools(
    project: &Project,
    registered: Option<&Vec<Value>>,
) -> (Vec<FoundTool>, Vec<String>) {
    let folder = project.folder("tools");
    let Some(entries) = registered else {
        let (found, mut mistakes) = scan::tools(&folder, project.layout());
        mistakes.extend(project.hidden_scripts());
        let both = |found: scan::Found| {
            let said = said(&found.path, &found.head);
            (found, said)
        };
        return (found.into_iter().map(both).collect(), mistakes);
    };
    let (mut all, mut mistakes) = (vec![], vec![]);
    for entry in entries {
        let path = entry["path"].as_str().map(|path| folder.join(path));
        match path.as_deref().and_then(scan::program) {
            Some(found) => {
                let said = serde_json::from_value(entry.clone());
                all.push((found, said.map_err(|error| error.to_string())));
            }
            None => mistakes.push(format!("a registered tool has no program: {entry}")),
        }
    }
    (all, mistakes)
}

/// What is said of a script: beside it first, then by itself.
fn said(path: &Path, head: &str) -> Result<Manifest, String> {
    let header = of_text(head)?;
    Ok(match beside(path)? {
        Some(beside) => beside.manifest()?.or(header),
        None => header,
    })
}
