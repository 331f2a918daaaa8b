//! Authorization: how a client comes by a token, keeps it fresh, and shows it.

mod challenge;
mod dpop;
mod grant;
mod metadata;
mod register;
mod sign;

pub use register::Registration;
pub use sign::SigningKey;

use crate::error::{Error, Result};
use ::http::{HeaderValue, Method, header::AUTHORIZATION};
use challenge::Challenge;
use dpop::Proofs;
use futures_util::future::BoxFuture;
use grant::Token;
use metadata::Found;
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How often one request may lead to an authorization.
const ATTEMPTS: usize = 3;
/// How long an authorization server may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sends the user to a page, and gives the address they come back to.
pub(crate) type Visit = Arc<dyn Fn(Url) -> BoxFuture<'static, Result<Url, String>> + Send + Sync>;

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

struct Shared {
    client: Client,
    grant: Grant,
    scopes: Option<BTreeSet<String>>,
    proofs: Option<Proofs>,
    // A std mutex: never held across an await.
    state: Mutex<State>,
    /// Held while somebody gets a token: the others wait for it.
    turn: tokio::sync::Mutex<()>,
}

/// What is known by now.
#[derive(Default)]
struct State {
    token: Option<Arc<Token>>,
    /// Clients that were registered, by the issuer they are known to.
    registered: BTreeMap<String, Registration>,
    /// All scopes that were ever asked for.
    asked: BTreeSet<String>,
    /// The server the token is for.
    server: Option<Url>,
    /// Who was first shown credentials that were given beforehand.
    trusted: Option<String>,
}

/// What a token is asked for with.
#[derive(Clone)]
enum Grant {
    /// The user's consent.
    User { visit: Visit, redirect: Url, known: Registered },
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
        let visit: Visit = Arc::new(move |url| Box::pin(visit(url)));
        let known = Registered { name: "zcp".into(), ..Registered::default() };
        Ok(Self::new(Grant::User { visit, redirect, known }))
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
        let client = Client::builder().redirect(redirect::Policy::none()).timeout(PATIENCE);
        Self {
            shared: Arc::new(Shared {
                client: client.build().unwrap_or_default(),
                grant,
                scopes: None,
                proofs: None,
                state: Mutex::default(),
                turn: tokio::sync::Mutex::default(),
            }),
        }
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

    fn change(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            change(shared);
        }
        self
    }

    /// Sends a request with a token, and gets one if the server asks for it.
    pub(crate) async fn send(
        &self,
        server: &Url,
        method: &Method,
        make: impl Fn() -> RequestBuilder,
    ) -> Result<Response, Refusal> {
        metadata::safe(server.as_str()).map_err(Refusal::Denied)?;
        self.shared.belongs_to(server).map_err(Refusal::Denied)?;
        for attempt in 0.. {
            let token = self.shared.fresh().await;
            let request = self.shared.shown(make(), token.as_deref(), method, server);
            let response = request.send().await.map_err(Refusal::Unsent)?;
            let Some(challenge) = Challenge::of(&response) else { return Ok(response) };
            if let Some(proofs) = &self.shared.proofs
                && proofs.learn(&response)
                && challenge.wants_nonce()
                && attempt < ATTEMPTS
            {
                continue;
            }
            if attempt == ATTEMPTS {
                return Ok(response);
            }
            let status = response.status();
            self.shared
                .authorize(server, &challenge, status, token.as_ref())
                .await
                .map_err(Refusal::Denied)?;
        }
        unreachable!("the loop ends by a return")
    }
}

/// Why a request has no answer.
pub(crate) enum Refusal {
    /// It could not be sent.
    Unsent(reqwest::Error),
    /// No token could be had.
    Denied(String),
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token is for one server, and is shown to no other.
    fn belongs_to(&self, server: &Url) -> Result<(), String> {
        let mut state = self.lock();
        match state.server.get_or_insert_with(|| server.clone()) == server {
            true => Ok(()),
            false => Err("this way to a token is another server's: make one for each".into()),
        }
    }

    /// Credentials that were given beforehand are shown to the first who gives tokens for the
    /// server, and to nobody whom the server names later.
    fn trusts(&self, issuer: &str) -> Result<(), String> {
        let is_given = match &self.grant {
            Grant::User { known, .. } => known.beforehand.is_some(),
            _ => true,
        };
        let mut state = self.lock();
        let trusted = state.trusted.get_or_insert_with(|| issuer.to_owned());
        match !is_given || trusted == issuer {
            true => Ok(()),
            false => Err(format!("`{issuer}` is not who the credentials are for: `{trusted}`")),
        }
    }

    /// The token, renewed when its time is over.
    async fn fresh(&self) -> Option<Arc<Token>> {
        let token = self.lock().token.clone()?;
        if !token.is_over() {
            return Some(token);
        }
        let _turn = self.turn.lock().await;
        let now = self.lock().token.clone()?;
        if !now.is_over() {
            return Some(now);
        }
        match self.renew(&now).await {
            Ok(renewed) => Some(self.keep(renewed)),
            // The server will say what it wants.
            Err(_) => Some(now),
        }
    }

    fn keep(&self, token: Token) -> Arc<Token> {
        let token = Arc::new(token);
        self.lock().token = Some(token.clone());
        token
    }

    fn shown(
        &self,
        request: RequestBuilder,
        token: Option<&Token>,
        method: &Method,
        server: &Url,
    ) -> RequestBuilder {
        let Some(token) = token else { return request };
        let mut value = HeaderValue::from_str(&format!("{} {}", token.kind(), token.access))
            .unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        value.set_sensitive(true);
        let request = request.header(AUTHORIZATION, value);
        match &self.proofs {
            Some(proofs) if token.is_bound => {
                request.header("DPoP", proofs.make(method, server, Some(&token.access)))
            }
            _ => request,
        }
    }

    /// Gets a token that will do, unless somebody else has got one meanwhile.
    async fn authorize(
        &self,
        server: &Url,
        challenge: &Challenge,
        status: StatusCode,
        shown: Option<&Arc<Token>>,
    ) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        let now = self.lock().token.clone();
        let is_new = match (&now, shown) {
            (Some(now), Some(shown)) => !Arc::ptr_eq(now, shown),
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_new {
            return Ok(());
        }
        let found = metadata::find(&self.client, server, challenge).await?;
        self.trusts(&found.issuer)?;
        // A token of another issuer, or with too few rights, cannot be renewed into one that will do.
        if let Some(token) = &now
            && status == StatusCode::UNAUTHORIZED
            && token.issuer == found.issuer
            && let Ok(renewed) = self.renew(token).await
        {
            self.keep(renewed);
            return Ok(());
        }
        let scopes = self.wanted(&found, challenge);
        let token = self.ask(&found, &scopes).await?;
        self.keep(token);
        Ok(())
    }

    /// Which scopes to ask for: what was ever asked for, and what the server names now.
    fn wanted(&self, found: &Found, challenge: &Challenge) -> BTreeSet<String> {
        let named = match (&self.scopes, challenge.scopes(), &found.scopes) {
            (Some(own), ..) => own.clone(),
            (None, Some(scopes), _) => scopes,
            (None, None, Some(scopes)) => scopes.clone(),
            (None, None, None) => BTreeSet::new(),
        };
        let mut state = self.lock();
        state.asked.extend(named);
        let mut wanted = state.asked.clone();
        if let Grant::User { .. } = self.grant
            && found.server.scopes_supported.iter().any(|scope| scope == "offline_access")
        {
            wanted.insert("offline_access".into());
        }
        wanted
    }
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
