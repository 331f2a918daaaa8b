//! What a server asks of this side: the user, the model, the folders.

use super::form;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{
    collections::BTreeSet,
    fmt,
    future::Future,
    sync::{Arc, Mutex},
};
use zcp_wire::{
    Method, MethodName, RpcError,
    mcp::{
        capabilities::ClientCapabilities,
        content::Kind,
        elicitation::{Action, Elicit, ElicitResult, Mode},
        roots::{ListRootsResult, Root},
        sampling::{CreateMessage, CreateMessageResult},
    },
    sync::lock,
};

/// What a handler says: an answer, or why there is none.
pub type Answer<T> = Result<T, RpcError>;

type Handler<Q, A> = Arc<dyn Fn(Q) -> BoxFuture<'static, Answer<A>> + Send + Sync>;

/// One handler for each kind of question. A kind without one is not declared, and refused.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    elicit: Option<Handler<Elicit, ElicitResult>>,
    visits: bool,
    sample: Option<Handler<CreateMessage, CreateMessageResult>>,
    sample_tools: bool,
    /// What they are now. None: they are not declared.
    roots: Option<Arc<Mutex<Vec<Root>>>>,
}

fn handler<Q, A, F>(handle: impl Fn(Q) -> F + Send + Sync + 'static) -> Handler<Q, A>
where
    F: Future<Output = Answer<A>> + Send + 'static,
{
    Arc::new(move |question| Box::pin(handle(question)))
}

impl Answers {
    pub(crate) fn elicit<F>(&mut self, handle: impl Fn(Elicit) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Answer<ElicitResult>> + Send + 'static,
    {
        self.elicit = Some(handler(handle));
    }

    pub(crate) fn visits(&mut self) {
        self.visits = true;
    }

    pub(crate) fn sample<F>(&mut self, handle: impl Fn(CreateMessage) -> F + Send + Sync + 'static)
    where
        F: Future<Output = Answer<CreateMessageResult>> + Send + 'static,
    {
        self.sample = Some(handler(handle));
    }

    pub(crate) fn roots(&mut self, roots: Vec<Root>) {
        self.roots = Some(Arc::new(Mutex::new(roots)));
    }

    pub(crate) fn sample_tools(&mut self) {
        self.sample_tools = true;
    }

    /// Says what is wrong with what was given.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.roots_now().as_deref().map_or(Ok(()), check_roots)
    }

    /// Replaces the roots.
    pub(crate) fn change_roots(&self, roots: Vec<Root>) -> Result<(), String> {
        check_roots(&roots)?;
        let declared = self.roots.as_ref().ok_or_else(|| {
            "this client declared no roots: begin with `Builder::roots`, which may be none"
                .to_owned()
        })?;
        *lock(declared) = roots;
        Ok(())
    }

    fn roots_now(&self) -> Option<Vec<Root>> {
        let roots = self.roots.as_ref()?;
        Some(lock(roots).clone())
    }

    /// What the server is told it may ask. `in_session`: it will be told when roots change.
    pub(crate) fn capabilities(&self, in_session: bool) -> ClientCapabilities {
        let mut all = Map::new();
        if self.elicit.is_some() {
            let modes = match self.visits {
                true => json!({ "form": {}, "url": {} }),
                false => json!({ "form": {} }),
            };
            all.insert("elicitation".into(), modes);
        }
        if self.sample.is_some() {
            let tools = if self.sample_tools { json!({ "tools": {} }) } else { json!({}) };
            all.insert("sampling".into(), tools);
        }
        if self.roots.is_some() {
            let changes = if in_session { json!({ "listChanged": true }) } else { json!({}) };
            all.insert("roots".into(), changes);
        }
        ClientCapabilities(all)
    }

    /// Answers a question, by its method.
    pub(crate) async fn answer(&self, method: &MethodName, params: &Value) -> Answer<Value> {
        match (method.known(), &self.elicit, &self.sample, self.roots_now()) {
            (Some(Method::Ping), ..) => Ok(json!({})),
            (Some(Method::Elicit), Some(elicit), ..) => {
                written(&self.elicitation(elicit, read(params)?).await?)
            }
            (Some(Method::CreateMessage), _, Some(sample), _) => {
                let question = read(params)?;
                self.check_sampling(&question).map_err(RpcError::invalid_params)?;
                written(&sample(question).await?)
            }
            (Some(Method::ListRoots), _, _, Some(roots)) => written(&ListRootsResult { roots }),
            _ => Err(RpcError::method_not_found(method)),
        }
    }

    /// Whether a model can be asked this: no tools that were not declared, and every use of one
    /// answered by its result before anything else is said.
    fn check_sampling(&self, question: &CreateMessage) -> Result<(), &'static str> {
        if !self.sample_tools && (question.tools.is_some() || question.tool_choice.is_some()) {
            return Err("this client did not declare `sampling.tools`");
        }
        let mut open = BTreeSet::new();
        for message in &question.messages {
            let blocks = || message.content.iter().map(|block| &block.kind);
            let used: BTreeSet<_> = blocks()
                .filter_map(|kind| match kind {
                    Kind::ToolUse { id, .. } => Some(id),
                    _ => None,
                })
                .collect();
            let given: BTreeSet<_> = blocks()
                .filter_map(|kind| match kind {
                    Kind::ToolResult { tool_use_id, .. } => Some(tool_use_id),
                    _ => None,
                })
                .collect();
            if !given.is_empty() && given.len() < blocks().count() {
                return Err("results of tools stand beside something else");
            }
            if given != open {
                return Err("uses of tools and their results do not match");
            }
            open = used;
        }
        open.is_empty().then_some(()).ok_or("the last use of a tool has no result")
    }

    /// Asks the user, and sees to it that what they say fits what was asked.
    async fn elicitation(
        &self,
        elicit: &Handler<Elicit, ElicitResult>,
        question: Elicit,
    ) -> Answer<ElicitResult> {
        let form = match question.mode.unwrap_or(Mode::Form) {
            Mode::Url if !self.visits => {
                return Err(RpcError::invalid_params("this client declared no `url` mode"));
            }
            Mode::Url => None,
            Mode::Form => question.requested_schema.clone(),
            _ => return Err(RpcError::invalid_params("this client declared no such mode")),
        };
        let mut result = elicit(question).await?;
        if result.action != Action::Accept {
            return Ok(ElicitResult { action: result.action, content: None });
        }
        if let Some(schema) = form {
            let content = form::completed(&schema, result.content.take().unwrap_or_default());
            form::check(&schema, &content)
                .map_err(|why| RpcError::internal(format!("the answer fits no form: {why}")))?;
            result.content = Some(content);
        }
        Ok(result)
    }
}

fn check_roots(roots: &[Root]) -> Result<(), String> {
    match roots.iter().find(|root| !root.uri.starts_with("file://")) {
        Some(root) => Err(format!("`{}` is no root: roots are file:// URIs", root.uri)),
        None => Ok(()),
    }
}

fn read<T: for<'de> Deserialize<'de>>(params: &Value) -> Answer<T> {
    T::deserialize(params).map_err(RpcError::invalid_params)
}

fn written<T: Serialize>(answer: &T) -> Answer<Value> {
    serde_json::to_value(answer).map_err(|error| RpcError::internal(error.to_string()))
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").field("capabilities", &self.capabilities(false)).finish()
    }
}
