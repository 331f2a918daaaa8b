//! Plays cases on the real server of a folder, with a user whose answers are in the case.

use crate::{
    cases::{Case, Got, text_in, text_of},
    target::{self, Way},
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, VecDeque},
    error::Error,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use zcp::wire::sync::lock;
use zcp_client::{
    Client, Error as Failed,
    oauth::Url,
    wire::mcp::{
        elicitation::{Action, ElicitResult},
        roots::Root,
    },
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long a tool may say nothing; scripts have their own limits, which are shorter.
const QUIET: Duration = Duration::from_secs(600);

/// The server of a folder, for cases that are played one after another.
pub(super) struct Player {
    folder: PathBuf,
    user: Arc<Mutex<User>>,
    /// One for each set of roots: a client says them when it comes.
    clients: Vec<(Option<Vec<PathBuf>>, Client)>,
}

/// Who is asked, and what is still to be said.
#[derive(Default)]
struct User {
    answers: VecDeque<ElicitResult>,
    /// Questions there was no answer for.
    puzzled: Vec<String>,
}

impl Player {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let folder =
            folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, user: Arc::default(), clients: vec![] })
    }

    /// What comes of a case, and what is wrong with its answers.
    pub(super) async fn play(&mut self, case: &Case) -> Result<(Got, Vec<String>)> {
        let user = self.user.clone();
        let client = self.client(case.roots.as_ref()).await?;
        *lock(&user) = User { answers: case.answers.clone().into(), puzzled: vec![] };
        let got = match called(client, case).await {
            Ok(got) => got,
            Err(Failed::Refused(error)) => Got {
                text: error.message,
                structured: None,
                is_error: true,
                code: Some(error.code),
            },
            Err(Failed::Tool(result)) => Got::tool(&result),
            Err(error) => return Err(error.into()),
        };
        let user = std::mem::take(&mut *lock(&user));
        let mut wrong: Vec<_> = user
            .puzzled
            .iter()
            .map(|asked| format!("it asked `{asked}`, and `answers` has none for that"))
            .collect();
        if !user.answers.is_empty() {
            wrong.push(format!("it did not ask for {} of the `answers`", user.answers.len()));
        }
        Ok((got, wrong))
    }

    pub(super) async fn close(self) {
        for (_, client) in self.clients {
            client.close().await;
        }
    }

    async fn client(&mut self, roots: Option<&Vec<PathBuf>>) -> Result<&Client> {
        let known = self.clients.iter().position(|(known, _)| known.as_ref() == roots);
        let at = match known {
            Some(at) => at,
            None => {
                let client = self.connect(roots).await?;
                self.clients.push((roots.cloned(), client));
                self.clients.len() - 1
            }
        };
        Ok(&self.clients[at].1)
    }

    async fn connect(&self, roots: Option<&Vec<PathBuf>>) -> Result<Client> {
        let user = self.user.clone();
        let mut client = Client::builder("zcp", env!("CARGO_PKG_VERSION"))
            .timeout(QUIET)
            .elicit(move |question| {
                let said = lock(&user).say(question.message);
                async { Ok(said) }
            })
            .visits()
            .tasks();
        if let Some(roots) = roots {
            let all = roots.iter().map(|root| self.root(root)).collect::<Result<Vec<_>>>()?;
            client = client.roots(all);
        }
        let path = self.folder.to_str().ok_or("the folder's name is not UTF-8: rename it")?;
        Ok(target::connect(client, Way::Process(target::folder(path)?)).await?)
    }

    fn root(&self, path: &Path) -> Result<Root> {
        let whole = self.folder.join(path);
        let uri = Url::from_file_path(&whole)
            .map_err(|()| format!("`{}` is no folder for `roots`", path.display()))?;
        Ok(Root { uri: uri.to_string(), ..Root::default() })
    }
}

impl User {
    fn say(&mut self, question: String) -> ElicitResult {
        self.answers.pop_front().unwrap_or_else(|| {
            self.puzzled.push(question);
            ElicitResult { action: Action::Cancel, content: None }
        })
    }
}

async fn called(client: &Client, case: &Case) -> zcp_client::Result<Got> {
    if let Some(tool) = &case.tool {
        let call = client.tool(tool).args(Value::Object(case.args.clone()));
        return Ok(Got::tool(&call.send().await?));
    }
    if let Some(prompt) = &case.prompt {
        let filled = case.args.iter().map(|(name, value)| match value {
            Value::String(text) => (name.clone(), text.clone()),
            value => (name.clone(), value.to_string()),
        });
        let result = client.prompt(prompt, filled.collect::<BTreeMap<_, _>>()).await?;
        let said: Vec<_> = result.messages.into_iter().map(|message| message.content).collect();
        return Ok(Got { text: text_of(&said), ..Got::default() });
    }
    let result = client.read(case.resource.clone().unwrap_or_default()).await?;
    let said: Vec<_> = result.contents.iter().map(text_in).collect();
    Ok(Got { text: said.join("\n"), ..Got::default() })
}
