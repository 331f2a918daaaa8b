//! The token of a server: got, kept, renewed, shown.

use super::{
    Grant,
    challenge::Challenge,
    dpop::Proofs,
    grant::Token,
    metadata::{self, Found},
    register::Made,
    vault::{Kept, Vault},
};
use crate::net::Net;
use ::http::{HeaderValue, Method, header::AUTHORIZATION};
use reqwest::{RequestBuilder, StatusCode, Url};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::OwnedMutexGuard;
use tokio_util::task::TaskTracker;

/// What all that is done with one server's token has in common.
pub(super) struct Shared {
    pub(super) net: Net,
    pub(super) grant: Grant,
    pub(super) scopes: Option<BTreeSet<String>>,
    pub(super) proofs: Option<Proofs>,
    pub(super) vault: Option<Vault>,
    // A std mutex: never held across an await.
    state: Mutex<State>,
    /// Held while somebody gets a token: the others wait for it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Renewals, which go on though nobody may wait for them any more.
    tasks: TaskTracker,
}

/// What is known by now.
#[derive(Default)]
pub(super) struct State {
    token: Option<Arc<Token>>,
    /// Clients that were registered, by the issuer they are known to.
    pub(super) made: BTreeMap<String, Made>,
    /// All scopes that were ever asked for.
    asked: BTreeSet<String>,
    /// The server the token is for.
    server: Option<Url>,
    /// Who was first shown credentials that were given beforehand.
    trusted: Option<String>,
    /// How often a token was got in another way than by renewal.
    logins: u64,
}

/// The turn to get a token: of this client, and of all that share its vault.
struct Turn {
    _here: OwnedMutexGuard<()>,
    _everywhere: Option<File>,
}

impl Shared {
    pub(super) fn new(grant: Grant) -> Self {
        Self {
            net: Net::guarded(),
            grant,
            scopes: None,
            proofs: None,
            vault: None,
            state: Mutex::default(),
            turn: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> Option<Arc<Token>> {
        self.lock().token.clone()
    }

    pub(super) fn logins(&self) -> u64 {
        self.lock().logins
    }

    /// A token is for one server, and is shown to no other.
    pub(super) fn belongs_to(&self, server: &Url) -> Result<(), String> {
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

    async fn turn(&self, server: &Url) -> Turn {
        let here = self.turn.clone().lock_owned().await;
        let everywhere = match &self.vault {
            Some(vault) => vault.lock(Kept::Token(server.as_str())).await,
            None => return Turn { _here: here, _everywhere: None },
        };
        let everywhere = everywhere.inspect_err(|error| {
            tracing::warn!("tokens are not shared with other programs: {error}");
        });
        Turn { _here: here, _everywhere: everywhere.ok() }
    }

    /// The token, renewed when its time is over.
    pub(super) async fn fresh(self: &Arc<Self>, server: &Url) -> Option<Arc<Token>> {
        let token = self.current().or_else(|| self.adopt(server, None))?;
        if !token.is_over() {
            return Some(token);
        }
        let turn = self.turn(server).await;
        let now = self.latest(server, &token);
        if !now.is_over() {
            return Some(now);
        }
        // If it cannot be renewed, the server will say what it wants.
        let (_, renewed) = self.spend(turn, server, now.clone()).await;
        Some(renewed.unwrap_or(now))
    }

    /// The token as others may have renewed it meanwhile.
    fn latest(&self, server: &Url, token: &Arc<Token>) -> Arc<Token> {
        let here = self.current().filter(|here| !Arc::ptr_eq(here, token));
        here.or_else(|| self.adopt(server, Some(token))).unwrap_or_else(|| token.clone())
    }

    /// Takes the token from the vault, if it is another.
    fn adopt(&self, server: &Url, known: Option<&Token>) -> Option<Arc<Token>> {
        let vault = self.vault.as_ref().filter(|_| matches!(self.grant, Grant::User { .. }))?;
        let kept: Token = vault.load(Kept::Token(server.as_str()))?;
        if known.is_some_and(|known| known.access == kept.access) {
            return None;
        }
        let kept = Arc::new(kept);
        let mut state = self.lock();
        state.token = Some(kept.clone());
        // It may be another user's.
        state.logins += u64::from(known.is_some());
        Some(kept)
    }

    /// Keeps a token, here and in the vault.
    fn keep(&self, server: &Url, token: Token) -> Arc<Token> {
        let token = Arc::new(token);
        self.lock().token = Some(token.clone());
        if let (Some(vault), Grant::User { .. }, false) = (&self.vault, &self.grant, token.is_bound)
            && let Err(error) = vault.save(Kept::Token(server.as_str()), &*token)
        {
            tracing::warn!("the token is not kept: {error}");
        }
        token
    }

    /// Has a token renewed, once: this goes on though nobody may wait for it any more, because
    /// what is given for it is given once.
    async fn spend(
        self: &Arc<Self>,
        turn: Turn,
        server: &Url,
        token: Arc<Token>,
    ) -> (Option<Turn>, Option<Arc<Token>>) {
        let (shared, server) = (self.clone(), server.clone());
        let renewal = self.tasks.spawn(async move {
            let renewed = match shared.renew(&token).await {
                Ok(renewed) => Some(shared.keep(&server, renewed)),
                Err(none) => {
                    tracing::debug!("a token is not renewed: {}", none.why);
                    if none.is_final {
                        shared.keep(&server, token.without_renewal());
                    }
                    None
                }
            };
            (Some(turn), renewed)
        });
        renewal.await.unwrap_or((None, None))
    }

    pub(super) fn has_token(&self, server: &Url) -> bool {
        self.current().or_else(|| self.adopt(server, None)).is_some()
    }

    /// Forgets the token of a server, and gives it back to whoever gave it.
    pub(super) async fn forget(&self, server: &Url) -> Result<bool, String> {
        let _turn = self.turn(server).await;
        let kept = self.vault.as_ref().and_then(|vault| vault.load(Kept::Token(server.as_str())));
        let token = kept.map(Arc::new).or_else(|| self.current());
        let Some(token) = token else { return Ok(false) };
        self.lock().token = None;
        if let Some(vault) = &self.vault {
            vault.remove(Kept::Token(server.as_str())).map_err(|error| error.to_string())?;
        }
        self.net.begin_at(server).await;
        self.revoke(&token).await.map(|()| true)
    }

    pub(super) fn shown(
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
    pub(super) async fn authorize(
        self: &Arc<Self>,
        server: &Url,
        challenge: &Challenge,
        status: StatusCode,
        shown: Option<&Arc<Token>>,
    ) -> Result<(), String> {
        let mut turn = Some(self.turn(server).await);
        let now = match shown {
            Some(shown) => Some(self.latest(server, shown)),
            None => self.current().or_else(|| self.adopt(server, None)),
        };
        if let Some(now) = &now
            && shown.is_none_or(|shown| shown.access != now.access)
        {
            return Ok(());
        }
        self.net.begin_at(server).await;
        let found = metadata::find(&self.net, server, challenge).await?;
        self.trusts(&found.issuer)?;
        // A token of another issuer, or with too few rights, cannot be renewed into one that will
        // do.
        if let Some(token) = now.filter(|token| token.is_worth_renewing())
            && status == StatusCode::UNAUTHORIZED
            && token.issuer == found.issuer
            && let Some(mine) = turn.take()
        {
            let (mine, renewed) = self.spend(mine, server, token).await;
            if renewed.is_some() {
                return Ok(());
            }
            turn = mine;
        }
        let scopes = self.wanted(&found, challenge);
        let token = self.ask(&found, &scopes).await?;
        self.keep(server, token);
        self.lock().logins += 1;
        drop(turn);
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
