//! What streams said, said again: events that were lost with their connections.

use crate::{
    ask::Connection,
    cpu::round,
    http::{post_in_session, resume},
    options::Replay,
};
use memchr::memmem;
use serde_json::{Value, json};
use std::{io::Write, thread, time::Instant};

/// How many events a second are replayed, to clients that come back one after another.
pub fn run(options: &Replay) -> Result<Value, String> {
    let streams: Vec<_> = (0..options.streams)
        .map(|_| {
            let (place, events) = (options.place.clone(), options.events);
            thread::spawn(move || fill(&place, events))
        })
        .collect();
    let mut known = vec![];
    for stream in streams {
        known.push(stream.join().map_err(|_| "a client failed".to_owned())??);
    }
    let (begun, mut events) = (Instant::now(), 0);
    for (session, first) in &known {
        let mut connection = Connection::open(options.place.port)?;
        let said = until_answered(&mut connection, &resume(&options.place, session, first))?;
        events += count(&said);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let expected = options.streams * options.events;
    let errors = usize::from(events < expected);
    let why = format!("{events} events instead of {expected}");
    Ok(json!({
        "events": events,
        "seconds": round(seconds, 4),
        "per_second": round(events as f64 / seconds, 1),
        "milliseconds": round(seconds * 1000.0, 2),
        "errors": errors,
        "first_error": if errors > 0 { why } else { String::new() },
    }))
}

/// A session whose stream has said so much, and the id of its first event.
fn fill(place: &crate::options::Place, events: usize) -> Result<(String, String), String> {
    let mut connection = Connection::open(place.port)?;
    let session = connection.open_session(place)?;
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"events","arguments":{{"count":{events}}},"_meta":{{"progressToken":1}}}}}}"#
    );
    let said = until_answered(&mut connection, &post_in_session(place, Some(&session), &call))?;
    let text = String::from_utf8_lossy(&said);
    let first = text.lines().find_map(|line| line.strip_prefix("id: "));
    Ok((session, first.ok_or("the stream has no event ids")?.to_owned()))
}

/// Everything up to the response.
fn until_answered(connection: &mut Connection, request: &[u8]) -> Result<Vec<u8>, String> {
    connection.stream.write_all(request).map_err(|error| format!("cannot send: {error}"))?;
    loop {
        connection.receive()?;
        if memmem::find(&connection.received, b"\"id\":7").is_some() {
            return Ok(std::mem::take(&mut connection.received));
        }
    }
}

fn count(said: &[u8]) -> usize {
    memmem::find_iter(said, b"notifications/progress").count()
}
