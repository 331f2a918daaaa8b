//! A server that wants to know who calls, and whoever gives tokens for it.

use crate::relay::Relay;
use axum::{
    Json, Router,
    body::Body,
    extract::{Form, Query, Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use zcp::{Http, Server};

type Params = BTreeMap<String, String>;

/// Both of them, on a port of this machine.
#[derive(Debug)]
pub struct Issuer {
    /// Where they listen.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _served: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Shared {
    origin: String,
    /// Members of the description of the issuer that are to be different; `null` takes one away.
    described: Value,
    known: Mutex<Known>,
}

/// What happened, and what is to happen.
#[derive(Debug, Default)]
pub struct Known {
    /// Seconds the next tokens live.
    pub lifetime: u64,
    /// The server takes no token that was given so far.
    pub valid: BTreeSet<String>,
    /// Renewals that were given.
    pub renewed: usize,
    /// Renewals asked for with a token that was spent.
    pub spent_twice: usize,
    /// Users who consented.
    pub consents: usize,
    /// Clients that registered, as they described themselves.
    pub clients: Vec<Value>,
    /// Tokens that were given back.
    pub revoked: Vec<String>,
    /// Registrations are refused.
    pub refuses_clients: bool,
    /// No token is given just now.
    pub is_busy: bool,
    /// Renewed tokens are worth nothing.
    pub renews_in_vain: bool,
    /// Scopes a call needs.
    pub needs: Option<String>,
    /// Tokens that were asked for with credentials.
    pub by_credentials: usize,
    /// Who the server says gives tokens for it, if not this issuer.
    pub named: Option<String>,
    /// Scopes that were asked for, consent by consent.
    pub scopes: Vec<String>,
    /// What the user is sent back with, if not with what is right.
    pub sent_back: Params,
    codes: BTreeMap<String, Params>,
    refresh: BTreeSet<String>,
    count: usize,
}

impl Issuer {
    /// Starts them. Members of `described` change the issuer's description of itself.
    pub async fn new(server: Server, described: Value) -> Self {
        Self::known_at(server, described, None).await
    }

    /// Starts them behind a relay: they are known by its address.
    pub async fn behind(relay: &Relay, server: Server) -> Self {
        let issuer = Self::known_at(server, json!({}), Some(relay.address)).await;
        relay.lead_to(issuer.address);
        issuer
    }

    #[expect(clippy::disallowed_methods, reason = "the handle aborts the task when dropped")]
    async fn known_at(server: Server, described: Value, known_at: Option<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let known = Mutex::new(Known { lifetime: 3600, ..Known::default() });
        let origin = format!("http://{}", known_at.unwrap_or(address));
        let shared = Arc::new(Shared { origin, described, known });
        let runtime = server.build().expect("the server has no mistakes");
        let mcp = Http::new(address).into_router(runtime, CancellationToken::new());
        let app = Router::new()
            .route("/.well-known/oauth-protected-resource/mcp", get(resource))
            .route("/.well-known/oauth-authorization-server", get(description))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/revoke", post(revoke))
            .with_state(shared.clone())
            .merge(mcp.layer(middleware::from_fn_with_state(shared.clone(), guard)));
        let served = tokio::spawn(async move {
            axum::serve(listener, app).await.expect("it does not fail");
        });
        Self { address, shared, _served: AbortOnDropHandle::new(served) }
    }

    /// Where the server is.
    pub fn url(&self) -> String {
        format!("{}/mcp", self.shared.origin)
    }

    /// What happened so far.
    pub fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no panic")
    }
}

impl Known {
    fn tokens(&mut self, is_renewed: bool) -> Json<Value> {
        self.count += 1;
        let (access, refresh) =
            (format!("access-{}", self.count), format!("refresh-{}", self.count));
        if !(is_renewed && self.renews_in_vain) {
            self.valid.insert(access.clone());
        }
        self.refresh.insert(refresh.clone());
        Json(json!({ "access_token": access, "token_type": "Bearer", "refresh_token": refresh,
            "expires_in": self.lifetime }))
    }
}

/// Lets those by whose token is valid.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    let shown = shown.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (is_known, needs) = {
        let known = shared.lock();
        let token = shown.strip_prefix("Bearer ").unwrap_or_default();
        (known.valid.contains(token), known.needs.clone())
    };
    let about = format!("{}/.well-known/oauth-protected-resource/mcp", shared.origin);
    let (status, challenge) = match (is_known, needs) {
        (true, None) => return next.run(request).await,
        (true, Some(scope)) => (
            StatusCode::FORBIDDEN,
            format!(
                r#"Bearer error="insufficient_scope", scope="{scope}", resource_metadata="{about}""#
            ),
        ),
        (false, _) => (StatusCode::UNAUTHORIZED, format!(r#"Bearer resource_metadata="{about}""#)),
    };
    (status, [(header::WWW_AUTHENTICATE, challenge)], Body::empty()).into_response()
}

async fn resource(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let origin = &shared.origin;
    let issuer = shared.lock().named.clone().unwrap_or_else(|| origin.clone());
    Json(json!({ "resource": origin, "authorization_servers": [issuer] }))
}

async fn description(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let origin = &shared.origin;
    let mut all = json!({
        "issuer": origin,
        "authorization_endpoint": format!("{origin}/authorize"),
        "token_endpoint": format!("{origin}/token"),
        "registration_endpoint": format!("{origin}/register"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    });
    for (name, value) in shared.described.as_object().into_iter().flatten() {
        all[name] = value.clone();
    }
    all.as_object_mut().expect("an object").retain(|_, value| !value.is_null());
    Json(all)
}

async fn register(State(shared): State<Arc<Shared>>, Json(client): Json<Value>) -> Response {
    let mut known = shared.lock();
    if known.refuses_clients {
        let why = json!({ "error": "invalid_redirect_uri", "error_description": "no loopback" });
        return (StatusCode::BAD_REQUEST, Json(why)).into_response();
    }
    known.clients.push(client);
    let id = format!("client-{}", known.clients.len());
    (StatusCode::CREATED, Json(json!({ "client_id": id }))).into_response()
}

/// The user consents at once.
async fn authorize(State(shared): State<Arc<Shared>>, Query(asked): Query<Params>) -> Redirect {
    let mut known = shared.lock();
    known.consents += 1;
    known.scopes.push(asked.get("scope").cloned().unwrap_or_default());
    let code = format!("code-{}", known.consents);
    known.codes.insert(code.clone(), asked.clone());
    let mut back = Params::from_iter([
        ("code".to_owned(), code),
        ("state".to_owned(), asked["state"].clone()),
        ("iss".to_owned(), shared.origin.clone()),
    ]);
    back.extend(known.sent_back.clone());
    let mut url = reqwest::Url::parse(&asked["redirect_uri"]).expect("a URL");
    url.query_pairs_mut().extend_pairs(back);
    Redirect::to(url.as_str())
}

async fn token(State(shared): State<Arc<Shared>>, Form(form): Form<Params>) -> Response {
    // Long enough for others to want the same.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let refused =
        |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response();
    let mut known = shared.lock();
    if known.is_busy {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    }
    if form.get("resource") != Some(&shared.origin) {
        return refused("invalid_target");
    }
    match form["grant_type"].as_str() {
        "authorization_code" => match known.codes.remove(&form["code"]) {
            Some(asked) if asked["redirect_uri"] == form["redirect_uri"] => {
                known.tokens(false).into_response()
            }
            _ => refused("invalid_grant"),
        },
        "client_credentials" => {
            known.by_credentials += 1;
            known.tokens(false).into_response()
        }
        "refresh_token" => {
            if !known.refresh.remove(&form["refresh_token"]) {
                known.spent_twice += 1;
                return refused("invalid_grant");
            }
            known.renewed += 1;
            known.tokens(true).into_response()
        }
        _ => refused("unsupported_grant_type"),
    }
}

async fn revoke(State(shared): State<Arc<Shared>>, Form(form): Form<Params>) -> HeaderMap {
    shared.lock().revoked.push(form["token"].clone());
    HeaderMap::new()
}
