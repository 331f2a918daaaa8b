//! Everything that can be called, read or got: one immutable snapshot.

use super::{
    call::ListKind,
    prompt::{Prompt, ReadyPrompt},
    resource::{ReadyResource, Resource},
    signature::{Need, Signature},
    tool::{ReadyTool, Tool},
};
use crate::seal::digest;
use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};
use tokio::sync::watch;

/// Where tools, resources and prompts come from: a snapshot, and a signal when there is a newer
/// one. Every change is announced to the clients who want to know.
pub trait Provider: Send + Sync + 'static {
    /// The snapshot now, and those to come.
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>>;
}

/// Everything that can be called, read or got, sorted by name.
#[derive(Debug, Default, Clone)]
pub struct Catalog {
    tools: BTreeMap<String, Arc<ReadyTool>>,
    resources: BTreeMap<String, Arc<ReadyResource>>,
    templates: BTreeMap<String, Arc<ReadyResource>>,
    prompts: BTreeMap<String, Arc<ReadyPrompt>>,
    needs: Vec<(String, Need)>,
    mistakes: Vec<String>,
}

impl Catalog {
    /// Adds a tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<Tool>) -> Self {
        let tool = tool.into();
        let needs = tool.signature.clone();
        let ready = tool.ready().map(|tool| (tool.info.name.clone(), tool));
        self.add(|all| &mut all.tools, "tool", ready, &needs);
        self
    }

    /// Adds a resource, or a family of them.
    #[must_use]
    pub fn resource(mut self, resource: impl Into<Resource>) -> Self {
        let resource = resource.into();
        let needs = resource.signature.clone();
        let ready = resource.ready().map(|one| (one.info().uri.clone(), one));
        let template = ready.as_ref().is_ok_and(|(_, one)| one.template.is_some());
        let room: fn(&mut Self) -> &mut Map<ReadyResource> = match template {
            true => |all| &mut all.templates,
            false => |all| &mut all.resources,
        };
        self.add(room, "resource", ready, &needs);
        self
    }

    /// Adds a prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: impl Into<Prompt>) -> Self {
        let prompt = prompt.into();
        let needs = prompt.signature.clone();
        let ready = prompt
            .ready()
            .map(|prompt| (prompt.info().name.clone(), prompt));
        self.add(|all| &mut all.prompts, "prompt", ready, &needs);
        self
    }

    fn add<T>(
        &mut self,
        room: impl for<'a> Fn(&'a mut Self) -> &'a mut Map<T>,
        what: &str,
        ready: Result<(String, T), String>,
        signature: &Signature,
    ) {
        let (name, item) = match ready {
            Ok(ready) => ready,
            Err(mistake) => return self.mistakes.push(mistake),
        };
        let label = format!("{what} `{name}`");
        match room(self).entry(name) {
            Entry::Occupied(_) => self.mistakes.push(format!("{label} is there twice")),
            Entry::Vacant(place) => drop(place.insert(Arc::new(item))),
        }
        self.needs
            .extend(signature.needs.iter().map(|need| (label.clone(), *need)));
    }

    /// Adds what another catalog has; of two with one name the first stays.
    pub(crate) fn merge(&mut self, other: &Self) {
        merge(&mut self.tools, &other.tools, "tool", &mut self.mistakes);
        merge(
            &mut self.resources,
            &other.resources,
            "resource",
            &mut self.mistakes,
        );
        merge(
            &mut self.templates,
            &other.templates,
            "resource",
            &mut self.mistakes,
        );
        merge(
            &mut self.prompts,
            &other.prompts,
            "prompt",
            &mut self.mistakes,
        );
        self.needs.extend(other.needs.iter().cloned());
        self.mistakes.extend(other.mistakes.iter().cloned());
    }

    /// Everything that is wrong with it.
    pub(crate) fn mistakes(&self, state: &http::Extensions) -> Vec<String> {
        let missing = self
            .needs
            .iter()
            .filter(|(_, need)| !(need.is_there)(state));
        let missing = missing
            .map(|(label, need)| format!("{label} needs state `{}`: add `.state(..)`", need.name));
        self.mistakes.iter().cloned().chain(missing).collect()
    }

    pub(crate) fn find_tool(&self, name: &str) -> Option<&Arc<ReadyTool>> {
        self.tools.get(name)
    }

    pub(crate) fn find_prompt(&self, name: &str) -> Option<&Arc<ReadyPrompt>> {
        self.prompts.get(name)
    }

    pub(crate) fn find_template(&self, template: &str) -> Option<&Arc<ReadyResource>> {
        self.templates.get(template)
    }

    /// The resource of a URI, with the template's variables when it is one of a family. Of
    /// several families that fit, the one that says most wins.
    pub(crate) fn find_resource(
        &self,
        uri: &str,
    ) -> Option<(&Arc<ReadyResource>, Option<Variables>)> {
        if let Some(resource) = self.resources.get(uri) {
            return Some((resource, None));
        }
        let fitting = self.templates.values().filter_map(|family| {
            let variables = family.variables(uri)?;
            Some((family.template.as_ref()?.specificity(), family, variables))
        });
        let (_, family, variables) = fitting.max_by_key(|(specificity, ..)| *specificity)?;
        Some((family, Some(variables)))
    }

    pub(crate) fn tools(&self) -> impl Iterator<Item = &ReadyTool> {
        self.tools.values().map(|tool| &**tool)
    }

    pub(crate) fn resources(&self) -> impl Iterator<Item = &ReadyResource> {
        self.resources.values().map(|resource| &**resource)
    }

    pub(crate) fn templates(&self) -> impl Iterator<Item = &ReadyResource> {
        self.templates.values().map(|resource| &**resource)
    }

    pub(crate) fn prompts(&self) -> impl Iterator<Item = &ReadyPrompt> {
        self.prompts.values().map(|prompt| &**prompt)
    }

    /// The names of a list, in its order.
    pub(crate) fn names(&self, kind: ListKind) -> Vec<&str> {
        fn names<T>(room: &Map<T>) -> Vec<&str> {
            room.keys().map(String::as_str).collect()
        }
        match kind {
            ListKind::Tools => names(&self.tools),
            ListKind::Prompts => names(&self.prompts),
            ListKind::Resources => names(&self.resources),
            ListKind::Templates => names(&self.templates),
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
            ListKind::Tools => self.tools().for_each(|t| add(serde_json::to_vec(&t.info))),
            ListKind::Prompts => self
                .prompts()
                .for_each(|p| add(serde_json::to_vec(p.info()))),
            ListKind::Resources => self
                .resources()
                .for_each(|r| add(serde_json::to_vec(r.info()))),
            ListKind::Templates => {
                self.templates()
                    .for_each(|r| add(serde_json::to_vec(&r.template_info())));
            }
        }
        digest(&all)
    }
}

/// A template's variables in one URI.
pub(crate) type Variables = BTreeMap<String, String>;

type Map<T> = BTreeMap<String, Arc<T>>;

fn merge<T>(into: &mut Map<T>, from: &Map<T>, what: &str, mistakes: &mut Vec<String>) {
    for (name, item) in from {
        match into.entry(name.clone()) {
            Entry::Occupied(_) => mistakes.push(format!("{what} `{name}` is there twice")),
            Entry::Vacant(place) => drop(place.insert(item.clone())),
        }
    }
}

/// A provider whose catalog a program changes while it runs.
///
/// ```
/// use zcp::{Catalog, Live, Server, Tool};
///
/// let live = Live::default();
/// let server = Server::new("demo").provide(live.clone());
/// live.set(Catalog::default().tool(Tool::new("new", async || "I was not here before")));
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Live {
    sender: Arc<watch::Sender<Arc<Catalog>>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            sender: Arc::new(watch::Sender::new(Arc::default())),
        }
    }
}

impl Live {
    /// Replaces the catalog, and tells the clients who want to know.
    pub fn set(&self, catalog: Catalog) {
        self.sender.send_replace(Arc::new(catalog));
    }
}

impl Provider for Live {
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.sender.subscribe()
    }
}
