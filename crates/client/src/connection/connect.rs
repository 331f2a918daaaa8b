//! Which revision a server speaks, and how: found out once, and again when the way to it is lost.

use super::{
    client_profile::Settings,
    dialect::{self, Dialect, Handshake, Stateless},
    events,
    link::{Link, Server},
};
use crate::{
    error::{Error, Failure, Result},
    request::round_trip::{Options, RoundTrip},
    support::deadline::Timeouts,
    transport::{Endpoint, Fate, Headers, Opened, Opening, Silence},
};
use ::http::{Extensions, HeaderMap};
use serde_json::{Map, Value, json};
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use zcp_wire::{
    Method, MethodName, Peer, Revision,
    error::UNSUPPORTED_PROTOCOL_VERSION,
    mcp::lifecycle::{DiscoverResult, InitializeResult},
    meta,
    revision::Era,
    status,
};

/// Opens a way, and finds out what is spoken on it.
pub(super) async fn open(settings: &Arc<Settings>, endpoint: &dyn Endpoint) -> Result<Link> {
    match settings.only.map(Revision::era) {
        Some(Era::Handshake) => handshake(settings, endpoint, endpoint.open().await?).await,
        Some(Era::Stateless) => {
            let opened = endpoint.open().await?;
            let server = discover(settings, &*opened.peer, settings.timeouts.idle).await?;
            Ok(link(settings, opened, server))
        }
        None => remembered(settings, endpoint).await,
    }
}

/// Goes by what is known of the server, and finds out what is not.
async fn remembered(settings: &Arc<Settings>, endpoint: &dyn Endpoint) -> Result<Link> {
    let name = endpoint.name();
    let known = name.as_deref().and_then(|name| settings.eras.get(name));
    let opened = endpoint.open().await?;
    let found = match (known, &name) {
        (Some(Era::Handshake), Some(name)) => match handshake(settings, endpoint, opened).await {
            Err(error) if tells_nothing(&error) || matches!(error, Error::Late(_)) => Err(error),
            Err(_) => {
                settings.eras.forget(name);
                probe(settings, endpoint, endpoint.open().await?, settings.probe).await
            }
            link => link,
        },
        // It is new, and may be slow.
        (Some(Era::Stateless), _) => {
            probe(settings, endpoint, opened, settings.timeouts.idle).await
        }
        _ => probe(settings, endpoint, opened, settings.probe).await,
    }?;
    if let Some(name) = name {
        settings.eras.learn(name, found.server.revision.era());
    }
    Ok(found)
}

/// Whether an error is of somebody on the way, or of the day: nothing that tells the server's age.
fn tells_nothing(error: &Error) -> bool {
    let Error::Lost(failure) = error else { return false };
    match failure {
        Failure::Denied(_) | Failure::TooLong(_) => true,
        Failure::Gone(_) | Failure::Unconfirmed(_) => false,
        Failure::Status { status, .. } => status::tells_no_age(*status),
    }
}

/// A link on which it is settled what is spoken.
fn link(settings: &Arc<Settings>, opened: Opened, server: Server) -> Link {
    let (dialect, lost) = (dialect::of(server.revision), Arc::new(AtomicBool::new(false)));
    events::hear(settings.clone(), &opened, dialect.questions(), lost.clone());
    Link::new(opened, server, dialect, lost)
}

/// Asks the question only newer servers know. `time` is for those that say nothing because they
/// are old.
async fn probe(
    settings: &Arc<Settings>,
    endpoint: &dyn Endpoint,
    opened: Opened,
    time: Duration,
) -> Result<Link> {
    let may_be_silent = endpoint.silence() == Silence::Age;
    let idle = if may_be_silent { time } else { settings.timeouts.idle };
    let error = match discover(settings, &*opened.peer, idle).await {
        Ok(server) => return Ok(link(settings, opened, server)),
        Err(error) => error,
    };
    match &error {
        Error::Refused(refused) if status::is_stateless(refused.code) => Err(error),
        Error::Refused(_) | Error::Invalid(_) => handshake(settings, endpoint, opened).await,
        Error::Late(_) if may_be_silent => {
            let server = match initialize(settings, &opened, offer(settings)).await {
                // It is no old one: it was only slow.
                Err(Error::Refused(_)) => {
                    discover(settings, &*opened.peer, settings.timeouts.idle).await
                }
                server => server,
            }?;
            Ok(link(settings, opened, server))
        }
        // The question was too much for it: it is started again, and not asked.
        Error::Lost(Failure::Gone(_)) if may_be_silent => {
            opened.end.wait().await;
            handshake(settings, endpoint, endpoint.open().await?).await
        }
        Error::Lost(Failure::Status { .. }) if !tells_nothing(&error) => {
            handshake(settings, endpoint, opened).await
        }
        _ => Err(error),
    }
}

async fn discover(settings: &Settings, peer: &dyn Peer, idle: Duration) -> Result<Server> {
    let timeouts = Timeouts { idle, ..settings.timeouts };
    let options = Options { timeouts, on_progress: None };
    let (revision, method) = (settings.stateless, MethodName::from(Method::Discover));
    let dialect = Stateless { revision };
    // A server that names the revision we speak is asked once more.
    for last in [false, true] {
        let (id, mut params, fate) = (settings.ids.next(), Map::new(), Fate::default());
        let headers = dialect.prepare(settings, &method, &mut params, &id);
        let round_trip = RoundTrip {
            handlers: &settings.handlers,
            peer,
            questions: dialect.questions(),
            options: &options,
            fate: &fate,
        };
        match round_trip.send(id, method.clone(), &params, opening(headers)).await {
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

/// The revision to begin a session with.
fn offer(settings: &Settings) -> Revision {
    settings.only.unwrap_or(Revision::LATEST_HANDSHAKE)
}

/// Opens a session, in the newest revision both sides speak.
async fn handshake(
    settings: &Arc<Settings>,
    endpoint: &dyn Endpoint,
    opened: Opened,
) -> Result<Link> {
    let error = match initialize(settings, &opened, offer(settings)).await {
        Ok(server) => return Ok(link(settings, opened, server)),
        Err(error) => error,
    };
    let is_older = matches!(
        &error,
        Error::Lost(Failure::Status { status, .. }) if status::may_be_2024(*status)
    );
    match endpoint.older().filter(|_| is_older) {
        Some(older) => {
            let opened = older.open().await.map_err(|_| error)?;
            let server = initialize(settings, &opened, Revision::V2024_11_05).await?;
            Ok(link(settings, opened, server))
        }
        None => Err(error),
    }
}

async fn initialize(settings: &Settings, opened: &Opened, offer: Revision) -> Result<Server> {
    let (options, fate) = (settings.options(), Fate::default());
    let round_trip = RoundTrip {
        handlers: &settings.handlers,
        peer: &*opened.peer,
        questions: Handshake { revision: offer }.questions(),
        options: &options,
        fate: &fate,
    };
    let params = Map::from_iter([
        ("protocolVersion".to_owned(), json!(offer.as_str())),
        ("capabilities".to_owned(), json!(settings.capabilities(true))),
        ("clientInfo".to_owned(), json!(settings.info)),
    ]);
    let (id, extensions) = (settings.ids.next(), opening(HeaderMap::new()));
    let mut result = round_trip.send(id, Method::Initialize.into(), &params, extensions).await?;
    // Some servers leave out what they have nothing to say about.
    result.entry("capabilities").or_insert_with(|| json!({}));
    let found: InitializeResult = serde_json::from_value(Value::Object(result))
        .map_err(|why| fate.annotate(Error::invalid(why)))?;
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
    events::notify(&*opened.peer, revision, Method::Initialized).await;
    Ok(server)
}

/// What opens a conversation.
fn opening(headers: HeaderMap) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Opening);
    extensions.insert(Headers(headers));
    extensions
}
