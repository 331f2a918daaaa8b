//! `zcp sessions`: who talks to the servers of a store.

use super::store;
use crate::{cmd::operate::store::Kept, print};
use serde_json::{Value, json};
use std::error::Error;
use zcp::operate::{self, Session};

pub(crate) async fn list(kept: &Kept, json: bool) -> Result<(), Box<dyn Error>> {
    let store = store::existing(kept)?;
    let sessions = operate::sessions(&*store).await?;
    if json {
        return Ok(print::json(&sessions.iter().map(for_programs).collect::<Vec<_>>())?);
    }
    if sessions.is_empty() {
        return Ok(print::words("No sessions.")?);
    }
    let rows: Vec<_> = sessions.iter().map(for_people).collect();
    Ok(print::table("Sessions", &rows)?)
}

fn for_programs(session: &Session) -> Value {
    json!({
        "id": session.id,
        "principal": session.principal,
        "revision": session.revision,
        "client": session.client,
        "subscriptions": session.subscriptions,
    })
}

/// Its id may be all it takes to speak in it, so only programs are shown the whole.
fn for_people(session: &Session) -> (String, String) {
    let who = match session.principal.as_str() {
        "" => "anybody",
        name => name,
    };
    let client = format!("{} {}", session.client.name, session.client.version);
    let mut about = format!("{who} with {client}, {}", session.revision);
    if session.subscriptions > 0 {
        about += &format!(", {} subscriptions", session.subscriptions);
    }
    (print::beginning(&session.id), about)
}
