//! Everything that can be called, read or got: one immutable snapshot.

use super::{
    call::ListKind,
    complete::Completer,
    offer::IntoOffer,
    prompt::{Prompt, ReadyPrompt},
    ready_tool::ReadyTool,
    resource::{ReadyResource, Resource},
    signature::Need,
    skill::{Child, Skill, children},
    tool::{Support, Tool},
};
use crate::seal::digest;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, btree_map::Entry},
    fmt,
    ops::Bound,
    sync::Arc,
};
use zcp_wire::mcp::{
    resources,
    skills::{FOLDER, Skill as Listed},
};

/// Everything that can be called, read or got, sorted by name.
#[derive(Default, Clone)]
pub struct Catalog {
    pub(super) tools: BTreeMap<String, Arc<ReadyTool>>,
    /// The same without an order: a name is found as fast among many as among few.
    pub(super) tools_by_name: HashMap<String, Arc<ReadyTool>, foldhash::fast::RandomState>,
    /// Tools that a gate offers to nobody. They are not listed, and the gate refuses their calls.
    pub(super) refused_tools: BTreeMap<String, Arc<ReadyTool>>,
    pub(super) resources: BTreeMap<String, Arc<ReadyResource>>,
    pub(super) templates: BTreeMap<String, Arc<ReadyResource>>,
    pub(super) unlisted: BTreeMap<String, Arc<ReadyResource>>,
    pub(super) prompts: BTreeMap<String, Arc<ReadyPrompt>>,
    pub(super) skills: BTreeMap<String, Arc<Listed>>,
    /// Completers of whole prompts and families of resources, which need not be listed.
    pub(super) completers: BTreeMap<String, Arc<dyn Completer>>,
    pub(super) needs: Vec<(String, Need)>,
    pub(super) mistakes: Vec<String>,
    /// What was left out because its name or URI was taken.
    pub(super) clashes: Vec<String>,
    pub(super) watched: bool,
    pub(super) completes: bool,
    pub(super) mirrors: bool,
    pub(super) long: bool,
}

impl Catalog {
    /// Adds a tool.
    #[must_use]
    pub fn tool<T>(mut self, tool: impl IntoOffer<Tool, T>) -> Self {
        let tool = tool.into_offer();
        let needs = tool.signature.needs.clone();
        let label = format!("tool `{}`", tool.name());
        let ready = tool.ready().map(|tool| (tool.info.name.clone(), tool));
        if let Ok((_, tool)) = &ready {
            self.mirrors |= !tool.mirrored.is_empty();
            self.long |= tool.support != Support::Forbidden;
        }
        let name = ready.as_ref().ok().map(|(name, _)| name.clone());
        self.add(|all| &mut all.tools, &label, ready, &needs);
        self.index(name);
        self
    }

    /// Adds a resource, or a family of them.
    #[must_use]
    pub fn resource<T>(mut self, resource: impl IntoOffer<Resource, T>) -> Self {
        let resource = resource.into_offer();
        let needs = resource.signature.needs.clone();
        let label = format!("resource `{}`", resource.uri());
        let ready = resource.ready().map(|one| (one.info().uri.clone(), one));
        if let Ok((_, one)) = &ready {
            self.watched |= one.is_watched();
            self.completes |= !one.completers().is_empty();
        }
        let room: fn(&mut Self) -> &mut Map<ReadyResource> = match &ready {
            Ok((_, one)) if one.is_unlisted() => |all| &mut all.unlisted,
            Ok((_, one)) if one.template.is_some() => |all| &mut all.templates,
            _ => |all| &mut all.resources,
        };
        self.add(room, &label, ready, &needs);
        self
    }

    /// Adds a skill: its text and its files are resources, too.
    #[must_use]
    pub fn skill(mut self, skill: impl Into<Skill>) -> Self {
        let skill = skill.into();
        let label = format!("skill `{}`", skill.path());
        let (listed, files) = match skill.ready() {
            Ok(ready) => ready,
            Err(mistakes) => {
                self.mistakes.extend(mistakes);
                return self;
            }
        };
        self.add(|all| &mut all.skills, &label, Ok((listed.uri.clone(), listed)), &[]);
        files.into_iter().fold(self, Self::resource)
    }

    /// Adds a prompt.
    #[must_use]
    pub fn prompt<T>(mut self, prompt: impl IntoOffer<Prompt, T>) -> Self {
        let prompt = prompt.into_offer();
        let needs = prompt.signature.needs.clone();
        let label = format!("prompt `{}`", prompt.name());
        let ready = prompt.ready().map(|prompt| (prompt.info().name.clone(), prompt));
        self.completes |= ready.as_ref().is_ok_and(|(_, prompt)| !prompt.completers().is_empty());
        self.add(|all| &mut all.prompts, &label, ready, &needs);
        self
    }

    /// Completes every argument of a prompt or a template, whether it is listed or not, unless the
    /// argument has a completer of its own.
    #[must_use]
    pub fn complete(mut self, name: impl Into<String>, completer: impl Completer) -> Self {
        self.completes = true;
        self.completers.insert(name.into(), Arc::new(completer));
        self
    }

    /// What is wrong with what was added: it is left out. A server is not built of a catalog that
    /// has mistakes, so whoever can do without takes them.
    pub fn take_mistakes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.mistakes)
    }

    fn add<T>(
        &mut self,
        room: impl for<'a> Fn(&'a mut Self) -> &'a mut Map<T>,
        label: &str,
        ready: Result<(String, T), Vec<String>>,
        needs: &[Need],
    ) {
        self.needs.extend(needs.iter().map(|need| (label.to_owned(), *need)));
        match ready {
            Err(mistakes) => self.mistakes.extend(mistakes),
            Ok((name, item)) => match room(self).entry(name) {
                Entry::Occupied(_) => self.mistakes.push(format!("{label} is there twice")),
                Entry::Vacant(place) => drop(place.insert(Arc::new(item))),
            },
        }
    }

    pub(super) fn index(&mut self, names: impl IntoIterator<Item = String>) {
        for name in names {
            if let Some(tool) = self.tools.get(&name) {
                self.tools_by_name.insert(name, tool.clone());
            }
        }
    }

    /// What `choose` takes of it: the name something has from now on, or nothing to leave it out.
    /// Tools and prompts get other names; everything else is known by its URI, which stays.
    #[must_use]
    pub fn chosen(&self, choose: impl Fn(ListKind, &str) -> Option<String>) -> Self {
        let mut all = self.clone();
        all.tools.clear();
        all.tools_by_name.clear();
        for (name, tool) in &self.tools {
            let Some(new) = choose(ListKind::Tools, name) else { continue };
            match all.tools.entry(new) {
                Entry::Occupied(taken) => all.clashes.push(clash("tool", taken.key())),
                Entry::Vacant(place) => {
                    let tool = Arc::new(tool.named(place.key().clone()));
                    place.insert(tool);
                }
            }
        }
        all.index(all.tools.keys().cloned().collect::<Vec<_>>());
        all.refused_tools.clear();
        for (name, tool) in &self.refused_tools {
            let Some(new) = choose(ListKind::Tools, name) else { continue };
            let renamed = Arc::new(tool.named(new.clone()));
            all.refused_tools.entry(new).or_insert(renamed);
        }
        all.prompts.clear();
        let is_left = |name: &str| {
            let is_prompt = self.prompts.contains_key(name);
            let is_out = |uri| choose(ListKind::Templates, uri).is_none();
            is_prompt || self.templates.contains_key(name) && is_out(name)
        };
        all.completers.retain(|name, _| !is_left(name));
        for (name, prompt) in &self.prompts {
            let Some(new) = choose(ListKind::Prompts, name) else { continue };
            if all.prompts.contains_key(&new) {
                all.clashes.push(clash("prompt", &new));
                continue;
            }
            if let Some(completer) = self.completers.get(name) {
                all.completers.insert(new.clone(), completer.clone());
            }
            all.prompts.insert(new.clone(), Arc::new(prompt.named(new)));
        }
        all.resources.retain(|uri, _| choose(ListKind::Resources, uri).is_some());
        all.templates.retain(|uri, _| choose(ListKind::Templates, uri).is_some());
        all.unlisted.retain(|uri, _| choose(ListKind::Templates, uri).is_some());
        all.skills.retain(|uri, _| choose(ListKind::Skills, uri).is_some());
        all
    }

    /// Everything that is wrong with it.
    pub(crate) fn mistakes(&self, state: &http::Extensions) -> Vec<String> {
        let missing = self.needs.iter().filter(|(_, need)| !(need.is_there)(state));
        let missing = missing
            .map(|(label, need)| format!("{label} needs state `{}`: add `.state(..)`", need.name));
        self.mistakes.iter().cloned().chain(missing).collect()
    }

    pub(crate) fn find_tool(&self, name: &str) -> Option<&Arc<ReadyTool>> {
        self.tools_by_name.get(name)
    }

    /// A tool that a gate offers to nobody.
    pub(crate) fn find_refused_tool(&self, name: &str) -> Option<&Arc<ReadyTool>> {
        self.refused_tools.get(name)
    }

    pub(crate) fn find_prompt(&self, name: &str) -> Option<&Arc<ReadyPrompt>> {
        self.prompts.get(name)
    }

    pub(crate) fn find_completer(&self, name: &str) -> Option<&Arc<dyn Completer>> {
        self.completers.get(name)
    }

    pub(crate) fn find_skill(&self, uri: &str) -> Option<&Arc<Listed>> {
        self.skills.get(uri)
    }

    /// What is directly in a folder of a skill, after a name; nothing if it is no folder.
    pub(crate) fn folder(
        &self,
        uri: &str,
        after: Option<&str>,
    ) -> Option<Vec<(String, resources::Resource)>> {
        let files = self.skills.values().flat_map(|skill| &skill.resources);
        let all = children(uri, files.map(|file| file.uri.as_str()));
        let shown = |(name, child): (String, Child<'_>)| {
            let resource = match child {
                Child::File(uri) => {
                    let (file, _) = self.find_resource(uri)?;
                    resources::Resource { name: name.clone(), ..file.info().clone() }
                }
                Child::Folder(uri) => resources::Resource {
                    uri,
                    name: name.clone(),
                    mime_type: Some(FOLDER.to_owned()),
                    ..resources::Resource::default()
                },
            };
            Some((name, resource))
        };
        let is_folder = !all.is_empty();
        let next = all.into_iter().filter(|(name, _)| after.is_none_or(|after| **name > *after));
        is_folder.then(|| next.filter_map(shown).collect())
    }

    pub(crate) fn find_template(&self, template: &str) -> Option<&Arc<ReadyResource>> {
        self.templates.get(template)
    }

    /// The resource of a URI, with the template's variables when it is one of a family. Of
    /// several families that fit, the one that says most wins. Fallbacks come last, in their order.
    pub(crate) fn find_resource(&self, uri: &str) -> Option<Fitting<'_>> {
        self.fitting(uri).or_else(|| {
            let listed = [exact(&self.resources, uri, true), best(&self.templates, uri, true)];
            let unlisted = [exact(&self.unlisted, uri, true), best(&self.unlisted, uri, true)];
            let all = listed.into_iter().chain(unlisted).flatten();
            all.min_by_key(|(one, _)| one.fallback_order())
        })
    }

    /// The same, without fallbacks.
    pub(super) fn fitting(&self, uri: &str) -> Option<Fitting<'_>> {
        exact(&self.resources, uri, false)
            .or_else(|| best(&self.templates, uri, false))
            .or_else(|| exact(&self.unlisted, uri, false))
            .or_else(|| best(&self.unlisted, uri, false))
    }

    /// The tools after a name, in order.
    pub(crate) fn tools(&self, after: Option<&str>) -> impl Iterator<Item = (&str, &ReadyTool)> {
        following(&self.tools, after)
    }

    /// The resources after a URI, in order.
    pub(crate) fn resources(
        &self,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&str, &ReadyResource)> {
        following(&self.resources, after)
    }

    /// The families of resources after a template, in order.
    pub(crate) fn templates(
        &self,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&str, &ReadyResource)> {
        following(&self.templates, after)
    }

    /// The prompts after a name, in order.
    pub(crate) fn prompts(
        &self,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&str, &ReadyPrompt)> {
        following(&self.prompts, after)
    }

    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty()
    }

    /// The skills after a URI, in order.
    pub(crate) fn skills(&self, after: Option<&str>) -> impl Iterator<Item = (&str, &Listed)> {
        following(&self.skills, after)
    }

    pub(crate) fn has_skills(&self) -> bool {
        !self.skills.is_empty()
    }

    pub(crate) fn has_prompts(&self) -> bool {
        !self.prompts.is_empty()
    }

    pub(crate) fn has_resources(&self) -> bool {
        [&self.resources, &self.templates, &self.unlisted].iter().any(|all| !all.is_empty())
    }

    /// Some resource's changes are announced.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// Some tool's arguments are repeated in headers.
    pub(crate) fn mirrors(&self) -> bool {
        self.mirrors
    }

    /// Some tool can be run as a task from its beginning.
    pub(crate) fn has_long_tools(&self) -> bool {
        self.long
    }

    /// Some argument can be completed.
    pub(crate) fn completes(&self) -> bool {
        self.completes
    }

    /// The names of a list, or its URIs, in order.
    pub fn names(&self, kind: ListKind) -> impl Iterator<Item = &str> {
        let all: Vec<&String> = match kind {
            ListKind::Tools => self.tools.keys().collect(),
            ListKind::Prompts => self.prompts.keys().collect(),
            ListKind::Resources => self.resources.keys().collect(),
            ListKind::Templates => self.templates.keys().collect(),
            ListKind::Skills => self.skills.keys().collect(),
        };
        all.into_iter().map(String::as_str)
    }

    /// How many a list has.
    pub fn count(&self, kind: ListKind) -> usize {
        match kind {
            ListKind::Tools => self.tools.len(),
            ListKind::Prompts => self.prompts.len(),
            ListKind::Resources => self.resources.len(),
            ListKind::Templates => self.templates.len(),
            ListKind::Skills => self.skills.len(),
        }
    }

    /// A digest of one list: equal digests, equal lists.
    pub fn digest(&self, kind: ListKind) -> String {
        let mut all = vec![];
        let mut add = |json: Result<Vec<u8>, serde_json::Error>| {
            all.extend(json.unwrap_or_default());
            all.push(b'\n');
        };
        match kind {
            ListKind::Tools => {
                self.tools.values().for_each(|tool| add(serde_json::to_vec(&tool.info)));
            }
            ListKind::Prompts => {
                self.prompts.values().for_each(|prompt| add(serde_json::to_vec(prompt.info())));
            }
            ListKind::Resources => {
                self.resources.values().for_each(|one| add(serde_json::to_vec(one.info())));
            }
            ListKind::Skills => {
                self.skills.values().for_each(|skill| add(serde_json::to_vec(&**skill)));
            }
            ListKind::Templates => {
                let infos = self.templates.values().map(|one| one.template_info());
                infos.for_each(|info| add(serde_json::to_vec(&info)));
            }
        }
        digest(&all)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("tools", &self.tools.keys())
            .field("resources", &self.resources.keys())
            .field("templates", &self.templates.keys())
            .field("prompts", &self.prompts.keys())
            .field("mistakes", &self.mistakes)
            .finish_non_exhaustive()
    }
}

/// A template's variables in one URI.
pub(crate) type Variables = BTreeMap<String, String>;

/// A resource, with its variables when it is one of a family.
type Fitting<'a> = (&'a Arc<ReadyResource>, Option<Variables>);

pub(super) type Map<T> = BTreeMap<String, Arc<T>>;

/// Says that something is left out because its name or URI is taken.
pub(super) fn clash(what: &str, name: &str) -> String {
    // It may be of another server: as it is logged it is short, and has no line breaks.
    let name: String = name.chars().take(200).flat_map(char::escape_debug).collect();
    format!("{what} `{name}` is there twice: the first is used")
}

/// The resource that has exactly this URI.
fn exact<'a>(all: &'a Map<ReadyResource>, uri: &str, fallback: bool) -> Option<Fitting<'a>> {
    let one = all.get(uri).filter(|one| one.is_fallback() == fallback)?;
    Some((one, None))
}

/// Of the families a URI fits, the one that says most; of fallbacks, among those of lowest order.
fn best<'a>(families: &'a Map<ReadyResource>, uri: &str, fallback: bool) -> Option<Fitting<'a>> {
    let families = families.values().filter(|one| one.is_fallback() == fallback);
    let fitting = families.filter_map(|family| {
        let variables = family.variables(uri)?;
        let specificity = family.template.as_ref()?.specificity();
        Some(((Reverse(family.fallback_order()), specificity), family, variables))
    });
    let (_, family, variables) = fitting.max_by_key(|(rank, ..)| *rank)?;
    Some((family, Some(variables)))
}

fn following<'a, T>(
    room: &'a Map<T>,
    after: Option<&str>,
) -> impl Iterator<Item = (&'a str, &'a T)> + use<'a, T> {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    room.range::<str, _>((start, Bound::Unbounded)).map(|(name, item)| (name.as_str(), &**item))
}
