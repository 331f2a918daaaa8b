//! Which revision a server speaks, and how: found out once, and again when the way to it is lost.

use crate::{
    builder::Settings,
    connection::events,
    error::{Error, Failure, Result},
    request::round_trip::{Exchange, Patience, Wish, opening},
    transport::{Endpoint, Fate, Opened, Silence},
};
use ::http::{HeaderMap, HeaderValue};
use serde_json::{Map, Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use zcp_wire::{
    Peer, Revision,
    error::{HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION},
    header,
    mcp::{
        capabilities::ServerCapabilities,
        lifecycle::{DiscoverResult, Implementation, InitializeResult},
    },
    meta,
    revision::Era,
};

/// Who is at the other end. Names are for display only.
#[derive(Debug, Clone)]
pub struct Server {
    /// What is spoken.
    pub revision: Revision,
    /// Who it says it is.
    pub info: Option<Implementation>,
    /// What it offers.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
}

impl Server {
    /// What every request shows to ways that have headers.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_static(self.revision.as_str());
        headers.insert(header::PROTOCOL_VERSION.clone(), version);
        headers
    }
}

/// An open way to a server, and what is spoken on it.
pub(crate) struct Line {
    pub(crate) peer: Arc<dyn Peer>,
    pub(crate) opened: Opened,
    pub(crate) server: Server,
    lost: Arc<AtomicBool>,
}

impl Line {
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Opens a way, and finds out what is spoken on it.
pub(crate) async fn open(settings: &Arc<Settings>, endpoint: &dyn Endpoint) -> Result<Line> {
    match settings.only.map(Revision::era) {
        Some(Era::Handshake) => handshake(settings, endpoint, endpoint.open().await?).await,
        Some(Era::Stateless) => {
            let opened = endpoint.open().await?;
            let server = discover(settings, &*opened.peer, settings.patience.quiet).await?;
            Ok(line(settings, opened, server))
        }
        None => remembered(settings, endpoint).await,
    }
}

/// Goes by what is known of the server, and finds out what is not.
async fn remembered(settings: &Arc<Settings>, endpoint: &dyn Endpoint) -> Result<Line> {
    let name = endpoint.name();
    let known = name.as_deref().and_then(|name| settings.eras.get(name));
    let opened = endpoint.open().await?;
    let found = match (known, &name) {
        (Some(Era::Handshake), Some(name)) => match handshake(settings, endpoint, opened).await {
            Err(error) if error.tells_nothing() || matches!(error, Error::Late(_)) => Err(error),
            Err(_) => {
                settings.eras.forget(name);
                probe(settings, endpoint, endpoint.open().await?, settings.probe).await
            }
            line => line,
        },
        // It is new, and may be slow.
        (Some(Era::Stateless), _) => {
            probe(settings, endpoint, opened, settings.patience.quiet).await
        }
        _ => probe(settings, endpoint, opened, settings.probe).await,
    }?;
    if let Some(name) = name {
        settings.eras.learn(name, found.server.revision.era());
    }
    Ok(found)
}

impl Error {
    /// Somebody on the way, or the server's state of the day: nothing that tells its age.
    fn tells_nothing(&self) -> bool {
        let Self::Lost(failure) = self else { return false };
        match failure {
            Failure::Denied(_) => true,
            Failure::Gone(_) => false,
            Failure::Status { status, .. } => matches!(status, 401 | 403 | 407 | 429 | 500..),
        }
    }
}

/// A way on which it is settled what is spoken.
fn line(settings: &Arc<Settings>, opened: Opened, server: Server) -> Line {
    let lost = Arc::new(AtomicBool::new(false));
    events::hear(settings.clone(), &opened, server.revision.era(), lost.clone());
    Line { peer: opened.peer.clone(), opened, server, lost }
}

/// Asks the question only newer servers know. `time` is for those that say nothing because they
/// are old.
async fn probe(
    settings: &Arc<Settings>,
    endpoint: &dyn Endpoint,
    opened: Opened,
    time: Duration,
) -> Result<Line> {
    let may_be_silent = endpoint.silence() == Silence::Age;
    let patience = if may_be_silent { time } else { settings.patience.quiet };
    let error = match discover(settings, &*opened.peer, patience).await {
        Ok(server) => return Ok(line(settings, opened, server)),
        Err(error) => error,
    };
    match &error {
        Error::Refused(refused) => match refused.code {
            UNSUPPORTED_PROTOCOL_VERSION | HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY => {
                Err(error)
            }
            _ => handshake(settings, endpoint, opened).await,
        },
        Error::Invalid(_) => handshake(settings, endpoint, opened).await,
        Error::Late(_) if may_be_silent => {
            let server = match initialize(settings, &opened, settings.offer()).await {
                // It is no old one: it was only slow.
                Err(Error::Refused(_)) => {
                    discover(settings, &*opened.peer, settings.patience.quiet).await
                }
                server => server,
            }?;
            Ok(line(settings, opened, server))
        }
        // The question was too much for it: it is started again, and not asked.
        Error::Lost(Failure::Gone(_)) if may_be_silent => {
            opened.end.wait().await;
            handshake(settings, endpoint, endpoint.open().await?).await
        }
        Error::Lost(Failure::Status { .. }) if !error.tells_nothing() => {
            handshake(settings, endpoint, opened).await
        }
        _ => Err(error),
    }
}

async fn discover(settings: &Settings, peer: &dyn Peer, patience: Duration) -> Result<Server> {
    let patience = Patience { quiet: patience, ..settings.patience };
    let wish = Wish { patience, on_progress: None };
    let revision = settings.stateless;
    // A server that names the revision we speak is asked once more.
    for last in [false, true] {
        let fate = Fate::default();
        let exchange = Exchange { settings, peer, era: Era::Stateless, wish: &wish, fate: &fate };
        let (id, mut params) = (settings.ids.next(), Map::new());
        settings.say_about(&mut params, Era::Stateless, &id);
        let mut headers = HeaderMap::new();
        let version = HeaderValue::from_static(revision.as_str());
        headers.insert(header::PROTOCOL_VERSION.clone(), version);
        headers.insert(header::METHOD.clone(), HeaderValue::from_static("server/discover"));
        match exchange.ask(id, "server/discover", params, opening(headers)).await {
            Err(Error::Refused(error)) if error.code == UNSUPPORTED_PROTOCOL_VERSION => {
                let data = error.data.clone().unwrap_or_default();
                let supported = data["supported"].as_array().cloned().unwrap_or_default();
                if last || !supported.contains(&json!(revision.as_str())) {
                    return Err(Error::Refused(error));
                }
            }
            Err(error) => return Err(error),
            Ok(result) => return discovered(revision, result),
        }
    }
    Err(Error::invalid("it refuses the revision it names"))
}

fn discovered(revision: Revision, result: Map<String, Value>) -> Result<Server> {
    let info = result.get("_meta").and_then(|about| about.get(meta::SERVER_INFO)).cloned();
    let found: DiscoverResult =
        serde_json::from_value(Value::Object(result)).map_err(Error::invalid)?;
    if !found.supported_versions.iter().any(|version| version == revision.as_str()) {
        let theirs = found.supported_versions.join(", ");
        return Err(Error::Unable(format!("the server speaks {theirs}; this client {revision}")));
    }
    Ok(Server {
        revision,
        info: info.and_then(|info| serde_json::from_value(info).ok()),
        capabilities: found.capabilities,
        instructions: found.instructions,
    })
}

impl Settings {
    /// The revision to begin a session with.
    fn offer(&self) -> Revision {
        self.only.unwrap_or(Revision::LATEST_HANDSHAKE)
    }
}

/// Opens a session, in the newest revision both sides speak.
async fn handshake(
    settings: &Arc<Settings>,
    endpoint: &dyn Endpoint,
    opened: Opened,
) -> Result<Line> {
    let error = match initialize(settings, &opened, settings.offer()).await {
        Ok(server) => return Ok(line(settings, opened, server)),
        Err(error) => error,
    };
    let is_older = matches!(&error, Error::Lost(Failure::Status { status: 400 | 404 | 405, .. }));
    match endpoint.older().filter(|_| is_older) {
        Some(older) => {
            let opened = older.open().await.map_err(|_| error)?;
            let server = initialize(settings, &opened, Revision::V2024_11_05).await?;
            Ok(line(settings, opened, server))
        }
        None => Err(error),
    }
}

async fn initialize(settings: &Settings, opened: &Opened, offer: Revision) -> Result<Server> {
    let (wish, fate) = (settings.wish(), Fate::default());
    let exchange =
        Exchange { settings, peer: &*opened.peer, era: Era::Handshake, wish: &wish, fate: &fate };
    let params = json!({
        "protocolVersion": offer.as_str(),
        "capabilities": settings.capabilities(),
        "clientInfo": settings.info,
    });
    let Value::Object(params) = params else { unreachable!("it is an object") };
    let mut result =
        exchange.ask(settings.ids.next(), "initialize", params, opening(HeaderMap::new())).await?;
    // Some servers leave out what they have nothing to say about.
    result.entry("capabilities").or_insert_with(|| json!({}));
    let found: InitializeResult = serde_json::from_value(Value::Object(result))
        .map_err(|why| Error::invalid(why).told_by(&fate))?;
    let revision = Revision::parse(&found.protocol_version)
        .filter(|revision| revision.era() == Era::Handshake)
        .ok_or_else(|| {
            Error::Unable(format!(
                "the server speaks {}, a revision unknown here",
                found.protocol_version
            ))
        })?;
    let server = Server {
        revision,
        info: Some(found.server_info),
        capabilities: found.capabilities,
        instructions: found.instructions,
    };
    events::notify(&*opened.peer, &server, "notifications/initialized").await;
    Ok(server)
}
