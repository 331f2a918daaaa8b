//! Calls of a mounted server, made for a call of the server it is mounted in.

use crate::{
    mount_log::cut,
    offers::Kind,
    upstream::{ANSWER_TIMEOUT, Upstream},
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, sync::Arc};
use tokio::time::timeout;
use zcp::{CallError, Contents, Ctx, FromCall, Input, Output, Typed, Uri};
use zcp_client::{
    Client, Failure,
    wire::{
        RpcError,
        error::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND},
        mcp::{completion::Reference, prompts::GetPromptResult},
    },
};

/// Maximum length of the message of a server's error, in characters.
const LONGEST_REFUSAL: usize = 1000;

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
        let _calling = self.calling();
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
        let _calling = self.calling();
        client.prompt(name, args).await.map_err(|error| self.failed(error))
    }

    pub(crate) async fn read(&self, kind: Kind, of: &str, input: &Input) -> zcp::Result<Contents> {
        let Uri(uri) = Uri::from_call(input).await?;
        let client = self.client_for(kind, of).await?;
        let _calling = self.calling();
        let read = client.read(uri).await.map_err(|error| self.failed(error))?;
        Ok(Contents::Parts(read.contents))
    }

    /// Values for an argument of something that was accepted; none if the server cannot say.
    pub(crate) async fn complete(&self, of: &Reference, typed: &Typed) -> Vec<String> {
        let client = match of {
            Reference::Prompt { name } => self.client_for(Kind::Prompt, name).await,
            Reference::Resource { uri } => self.client_for(Kind::Template, uri).await,
            _ => return vec![],
        };
        let Ok(client) = client else { return vec![] };
        let _calling = self.calling();
        let told = client.complete(of, &typed.argument, &typed.value, &typed.others).await;
        told.map(|completion| completion.values).unwrap_or_default()
    }

    /// A refusal of the server, in its words alone. Other codes make a client do something, such as
    /// opening a page, and details are read by programs: both are for who speaks for itself.
    fn refused(&self, why: &RpcError) -> CallError {
        let message = cut(&why.message, LONGEST_REFUSAL);
        match why.code {
            // Each revision has a code of its own for it.
            RESOURCE_NOT_FOUND => CallError::NotFound(message),
            INVALID_PARAMS | METHOD_NOT_FOUND | INTERNAL_ERROR => {
                CallError::Rpc(Box::new(RpcError { code: why.code, message, data: None }))
            }
            code => CallError::new(format!(
                "the mounted server `{}` refused this (error {code}): {message}",
                self.name()
            )),
        }
    }

    /// What the server refuses is refused here. A lost connection is looked into at once.
    fn failed(&self, error: zcp_client::Error) -> CallError {
        match error {
            zcp_client::Error::Refused(why) => self.refused(&why),
            error => {
                let is_long = matches!(error, zcp_client::Error::Lost(Failure::TooLong(_)));
                if matches!(error, zcp_client::Error::Lost(_)) && !is_long {
                    self.doubt();
                }
                // Why is for the log: it may name the server's command line and address, and what it
                // wrote to standard error about calls of others.
                self.log.warn(&format!(
                    "a call of the mounted server `{}` failed: {error}",
                    self.name()
                ));
                let what = match error {
                    zcp_client::Error::Lost(_) if is_long => "gave an answer that is too long",
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
