//! Many servers as one: each under a label of ours, and none the others depend on.

use crate::{
    client::Client,
    client::tool_call::Call,
    error::{Error, Result},
};
use futures_util::future::{BoxFuture, join_all};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{collections::BTreeMap, fmt, future::Future};
use tokio::sync::OnceCell;
use zcp_wire::mcp::{
    prompts::{GetPromptResult, Prompt},
    resources::{ReadResourceResult, Resource, ResourceTemplate},
    tools::Tool,
};

/// What stands between a label and a name.
const BETWEEN: &str = "__";

type Connect = Box<dyn Fn() -> BoxFuture<'static, Result<Client>> + Send + Sync>;

/// Many servers as one. Tools and prompts are named `label__name`: labels are ours to give, so two
/// servers never offer the same name. A server that cannot be reached is tried again when it is
/// next needed; the others do not notice.
///
/// ```no_run
/// use zcp_client::{Client, Group, Process};
///
/// # async fn example() -> Result<(), zcp_client::Error> {
/// let group = Group::default()
///     .member("time", || Client::connect(Process::new("uvx").arg("mcp-server-time")))?
///     .member("git", || Client::connect(Process::new("uvx").arg("mcp-server-git")))?;
/// for tool in group.list_tools().await.items {
///     println!("{}", tool.name);
/// }
/// let now: String = group.call("time__get_current_time", serde_json::json!({})).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Group {
    members: Vec<Member>,
}

struct Member {
    label: String,
    connect: Connect,
    client: OnceCell<Client>,
}

/// What the members of a group list.
#[derive(Debug)]
#[non_exhaustive]
pub struct Listing<T> {
    /// All items, member by member.
    pub items: Vec<T>,
    /// Members whose items are missing, and why.
    pub missing: Vec<(String, Error)>,
}

impl Group {
    /// One more server, and how it is reached. Its label is of letters, digits and `-`, and no
    /// other member's.
    pub fn member<F>(
        mut self,
        label: impl Into<String>,
        connect: impl Fn() -> F + Send + Sync + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = Result<Client>> + Send + 'static,
    {
        let label = label.into();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if label.is_empty() || !label.chars().all(is_plain) {
            return Err(Error::Unable(format!("`{label}` is no label: use letters, digits and -")));
        }
        if self.members.iter().any(|member| member.label == label) {
            return Err(Error::Unable(format!("there is a member `{label}` already")));
        }
        let connect: Connect = Box::new(move || Box::pin(connect()));
        self.members.push(Member { label, connect, client: OnceCell::new() });
        Ok(self)
    }

    /// The client of a member.
    pub async fn client(&self, label: &str) -> Result<&Client> {
        let member = self.members.iter().find(|member| member.label == label);
        let member = member.ok_or_else(|| {
            let known: Vec<_> = self.members.iter().map(|member| &*member.label).collect();
            Error::Unable(format!("there is no member `{label}`; there are: {}", known.join(", ")))
        })?;
        member.client().await
    }

    /// All tools, with labels before their names.
    pub async fn list_tools(&self) -> Listing<Tool> {
        self.list(async |client, label| {
            let mut tools = client.list_tools().await?;
            tools.iter_mut().for_each(|tool| tool.name = labelled(label, &tool.name));
            Ok(tools)
        })
        .await
    }

    /// All prompts, with labels before their names.
    pub async fn list_prompts(&self) -> Listing<Prompt> {
        self.list(async |client, label| {
            let mut prompts = client.list_prompts().await?;
            prompts.iter_mut().for_each(|prompt| prompt.name = labelled(label, &prompt.name));
            Ok(prompts)
        })
        .await
    }

    /// All resources, with the labels of their members: two may have the same URI.
    pub async fn list_resources(&self) -> Listing<(String, Resource)> {
        self.list(async |client, label| {
            let resources = client.list_resources().await?;
            Ok(resources.into_iter().map(|one| (label.to_owned(), one)).collect())
        })
        .await
    }

    /// All families of resources, with the labels of their members.
    pub async fn list_templates(&self) -> Listing<(String, ResourceTemplate)> {
        self.list(async |client, label| {
            let templates = client.list_templates().await?;
            Ok(templates.into_iter().map(|one| (label.to_owned(), one)).collect())
        })
        .await
    }

    /// A tool to be called, by its name in the group.
    pub async fn tool(&self, name: &str) -> Result<Call<'_>> {
        let (label, name) = parted(name)?;
        Ok(self.client(label).await?.tool(name))
    }

    /// Calls a tool by its name in the group, and reads its result as a `T`.
    pub async fn call<T: DeserializeOwned>(&self, name: &str, args: Value) -> Result<T> {
        self.tool(name).await?.args(args).get().await
    }

    /// Gets a prompt by its name in the group, filled.
    pub async fn prompt(
        &self,
        name: &str,
        args: BTreeMap<String, String>,
    ) -> Result<GetPromptResult> {
        let (label, name) = parted(name)?;
        self.client(label).await?.prompt(name, args).await
    }

    /// Reads a resource of a member.
    pub async fn read(&self, label: &str, uri: &str) -> Result<ReadResourceResult> {
        self.client(label).await?.read(uri).await
    }

    /// Ends all conversations, and waits until nothing is left of them.
    pub async fn close(self) {
        let clients = self.members.into_iter().filter_map(|member| member.client.into_inner());
        join_all(clients.map(Client::close)).await;
    }

    /// Lists at all members at once.
    async fn list<T>(&self, list: impl AsyncFn(&Client, &str) -> Result<Vec<T>>) -> Listing<T> {
        let lists = join_all(self.members.iter().map(async |member| {
            let listed = async { list(member.client().await?, &member.label).await };
            (member.label.clone(), listed.await)
        }));
        let mut all = Listing { items: vec![], missing: vec![] };
        for (label, listed) in lists.await {
            match listed {
                Ok(items) => all.items.extend(items),
                Err(error) => all.missing.push((label, error)),
            }
        }
        all
    }
}

impl Member {
    /// The member's client; connected if it is not yet, and tried again if that failed.
    async fn client(&self) -> Result<&Client> {
        self.client.get_or_try_init(|| (self.connect)()).await
    }
}

fn labelled(label: &str, name: &str) -> String {
    format!("{label}{BETWEEN}{name}")
}

fn parted(name: &str) -> Result<(&str, &str)> {
    name.split_once(BETWEEN)
        .ok_or_else(|| Error::Unable(format!("`{name}` has no label: write LABEL{BETWEEN}NAME")))
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.members.iter().map(|member| &member.label);
        f.debug_list().entries(labels).finish()
    }
}
