//! What memory an open session takes, or an open stream; and whether they are still alive.

use crate::{
    ask::Connection,
    cpu::{resident_kb, round},
    crowd::{Crowd, Heard, Speaker, Until},
    http::{Reader, call, of_session, post_listen},
    options::{Era, Kind, Open, Operation, Place, Work},
    sessions::{self, Opener, Then},
    verify::Checker,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::{collections::BTreeSet, thread, time::Duration};

/// How many are asked whether they are still there.
const PROBES: usize = 10;
/// How many streams are opened at once: no more than a server's queue holds.
const BATCH: usize = 100;
/// The time a server has to put its memory in order.
const REST: Duration = Duration::from_secs(1);

pub fn run(options: &Open) -> Result<Value, String> {
    raise_file_limit();
    let mut report = json!({ "asked_for": options.count, "first_error": "" });
    match options.kind {
        Kind::Session => {
            open_sessions(options, &mut report)?;
        }
        Kind::Stream => {
            // The sessions' connections stay open: only the streams are new.
            let (_crowd, sessions) = open_sessions(options, &mut report)?;
            let get = |session: &String| of_session("GET", &options.place, session);
            let requests: Vec<Vec<u8>> = sessions.iter().map(get).collect();
            open_streams(options, requests, "\r\n\r\n", &mut report)?;
        }
        Kind::Listen => {
            let requests = vec![post_listen(&options.place); options.count];
            open_streams(options, requests, "subscriptions/acknowledged", &mut report)?;
        }
    }
    Ok(report)
}

/// As many files as the system lets us have.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // What cannot be raised shows later, as a connection that cannot be opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Opens sessions and leaves them alone.
fn open_sessions(
    options: &Open,
    report: &mut Value,
) -> Result<(Crowd<Opener>, Vec<String>), String> {
    let (place, failed) = (&options.place, |error: std::io::Error| error.to_string());
    let mut crowd = sessions::crowd(place, options.connections, Then::Keep)?;
    // One on each connection first, so that the connections themselves are not counted.
    crowd.run(Until::Count(options.connections as u64), place.pid).map_err(failed)?;
    thread::sleep(REST);
    let before = resident_kb(place.pid);
    let tally = crowd.run(Until::Count(options.count as u64), place.pid).map_err(failed)?;
    thread::sleep(REST);
    let after = resident_kb(place.pid);

    let kept = crowd.speakers().flat_map(|opener| opener.kept.iter().skip(1));
    let sessions: Vec<String> = kept.cloned().collect();
    let probed: Vec<usize> = probes(sessions.len()).collect();
    let is_alive = |index: &&usize| answers(place, &sessions[**index]);
    report["sessions"] = json!(sessions.len());
    report["sessions_probed"] = json!(probed.len());
    report["sessions_alive"] = json!(probed.iter().filter(is_alive).count());
    report["kb_per_session"] = json!(each(before, after, sessions.len()));
    report["first_error"] = json!(tally.first_error);
    report["resident_kb"] = json!(after);
    Ok((crowd, sessions))
}

/// Opens a stream for each request, on a connection of its own.
fn open_streams(
    options: &Open,
    requests: Vec<Vec<u8>>,
    sign: &'static str,
    report: &mut Value,
) -> Result<(), String> {
    let place = &options.place;
    let mut crowd = Crowd::new().map_err(|error| error.to_string())?;
    let mut first_error = String::new();
    let before = resident_kb(place.pid);
    let mut requests = requests.into_iter();
    while first_error.is_empty() && requests.len() > 0 {
        for request in requests.by_ref().take(BATCH) {
            let stream = Connection::open(place.port)?.stream;
            let listener = Listener::new(request, sign);
            crowd.join(stream, listener).map_err(|error| error.to_string())?;
        }
        let tally = crowd.run(Until::Count(u64::MAX), place.pid);
        first_error = tally.map_err(|error| error.to_string())?.first_error;
    }
    thread::sleep(REST);
    let after = resident_kb(place.pid);

    let opened = crowd.speakers().filter(|listener| listener.is_open).count();
    let probed: Vec<usize> = probes(opened).collect();
    report["streams"] = json!(opened);
    report["streams_probed"] = json!(probed.len());
    report["streams_alive"] = json!(crowd.alive(probed.into_iter()));
    report["kb_per_stream"] = json!(each(before, after, opened));
    report["resident_kb"] = json!(after);
    if !first_error.is_empty() {
        report["first_error"] = json!(first_error);
    }
    Ok(())
}

/// Some places among so many: the first, the last, and between.
fn probes(count: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(1);
    let places: BTreeSet<usize> = (0..PROBES).map(|probe| probe * last / (PROBES - 1)).collect();
    places.into_iter().filter(move |_| count > 0)
}

fn each(before: u64, after: u64, count: usize) -> f64 {
    round((after as f64 - before as f64) / count.max(1) as f64, 3)
}

/// Whether a session can still be used.
fn answers(place: &Place, session: &str) -> bool {
    let work = Work { era: Era::Session, operation: Operation::Echo, tools: 0, any_id: true };
    let request = call(place, &work, Some(session));
    let reply = Connection::open(place.port).and_then(|mut it| it.ask(request.bytes()));
    reply.is_ok_and(|reply| {
        reply.status == 200 && Checker::new(&work).compare(&reply.body, None).is_ok()
    })
}

/// Asks for a stream, once, and waits for a sign that it is open.
struct Listener {
    request: Vec<u8>,
    has_asked: bool,
    sign: &'static str,
    reader: Reader,
    is_open: bool,
}

impl Listener {
    fn new(request: Vec<u8>, sign: &'static str) -> Self {
        Self { request, has_asked: false, sign, reader: Reader::default(), is_open: false }
    }
}

impl Speaker for Listener {
    fn prepare(&mut self) -> bool {
        !std::mem::replace(&mut self.has_asked, true)
    }

    fn request(&self) -> &[u8] {
        &self.request
    }

    fn hear(&mut self, received: &[u8]) -> Result<Heard, String> {
        let Some(status) = self.reader.status(received)? else {
            return Ok(Heard::NotYet);
        };
        if status != 200 {
            return Err(format!("the stream was answered with {status}"));
        }
        if memchr::memmem::find(received, self.sign.as_bytes()).is_none() {
            return Ok(Heard::NotYet);
        }
        self.is_open = true;
        Ok(Heard::Done(received.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_spread_from_the_first_to_the_last() {
        let spread: Vec<usize> = probes(10_000).collect();
        assert_eq!((spread.len(), spread[0], spread[9]), (PROBES, 0, 9999));
        assert_eq!(probes(1).collect::<Vec<_>>(), [0]);
        assert_eq!(probes(0).count(), 0);
    }
}
