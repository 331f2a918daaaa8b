//! Calls of a mounted server, made for a call of the server it is mounted in.

use crate::{
    offers::Kind,
    upstream::{ANSWER_TIMEOUT, Upstream},
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc};
use tokio::time::timeout;
use zcp::{CallError, Contents, Ctx, FromCall, Input, Output, Typed, Uri};
use zcp_client::{
    Client,
    wire::mcp::{completion::Reference, prompts::GetPromptResult},
};

impl Upstream {
    /// The connection to the server, waited for if it is not open.
    async fn client(&self) -> zcp::Result<Arc<Client>> {
        let mut link = self.link();
        let open = link.wait_for(|link| link.client.is_some() || link.is_closed);
        let open = timeout(ANSWER_TIMEOUT, open).await;
        let client = open.ok().and_then(|link| link.ok()?.client.clone());
        client.ok_or_else(|| {
            let why = match self.link().borrow().is_closed {
                true => "the gateway was closed",
                false => "try again later",
            };
            CallError::new(format!("the mounted server `{}` is not there: {why}", self.name()))
        })
    }

    /// The same, for something it offers: only if that is what was accepted.
    async fn client_for(&self, kind: Kind, name: &str) -> zcp::Result<Arc<Client>> {
        let client = self.client().await?;
        let mut link = self.link();
        let known = link.wait_for(|link| link.accepted.is_some() || link.is_closed);
        let known = timeout(ANSWER_TIMEOUT, known).await;
        let accepted = known.ok().and_then(|link| link.ok()?.accepted.clone());
        match accepted.is_some_and(|accepted| accepted.contains(&(kind, name.to_owned()))) {
            true => Ok(client),
            false => Err(CallError::new(format!(
                "the {kind} `{name}` was not used: the mounted server `{}` describes it differently \
                 than was accepted. Its operator can review it with `zcp lock --check` and accept it \
                 with `zcp lock`",
                self.name()
            ))),
        }
    }

    pub(crate) async fn call(&self, name: &str, input: Input) -> zcp::Result<Output> {
        let args: Map<String, Value> = input.args()?;
        let client = self.client_for(Kind::Tool, name).await?;
        let ctx: Ctx = input.ctx.clone();
        let call = client.tool(name).args(Value::Object(args)).on_progress(move |progress| {
            let message = progress.message.as_deref().unwrap_or_default();
            ctx.progress_with(progress.progress, progress.total, message);
        });
        let result = call.send().await.map_err(|error| self.failed(error))?;
        let mut meta = result.meta.unwrap_or_default();
        // What the protocol itself says is said anew.
        meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/"));
        Ok(Output {
            content: result.content,
            structured: result.structured_content,
            is_error: result.is_error,
            meta,
        })
    }

    pub(crate) async fn fill(&self, name: &str, input: &Input) -> zcp::Result<GetPromptResult> {
        let args: BTreeMap<String, String> = input.args()?;
        let client = self.client_for(Kind::Prompt, name).await?;
        client.prompt(name, args).await.map_err(|error| self.failed(error))
    }

    pub(crate) async fn read(&self, kind: Kind, of: &str, input: &Input) -> zcp::Result<Contents> {
        let Uri(uri) = Uri::from_call(input).await?;
        let client = self.client_for(kind, of).await?;
        let read = client.read(uri).await.map_err(|error| self.failed(error))?;
        Ok(Contents::Parts(read.contents))
    }

    /// Values for an argument; none if the server cannot say.
    pub(crate) async fn complete(&self, of: &Reference, typed: &Typed) -> Vec<String> {
        let Ok(client) = self.client().await else { return vec![] };
        let told = client.complete(of, &typed.argument, &typed.value, &typed.others).await;
        told.map(|completion| completion.values).unwrap_or_default()
    }

    /// What the server refuses is refused here. A lost connection is looked into at once.
    fn failed(&self, error: zcp_client::Error) -> CallError {
        match error {
            zcp_client::Error::Refused(why) => CallError::Rpc(Box::new(why)),
            error => {
                if matches!(error, zcp_client::Error::Lost(_)) {
                    self.doubt();
                }
                // Why is for the log: it may name the server's command line and address, and what it
                // wrote to standard error about calls of others.
                tracing::warn!("a call of the mounted server `{}` failed: {error}", self.name());
                let what = match error {
                    zcp_client::Error::Lost(_) => "went away: try again",
                    zcp_client::Error::Late(_) => "did not answer in time",
                    zcp_client::Error::Invalid(_) => "gave an answer that is not valid",
                    _ => "could not be called",
                };
                CallError::new(format!("the mounted server `{}` {what}", self.name()))
            }
        }
    }
}
