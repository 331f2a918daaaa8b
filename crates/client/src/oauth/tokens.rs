//! The token of a server: got, kept, renewed, shown.

use super::{
    Grant,
    challenge::Challenge,
    dpop::Proofs,
    grant::Token,
    metadata::{self, Found},
    registration::Made,
    vault::{Kept, Vault},
};
use crate::support::url_policy::UrlPolicy;
use ::http::{HeaderValue, Method, header::AUTHORIZATION};
use reqwest::{RequestBuilder, StatusCode, Url};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::sync::OwnedMutexGuard;
use tokio_util::task::TaskTracker;
use zcp_wire::sync::lock;

/// What all that is done with one server's token has in common.
pub(super) struct Shared {
    pub(super) policy: UrlPolicy,
    pub(super) grant: Grant,
    pub(super) scopes: Option<BTreeSet<String>>,
    pub(super) proofs: Option<Proofs>,
    pub(super) vault: Option<Vault>,
    /// Who credentials that were given beforehand are for.
    pub(super) issuer: Option<String>,
    /// What was kept is not used.
    pub(super) is_anew: bool,
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
    pub(super) asked: BTreeSet<String>,
    /// The server the token is for.
    server: Option<Url>,
    /// Who was first shown credentials that were given beforehand.
    trusted: Option<String>,
    /// How often the server may have come to see somebody else.
    logins: u64,
    /// The token is in the vault, or was until somebody removed it.
    is_kept: bool,
}

/// A request that a server wants a token for, or a better one.
pub(super) struct Asked<'a> {
    pub(super) server: &'a Url,
    pub(super) challenge: &'a Challenge,
    pub(super) status: StatusCode,
    /// Where it answered from.
    pub(super) from: Option<SocketAddr>,
}

/// The turn to get a token: of this client, and of all that share its vault.
struct Turn {
    _here: OwnedMutexGuard<()>,
    everywhere: Option<File>,
}

impl Shared {
    pub(super) fn new(grant: Grant) -> Self {
        Self {
            policy: UrlPolicy::guarded(),
            grant,
            scopes: None,
            proofs: None,
            vault: None,
            issuer: None,
            is_anew: false,
            state: Mutex::default(),
            turn: Arc::default(),
            tasks: TaskTracker::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn current(&self) -> Option<Arc<Token>> {
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

    /// Credentials that were given beforehand are shown to the issuer they are said to be for. If
    /// nobody said, that is the first one that the server names, and nobody whom it names later,
    /// after a restart neither.
    fn trusts(&self, server: &Url, issuer: &str) -> Result<(), String> {
        let is_given = match &self.grant {
            Grant::User { known, .. } => known.beforehand.is_some(),
            _ => true,
        };
        if !is_given {
            return Ok(());
        }
        let known = self.issuer.clone().or_else(|| self.lock().trusted.clone());
        let trusted = known.or_else(|| self.kept_issuer(server)).unwrap_or_else(|| {
            self.keep_issuer(server, issuer);
            issuer.to_owned()
        });
        let is_it = trusted == issuer;
        let why = format!(
            "`{issuer}` is not who the credentials are for: `{trusted}`. If it is right, name it with \
            `OAuth::issuer`, or log out first"
        );
        self.lock().trusted = Some(trusted);
        if is_it { Ok(()) } else { Err(why) }
    }

    /// The issuer of an earlier run. A user who logs in anew may have other credentials.
    fn kept_issuer(&self, server: &Url) -> Option<String> {
        let vault = self.vault.as_ref().filter(|_| !self.is_anew)?;
        vault.load(Kept::Issuer(server.as_str()))
    }

    fn keep_issuer(&self, server: &Url, issuer: &str) {
        if let Some(vault) = &self.vault
            && let Err(error) = vault.save(Kept::Issuer(server.as_str()), &issuer)
        {
            tracing::warn!("the issuer of these credentials is not kept: {error}");
        }
    }

    async fn turn(&self, server: &Url) -> Turn {
        let here = self.turn.clone().lock_owned().await;
        Turn { _here: here, everywhere: self.everywhere(server).await }
    }

    /// The turn among all that share the vault.
    async fn everywhere(&self, server: &Url) -> Option<File> {
        let locked = self.vault.as_ref()?.lock(Kept::Token(server.as_str())).await;
        let unshared =
            |error: &_| tracing::warn!("tokens are not shared with other programs: {error}");
        locked.inspect_err(unshared).ok()
    }

    /// The token, renewed when its time is over.
    pub(super) async fn fresh(self: &Arc<Self>, server: &Url) -> Option<Arc<Token>> {
        let token = self.current().or_else(|| self.adopt(server, None))?;
        if !token.is_over() {
            return Some(token);
        }
        let turn = self.turn(server).await;
        let now = self.latest(server, &token)?;
        if !now.is_over() {
            return Some(now);
        }
        // If it cannot be renewed, the server will say what it wants.
        let (_, renewed) = self.spend(turn, server, now.clone()).await;
        Some(renewed.unwrap_or(now))
    }

    /// The token as others may have renewed it meanwhile; none if they logged out.
    fn latest(&self, server: &Url, token: &Arc<Token>) -> Option<Arc<Token>> {
        if let Some(here) = self.current().filter(|here| !Arc::ptr_eq(here, token)) {
            return Some(here);
        }
        if let Some(kept) = self.adopt(server, Some(token)) {
            return Some(kept);
        }
        let is_there = self.kept(server).is_some();
        let mut state = self.lock();
        if state.is_kept && !is_there && !self.is_anew {
            state.token = None;
            state.logins += 1;
            return None;
        }
        Some(token.clone())
    }

    /// What the vault has for a server.
    fn kept(&self, server: &Url) -> Option<Token> {
        let vault = self.vault.as_ref().filter(|_| matches!(self.grant, Grant::User { .. }))?;
        vault.load(Kept::Token(server.as_str()))
    }

    /// Takes the token from the vault, if it is another.
    fn adopt(&self, server: &Url, known: Option<&Token>) -> Option<Arc<Token>> {
        let kept = self.kept(server).filter(|_| !self.is_anew)?;
        if known.is_some_and(|known| known.access == kept.access) {
            return None;
        }
        let kept = Arc::new(kept);
        let mut state = self.lock();
        state.token = Some(kept.clone());
        state.asked.extend(kept.scopes.iter().cloned());
        state.is_kept = true;
        // It may be another user's.
        state.logins += 1;
        Some(kept)
    }

    /// Keeps a token, here and in the vault.
    fn keep(&self, server: &Url, token: Token) -> Arc<Token> {
        let token = Arc::new(token);
        self.lock().token = Some(token.clone());
        if let (Some(vault), Grant::User { .. }, false) = (&self.vault, &self.grant, token.is_bound)
        {
            match vault.save(Kept::Token(server.as_str()), &*token) {
                Ok(()) => self.lock().is_kept = true,
                Err(error) => tracing::warn!("the token is not kept: {error}"),
            }
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
        if self.lock().server.as_ref().is_some_and(|other| other != server) {
            return false;
        }
        self.current().or_else(|| self.adopt(server, None)).is_some()
    }

    /// Forgets the token of a server, and gives it back to whoever gave it.
    pub(super) async fn forget(&self, server: &Url) -> Result<bool, String> {
        let _turn = self.turn(server).await;
        if let Some(vault) = &self.vault {
            vault.remove(Kept::Issuer(server.as_str())).map_err(|error| error.to_string())?;
        }
        let is_ours = self.lock().server.as_ref().is_none_or(|other| other == server);
        let here = self.current().filter(|_| is_ours);
        let Some(token) = self.kept(server).map(Arc::new).or(here) else { return Ok(false) };
        if is_ours {
            let mut state = self.lock();
            (state.token, state.trusted) = (None, None);
            state.logins += 1;
        }
        if let Some(vault) = &self.vault {
            vault.remove(Kept::Token(server.as_str())).map_err(|error| error.to_string())?;
        }
        self.forget_client(&token.issuer);
        self.policy.begin_at(server, None).await;
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
        asked: &Asked<'_>,
        shown: Option<&Arc<Token>>,
    ) -> Result<(), String> {
        let server = asked.server;
        let mut turn = self.turn(server).await;
        let now = match shown {
            Some(shown) => self.latest(server, shown),
            None => self.current().or_else(|| self.adopt(server, None)),
        };
        if let Some(now) = &now
            && shown.is_none_or(|shown| shown.access != now.access)
        {
            return Ok(());
        }
        self.policy.begin_at(server, asked.from).await;
        let found = metadata::find(&self.policy, server, asked.challenge).await?;
        self.trusts(server, &found.issuer)?;
        // A token of another issuer, or with too few rights, cannot be renewed into one that will
        // do.
        if let Some(token) = now.filter(|token| token.is_worth_renewing())
            && asked.status == StatusCode::UNAUTHORIZED
            && token.issuer == found.issuer
        {
            let (mine, renewed) = self.spend(turn, server, token).await;
            if renewed.is_some() {
                return Ok(());
            }
            turn = mine.ok_or("the token could not be renewed")?;
        }
        let scopes = self.wanted(&found, asked.challenge);
        // Other programs do not wait for a user of this one.
        drop(turn.everywhere.take());
        let token = self.ask(&found, &scopes).await?;
        let _everywhere = self.everywhere(server).await;
        let old = self.kept(server).filter(|_| self.is_anew);
        self.keep(server, token);
        self.lock().logins += 1;
        if let Some(old) = old
            && let Err(why) = self.revoke(&old).await
        {
            tracing::debug!("the last token is not given back: {why}");
        }
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
