//! Asking for tokens.

use super::{
    Grant, Identity, Registered, Registration, Shared,
    metadata::{AuthorizationServer, Found},
    sign::{digest, secret},
};
use crate::{
    support::clock::now,
    support::url_policy::{self, UrlPolicy},
};
use ::http::Method;
use futures_util::future::BoxFuture;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use url::form_urlencoded;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// What cannot be put right by asking again.
const FINAL: &[&str] =
    &["invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type"];
const FORM: &str = "application/x-www-form-urlencoded";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// How many seconds before its end a token is renewed.
const EARLY: u64 = 30;

type Form = Vec<(&'static str, String)>;

/// Sends the user away, and says where they are to come back to. Given where that was last time.
pub(super) type Begin =
    Arc<dyn Fn(Option<Url>) -> BoxFuture<'static, Result<Begun, String>> + Send + Sync>;

/// A visit of the user that has begun.
pub(super) struct Begun {
    pub(super) redirect: Url,
    /// Shows the page of an address to the user, and gives the address they come back to.
    pub(super) visit: Box<dyn FnOnce(Url) -> BoxFuture<'static, Result<Url, String>> + Send>,
}

/// A token, and how to renew it.
#[derive(Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) access: String,
    /// It is worth nothing without a proof.
    pub(super) is_bound: bool,
    pub(super) issuer: String,
    refresh: Option<String>,
    /// When it is to be renewed, in seconds since 1970.
    end: Option<u64>,
    client: Registration,
    pub(super) server: AuthorizationServer,
    resource: String,
    /// What it was asked for with.
    #[serde(default)]
    pub(super) scopes: BTreeSet<String>,
    /// The server has not taken it yet, though it is a renewed one.
    #[serde(skip)]
    is_doubtful: AtomicBool,
}

impl Token {
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= now())
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.is_bound { "DPoP" } else { "Bearer" }
    }

    /// The server has taken it.
    pub(super) fn worked(&self) {
        self.is_doubtful.store(false, Ordering::Relaxed);
    }

    /// Whether a new one can be had for it that the server may take.
    pub(super) fn is_worth_renewing(&self) -> bool {
        self.refresh.is_some() && !self.is_doubtful.load(Ordering::Relaxed)
    }

    /// The same, to be used until the server takes it no more.
    pub(super) fn without_renewal(&self) -> Self {
        Self {
            access: self.access.clone(),
            is_bound: self.is_bound,
            issuer: self.issuer.clone(),
            refresh: None,
            end: None,
            client: self.client.clone(),
            server: self.server.clone(),
            resource: self.resource.clone(),
            scopes: self.scopes.clone(),
            is_doubtful: AtomicBool::new(false),
        }
    }
}

/// Why there is no token.
pub(super) struct NoToken {
    pub(super) why: String,
    /// Asking again would not help.
    pub(super) is_final: bool,
}

impl From<NoToken> for String {
    fn from(none: NoToken) -> Self {
        none.why
    }
}

impl From<String> for NoToken {
    fn from(why: String) -> Self {
        Self { why, is_final: false }
    }
}

/// What an authorization server answers.
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    #[serde(default)]
    token_type: String,
    refresh_token: Option<String>,
    expires_in: Option<u64>,
}

/// What it says when it does not.
#[derive(Deserialize, Default)]
struct Denial {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl Shared {
    /// Asks for a token in the way this client does.
    pub(super) async fn ask(
        &self,
        found: &Found,
        scopes: &BTreeSet<String>,
    ) -> Result<Token, String> {
        let scope = scopes.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        match &self.grant {
            Grant::User { begin, known } => self.by_user(found, &scope, begin, known).await,
            Grant::Credentials(client) => {
                let form = with_scope(vec![("grant_type", "client_credentials".into())], &scope);
                self.token(found, client, form).await
            }
            Grant::Assertion { client, assertion } => {
                self.by_assertion(found, &scope, client, assertion).await
            }
            Grant::Enterprise { client, identity } => {
                let assertion = self.exchange(found, &scope, identity).await?;
                self.by_assertion(found, &scope, client, &assertion).await
            }
        }
    }

    /// Has the user consent, and comes back with a code.
    async fn by_user(
        &self,
        found: &Found,
        scope: &str,
        begin: &Begin,
        known: &Registered,
    ) -> Result<Token, String> {
        let methods = found.server.code_challenge_methods_supported.as_deref();
        if !found.is_old && !methods.is_some_and(|all| all.iter().any(|one| one == "S256")) {
            return Err(format!("`{}` does not protect codes with S256", found.issuer));
        }
        let last = self.made(&found.issuer).and_then(|made| Url::parse(&made.redirect).ok());
        let Begun { redirect, visit } = begin(last).await?;
        let client = self.registration(found, known, &redirect).await?;
        let (verifier, state) = (secret(), secret());
        let page = found.server.authorization_endpoint.as_deref();
        let page = page.ok_or_else(|| format!("`{}` asks no users", found.issuer))?;
        let mut page = self.policy.safe(page)?;
        {
            let mut query = page.query_pairs_mut();
            query
                .append_pair("response_type", "code")
                .append_pair("client_id", client.id())
                .append_pair("redirect_uri", redirect.as_str())
                .append_pair("code_challenge", &digest(&verifier))
                .append_pair("code_challenge_method", "S256")
                .append_pair("state", &state)
                .append_pair("resource", &found.resource);
            if !scope.is_empty() {
                query.append_pair("scope", scope);
            }
        }
        // A user who does not come back may have been told that nobody knows the client.
        let back = visit(page).await.inspect_err(|_| self.forget_client(&found.issuer))?;
        let code = code(&back, found, &state)?;
        let form = vec![
            ("grant_type", "authorization_code".into()),
            ("code", code),
            ("redirect_uri", redirect.to_string()),
            ("code_verifier", verifier),
        ];
        self.token(found, &client, form).await
    }

    async fn by_assertion(
        &self,
        found: &Found,
        scope: &str,
        client: &Registration,
        assertion: &str,
    ) -> Result<Token, String> {
        let form = vec![("grant_type", JWT_BEARER.into()), ("assertion", assertion.to_owned())];
        self.token(found, client, with_scope(form, scope)).await
    }

    /// Has the identity provider state who the user is, for this authorization server.
    async fn exchange(
        &self,
        found: &Found,
        scope: &str,
        identity: &Identity,
    ) -> Result<String, String> {
        let form = vec![
            ("grant_type", EXCHANGE.into()),
            ("requested_token_type", ID_JAG.into()),
            ("audience", found.issuer.clone()),
            ("resource", found.resource.clone()),
            ("subject_token", identity.id_token.clone()),
            ("subject_token_type", ID_TOKEN.into()),
        ];
        let provider = AuthorizationServer {
            issuer: identity.token_endpoint.clone(),
            token_endpoint: Some(identity.token_endpoint.clone()),
            ..AuthorizationServer::default()
        };
        let client = Registration::public(&identity.client_id);
        let policy = UrlPolicy::trusted();
        let answer = self.post(&policy, &provider, &client, with_scope(form, scope)).await?;
        Ok(answer.access_token)
    }

    /// A new token for an old one.
    pub(super) async fn renew(&self, token: &Token) -> Result<Token, NoToken> {
        let refresh = token.refresh.clone();
        let refresh = refresh
            .ok_or_else(|| NoToken { why: "the token cannot be renewed".into(), is_final: true })?;
        let form = vec![
            ("grant_type", "refresh_token".into()),
            ("refresh_token", refresh.clone()),
            ("resource", token.resource.clone()),
        ];
        let answer = self.post(&self.policy, &token.server, &token.client, form).await?;
        Ok(Token {
            is_bound: answer.token_type.eq_ignore_ascii_case("DPoP"),
            access: answer.access_token,
            issuer: token.issuer.clone(),
            refresh: answer.refresh_token.or(Some(refresh)),
            end: end(answer.expires_in),
            client: token.client.clone(),
            server: token.server.clone(),
            resource: token.resource.clone(),
            scopes: token.scopes.clone(),
            is_doubtful: AtomicBool::new(true),
        })
    }

    async fn token(
        &self,
        found: &Found,
        client: &Registration,
        mut form: Form,
    ) -> Result<Token, String> {
        form.push(("resource", found.resource.clone()));
        let answer = self.post(&self.policy, &found.server, client, form).await?;
        Ok(Token {
            is_bound: answer.token_type.eq_ignore_ascii_case("DPoP"),
            access: answer.access_token,
            issuer: found.issuer.clone(),
            refresh: answer.refresh_token,
            end: end(answer.expires_in),
            client: client.clone(),
            server: found.server.clone(),
            resource: found.resource.clone(),
            scopes: self.lock().asked.clone(),
            is_doubtful: AtomicBool::new(false),
        })
    }

    /// Asks at the place where tokens are given; once more if a proof lacked the server's nonce.
    async fn post(
        &self,
        policy: &UrlPolicy,
        server: &AuthorizationServer,
        client: &Registration,
        form: Form,
    ) -> Result<Answer, NoToken> {
        let place = server.token_endpoint.as_deref();
        let place = place.ok_or_else(|| format!("`{}` gives no tokens", server.issuer))?;
        let place = policy.safe(place)?;
        let mut again = self.proofs.is_some();
        loop {
            let mut form = form.clone();
            let (name, value) = client.show(server, &mut form).unzip();
            let mut request = policy.post(place.clone(), FORM, encoded(form))?;
            if let (Some(name), Some(value)) = (name, value) {
                request = request.header::<&str, String>(name, value);
            }
            if let Some(proofs) = &self.proofs {
                request = request.header("DPoP", proofs.make(&Method::POST, &place, None));
            }
            let answered = url_policy::send(request).await?;
            let nonce =
                self.proofs.as_ref().is_some_and(|proofs| proofs.learn(&place, &answered.headers));
            if answered.status.is_success() {
                let answer: Answer = serde_json::from_slice(&answered.text)
                    .map_err(|_| format!("what `{}` gives is no token", server.issuer))?;
                // A token without a key is anybody's.
                let is_bound = answer.token_type.eq_ignore_ascii_case("DPoP");
                return match self.proofs.is_some() && !is_bound {
                    true => Err(format!("`{}` gives tokens that need no proof", server.issuer))?,
                    false => Ok(answer),
                };
            }
            let denial: Denial = serde_json::from_slice(&answered.text).unwrap_or_default();
            if denial.error == "use_dpop_nonce" && nonce && std::mem::take(&mut again) {
                continue;
            }
            let why = denied(&server.issuer, answered.status.as_u16(), &denial);
            if denial.error == "invalid_client" {
                self.forget_client(&server.issuer);
            }
            return Err(NoToken { why, is_final: FINAL.contains(&denial.error.as_str()) });
        }
    }

    /// Tells whoever gave a token that it is needed no more.
    pub(super) async fn revoke(&self, token: &Token) -> Result<(), String> {
        let Some(place) = token.server.revocation_endpoint.as_deref() else { return Ok(()) };
        let (kind, word) = match &token.refresh {
            Some(refresh) => ("refresh_token", refresh),
            None => ("access_token", &token.access),
        };
        let mut form = vec![("token", word.clone()), ("token_type_hint", kind.to_owned())];
        let shown = token.client.show(&token.server, &mut form);
        let mut request = self.policy.post(self.policy.safe(place)?, FORM, encoded(form))?;
        if let Some((name, value)) = shown {
            request = request.header(name, value);
        }
        let answered = url_policy::send(request).await?;
        match answered.status.is_success() {
            true => Ok(()),
            false => Err(format!("`{}` did not take the token back", token.issuer)),
        }
    }
}

fn encoded(form: Form) -> String {
    form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish()
}

fn denied(issuer: &str, status: u16, denial: &Denial) -> String {
    match (denial.error.as_str(), denial.error_description.as_str()) {
        ("", _) => format!("`{issuer}` gives no token (status {status})"),
        (error, "") => format!("`{issuer}` gives no token: {error}"),
        (error, why) => format!("`{issuer}` gives no token: {error}: {why}"),
    }
}

fn with_scope(mut form: Form, scope: &str) -> Form {
    if !scope.is_empty() {
        form.push(("scope", scope.to_owned()));
    }
    form
}

fn end(seconds: Option<u64>) -> Option<u64> {
    let time = seconds?;
    now().checked_add(time - EARLY.min(time / 2))
}

/// The code the user comes back with, if it is for us and from whom we sent them to.
fn code(back: &Url, found: &Found, state: &str) -> Result<String, String> {
    let said: BTreeMap<String, String> = back.query_pairs().into_owned().collect();
    if said.get("state").map(String::as_str) != Some(state) {
        return Err("the user came back with the answer to another question".into());
    }
    // Whoever answers must be who was asked, before anything they say is believed or shown.
    match said.get("iss") {
        Some(issuer) if *issuer != found.issuer => {
            return Err("the user was sent back by somebody else".into());
        }
        None if found.server.authorization_response_iss_parameter_supported => {
            return Err(format!("`{}` did not sign its answer", found.issuer));
        }
        _ => (),
    }
    if let Some(error) = said.get("error") {
        let description = said.get("error_description").cloned().unwrap_or_default();
        let denial = Denial { error: error.clone(), error_description: description };
        return Err(denied(&found.issuer, 400, &denial));
    }
    said.get("code").cloned().ok_or_else(|| "the user came back without a code".into())
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
