//! Authorization: how a client comes by a token, keeps it fresh, and shows it.

mod challenge;
mod dpop;
mod grant;
mod loopback;
mod metadata;
mod registration;
mod sign;
mod tokens;
mod vault;

pub use registration::Registration;
pub use reqwest::Url;
pub use sign::SigningKey;
pub use vault::Vault;

use crate::{
    error::{Error, Result},
    support::{deadline::Pause, url_policy},
};
use ::http::Method;
use challenge::Challenge;
use dpop::Proofs;
use grant::{Begin, Begun};
use reqwest::{RequestBuilder, Response};
use std::{fmt, future::Future, sync::Arc};
use tokens::{Asked, Shared};

/// How often one request may lead to an authorization.
const ATTEMPTS: usize = 3;

/// How a client comes by a token.
///
/// ```
/// use zcp_client::{Http, OAuth};
///
/// # fn main() -> Result<(), zcp_client::Error> {
/// let oauth = OAuth::client_credentials("my-client", "secret");
/// let server = Http::new("https://example.com/mcp")?.oauth(oauth);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct OAuth {
    shared: Arc<Shared>,
}

/// What a token is asked for with.
#[derive(Clone)]
enum Grant {
    /// The user's consent.
    User { begin: Begin, known: Registered },
    /// The client's own credentials.
    Credentials(Registration),
    /// A statement of somebody the authorization server trusts.
    Assertion { client: Registration, assertion: String },
    /// The user's sign-in at their company, by way of its identity provider.
    Enterprise { client: Registration, identity: Identity },
}

/// How a client is known to authorization servers.
#[derive(Clone, Default)]
struct Registered {
    beforehand: Option<Registration>,
    /// The address of a document that describes it.
    document: Option<String>,
    name: String,
}

/// A user's sign-in at an identity provider.
#[derive(Clone)]
pub struct Identity {
    /// Where the provider gives tokens.
    pub token_endpoint: String,
    /// What the provider knows this client by.
    pub client_id: String,
    /// The sign-in.
    pub id_token: String,
}

impl OAuth {
    /// By the user's consent. `visit` shows the page of an address to the user, and gives the
    /// address they are sent back to, which begins with `redirect`.
    pub fn user<F>(redirect: &str, visit: impl Fn(Url) -> F + Send + Sync + 'static) -> Result<Self>
    where
        F: Future<Output = Result<Url, String>> + Send + 'static,
    {
        let redirect = Url::parse(redirect)
            .map_err(|error| Error::Unable(format!("`{redirect}` is no URL: {error}")))?;
        let visit = Arc::new(visit);
        Ok(Self::by_user(Arc::new(move |_| {
            let (redirect, visit) = (redirect.clone(), visit.clone());
            let visit = Box::new(move |page| Box::pin(visit(page)) as _);
            Box::pin(std::future::ready(Ok(Begun { redirect, visit })))
        })))
    }

    /// By the user's consent, in a browser on this machine: `show` opens the page of an address,
    /// or tells the user to. They are sent back to a port of this machine.
    pub fn browser(show: impl Fn(&Url) + Send + Sync + 'static) -> Self {
        let show: loopback::Show = Arc::new(show);
        Self::by_user(Arc::new(move |last| Box::pin(loopback::begin(last, show.clone()))))
    }

    /// By a token that was kept when the user logged in. Without one, nobody is asked: the error
    /// says `otherwise`.
    pub fn logged_in(vault: Vault, otherwise: impl Into<String>) -> Self {
        let otherwise = otherwise.into();
        Self::by_user(Arc::new(move |_| Box::pin(std::future::ready(Err(otherwise.clone())))))
            .kept_in(vault)
    }

    fn by_user(begin: Begin) -> Self {
        let known = Registered { name: "zcp".into(), ..Registered::default() };
        Self::new(Grant::User { begin, known })
    }

    /// By the client's own id and secret.
    pub fn client_credentials(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Self::new(Grant::Credentials(Registration::secret(id, secret)))
    }

    /// By the client's own id and key.
    pub fn client_key(id: impl Into<String>, key: SigningKey) -> Self {
        Self::new(Grant::Credentials(Registration::key(id, key)))
    }

    /// By a statement the authorization server trusts, such as a workload's identity.
    pub fn assertion(client: Registration, assertion: impl Into<String>) -> Self {
        Self::new(Grant::Assertion { client, assertion: assertion.into() })
    }

    /// By the user's sign-in at their company.
    pub fn enterprise(client: Registration, identity: Identity) -> Self {
        Self::new(Grant::Enterprise { client, identity })
    }

    fn new(grant: Grant) -> Self {
        Self { shared: Arc::new(Shared::new(grant)) }
    }

    /// A client the authorization server knows already.
    #[must_use]
    pub fn registered(self, client: Registration) -> Self {
        self.change(|shared| {
            if let Grant::User { known, .. } = &mut shared.grant {
                known.beforehand = Some(client);
            }
        })
    }

    /// The https address of a document that describes this client.
    #[must_use]
    pub fn described_at(self, document: impl Into<String>) -> Self {
        self.change(|shared| {
            if let Grant::User { known, .. } = &mut shared.grant {
                known.document = Some(document.into());
            }
        })
    }

    /// Shows credentials that were given beforehand to this issuer, and to no other. Without this,
    /// they are for the first issuer that the server names; a [`Vault`] keeps which one that was.
    #[must_use]
    pub fn issuer(self, issuer: impl Into<String>) -> Self {
        self.change(|shared| shared.issuer = Some(issuer.into()))
    }

    /// What the client is called where it registers.
    #[must_use]
    pub fn name(self, name: impl Into<String>) -> Self {
        self.change(|shared| {
            if let Grant::User { known, .. } = &mut shared.grant {
                known.name = name.into();
            }
        })
    }

    /// Asks for these scopes, and not for those a server names.
    #[must_use]
    pub fn scopes<S: Into<String>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.change(|shared| {
            shared.scopes = Some(scopes.into_iter().map(Into::into).collect());
        })
    }

    /// Proves with every request that the token is its own.
    #[must_use]
    pub fn dpop(self) -> Self {
        self.change(|shared| shared.proofs = Some(Proofs::default()))
    }

    /// Keeps the user's tokens, and what authorization servers know this client by, between runs.
    /// Tokens that need proofs are not kept: their key is not.
    #[must_use]
    pub fn kept_in(self, vault: Vault) -> Self {
        self.change(|shared| shared.vault = Some(vault))
    }

    /// Uses no token that was kept: the user logs in anew, and what was kept is given back.
    #[must_use]
    pub fn anew(self) -> Self {
        self.change(|shared| shared.is_anew = true)
    }

    /// Gives the token for a server back, and forgets it. False when there was none.
    pub async fn log_out(&self, server: &str) -> Result<bool> {
        let server = address(server).map_err(Error::Unable)?;
        self.shared.forget(&server).await.map_err(Error::Unable)
    }

    /// Whether there is a token for a server.
    pub fn is_logged_in(&self, server: &str) -> bool {
        address(server).is_ok_and(|server| self.shared.has_token(&server))
    }

    /// Changes when somebody else may have logged in.
    pub(crate) fn principal(&self) -> u64 {
        self.shared.logins()
    }

    fn change(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            change(shared);
        }
        self
    }

    /// Sends a request with the token that is there, if there is one: nobody is asked for another.
    pub(crate) async fn send_as_is(
        &self,
        server: &Url,
        method: &Method,
        make: impl Fn() -> RequestBuilder,
    ) -> Result<Response, Refusal> {
        let token = url_policy::encrypted(server.as_str()).ok().and_then(|_| self.shared.current());
        let request = self.shared.shown(make(), token.as_deref(), method, server);
        request.send().await.map_err(Refusal::Unsent)
    }

    /// Sends a request with a token, and gets one if the server asks for it. Whatever that takes is
    /// a pause: it is not the server that is slow.
    pub(crate) async fn send(
        &self,
        server: &Url,
        method: &Method,
        pause: &Pause,
        make: impl Fn() -> RequestBuilder,
    ) -> Result<Response, Refusal> {
        if let Err(why) = url_policy::encrypted(server.as_str()) {
            // No token goes there. If it wants none, that is no harm.
            let response = make().send().await.map_err(Refusal::Unsent)?;
            return match Challenge::of(&response) {
                Some(_) => Err(Refusal::Denied(why)),
                None => Ok(response),
            };
        }
        self.shared.belongs_to(server).map_err(Refusal::Denied)?;
        for attempt in 0.. {
            let token = {
                let _user = pause.hold();
                self.shared.fresh(server).await
            };
            let request = self.shared.shown(make(), token.as_deref(), method, server);
            let response = request.send().await.map_err(Refusal::Unsent)?;
            let Some(challenge) = Challenge::of(&response) else {
                token.inspect(|token| token.worked());
                return Ok(response);
            };
            if let Some(proofs) = &self.shared.proofs
                && proofs.learn(response.url(), response.headers())
                && challenge.wants_nonce()
                && attempt < ATTEMPTS
            {
                continue;
            }
            if attempt == ATTEMPTS {
                return Ok(response);
            }
            let _user = pause.hold();
            let asked = Asked {
                server,
                challenge: &challenge,
                status: response.status(),
                from: response.remote_addr(),
            };
            let got = self.shared.authorize(&asked, token.as_ref()).await;
            got.map_err(Refusal::Denied)?;
        }
        unreachable!("the loop ends by a return")
    }
}

/// The URL of a server, as tokens know it: that of a WebSocket has the scheme of HTTP.
pub(crate) fn address(text: &str) -> Result<Url, String> {
    let mut url = Url::parse(text).map_err(|error| format!("`{text}` is no URL: {error}"))?;
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        _ => return Ok(url),
    };
    url.set_scheme(scheme).map_err(|()| format!("`{text}` has no host"))?;
    Ok(url)
}

/// Why a request has no answer.
pub(crate) enum Refusal {
    /// It could not be sent.
    Unsent(reqwest::Error),
    /// No token could be had.
    Denied(String),
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuth").finish_non_exhaustive()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}
