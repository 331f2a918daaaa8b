//! Asking for tokens.

use super::{
    Grant, Identity, Registered, Registration, Shared, Visit,
    metadata::{AuthorizationServer, Found, safe},
    sign::{digest, secret},
};
use ::http::Method;
use reqwest::Url;
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::{Duration, Instant},
};
use url::form_urlencoded;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// How long before its end a token is renewed.
const EARLY: Duration = Duration::from_secs(30);

type Form = Vec<(&'static str, String)>;

/// A token, and how to renew it.
pub(super) struct Token {
    pub(super) access: String,
    /// It is worth nothing without a proof.
    pub(super) is_bound: bool,
    pub(super) issuer: String,
    refresh: Option<String>,
    end: Option<Instant>,
    client: Registration,
    server: AuthorizationServer,
    resource: String,
}

impl Token {
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| end <= Instant::now())
    }

    pub(super) fn kind(&self) -> &'static str {
        if self.is_bound { "DPoP" } else { "Bearer" }
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
            Grant::User { visit, redirect, known } => {
                self.by_user(found, &scope, visit, redirect, known).await
            }
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
        visit: &Visit,
        redirect: &Url,
        known: &Registered,
    ) -> Result<Token, String> {
        let methods = found.server.code_challenge_methods_supported.as_deref();
        if !found.is_old && !methods.is_some_and(|all| all.iter().any(|one| one == "S256")) {
            return Err(format!("`{}` does not protect codes with S256", found.issuer));
        }
        let client = self.registration(found, known, redirect).await?;
        let (verifier, state) = (secret(), secret());
        let page = found.server.authorization_endpoint.as_deref();
        let page = page.ok_or_else(|| format!("`{}` asks no users", found.issuer))?;
        let mut page = safe(page)?;
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
        let back = visit(page).await?;
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
        let answer = self.post(&provider, &client, with_scope(form, scope)).await?;
        Ok(answer.access_token)
    }

    /// A new token for an old one.
    pub(super) async fn renew(&self, token: &Token) -> Result<Token, String> {
        let refresh = token.refresh.clone().ok_or("the token cannot be renewed")?;
        let form = vec![
            ("grant_type", "refresh_token".into()),
            ("refresh_token", refresh.clone()),
            ("resource", token.resource.clone()),
        ];
        let answer = self.post(&token.server, &token.client, form).await?;
        Ok(Token {
            is_bound: answer.token_type.eq_ignore_ascii_case("DPoP"),
            access: answer.access_token,
            issuer: token.issuer.clone(),
            refresh: answer.refresh_token.or(Some(refresh)),
            end: end(answer.expires_in),
            client: token.client.clone(),
            server: token.server.clone(),
            resource: token.resource.clone(),
        })
    }

    async fn token(
        &self,
        found: &Found,
        client: &Registration,
        mut form: Form,
    ) -> Result<Token, String> {
        form.push(("resource", found.resource.clone()));
        let answer = self.post(&found.server, client, form).await?;
        Ok(Token {
            is_bound: answer.token_type.eq_ignore_ascii_case("DPoP"),
            access: answer.access_token,
            issuer: found.issuer.clone(),
            refresh: answer.refresh_token,
            end: end(answer.expires_in),
            client: client.clone(),
            server: found.server.clone(),
            resource: found.resource.clone(),
        })
    }

    /// Asks at the place where tokens are given; once more if a proof lacked the server's nonce.
    async fn post(
        &self,
        server: &AuthorizationServer,
        client: &Registration,
        form: Form,
    ) -> Result<Answer, String> {
        let place = server.token_endpoint.as_deref();
        let place = place.ok_or_else(|| format!("`{}` gives no tokens", server.issuer))?;
        let place = safe(place)?;
        let mut again = self.proofs.is_some();
        loop {
            let mut form = form.clone();
            let request = self.client.post(place.clone()).header("accept", "application/json");
            let mut request = client.show(server, &mut form, request);
            if let Some(proofs) = &self.proofs {
                request = request.header("DPoP", proofs.make(&Method::POST, &place, None));
            }
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
            let request = request.header("content-type", "application/x-www-form-urlencoded");
            let response = request.body(body).send().await;
            let response = response.map_err(|error| crate::transport::http::explain(&error))?;
            let has_nonce = self.proofs.as_ref().is_some_and(|proofs| proofs.learn(&response));
            let status = response.status();
            let text = response.bytes().await.unwrap_or_default();
            if status.is_success() {
                let answer: Answer = serde_json::from_slice(&text)
                    .map_err(|_| format!("what `{}` gives is no token", server.issuer))?;
                // A token without a key is anybody's.
                let is_bound = answer.token_type.eq_ignore_ascii_case("DPoP");
                return match self.proofs.is_some() && !is_bound {
                    true => Err(format!("`{}` gives tokens that need no proof", server.issuer)),
                    false => Ok(answer),
                };
            }
            let denial: Denial = serde_json::from_slice(&text).unwrap_or_default();
            if denial.error == "use_dpop_nonce" && has_nonce && std::mem::take(&mut again) {
                continue;
            }
            return Err(denied(&server.issuer, status.as_u16(), &denial));
        }
    }
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

fn end(seconds: Option<u64>) -> Option<Instant> {
    let time = Duration::from_secs(seconds?);
    Instant::now().checked_add(time.saturating_sub(EARLY.min(time / 2)))
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
