//! Sessions opened over many connections: closed again at once, or kept.

use crate::{
    answer::{Answer, Wire, start},
    ask::{Connection, is_accepted},
    calls,
    cpu::resident_kb,
    crowd::{Crowd, Heard, Speaker, Until},
    http::{Reader, of_session, post_in_session, session_id},
    message::{INITIALIZE, INITIALIZED},
    options::{Place, Sessions},
};
use memchr::memmem;
use serde_json::{Value, json};

/// How many sessions a second are opened and closed, and how long one takes.
pub fn run(options: &Sessions) -> Result<Value, String> {
    let mut crowd = crowd(&options.place, options.connections, Then::Close)?;
    let until = Until::Seconds(options.warm, options.seconds);
    let tally = crowd.run(until, options.place.pid).map_err(|error| error.to_string())?;
    let mut report = calls::report(tally);
    report["connections"] = json!(options.connections);
    report["resident_kb"] = json!(resident_kb(options.place.pid));
    Ok(report)
}

/// Connections that open sessions.
pub fn crowd(place: &Place, connections: usize, then: Then) -> Result<Crowd<Opener>, String> {
    let mut crowd = Crowd::new().map_err(|error| error.to_string())?;
    for _ in 0..connections {
        let connection = Connection::open(place.port)?;
        let opener = Opener::new(place, then);
        crowd.join(connection.stream, opener).map_err(|error| error.to_string())?;
    }
    Ok(crowd)
}

/// What becomes of a session that was opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Then {
    Close,
    Keep,
}

/// Opens one session after another.
pub struct Opener {
    place: Place,
    then: Then,
    step: Step,
    request: Vec<u8>,
    reader: Reader,
    /// The session being opened.
    session: String,
    /// Those that were kept.
    pub kept: Vec<String>,
}

#[derive(Clone, Copy)]
enum Step {
    Initialize,
    Initialized,
    Close,
}

impl Opener {
    fn new(place: &Place, then: Then) -> Self {
        Self {
            place: place.clone(),
            then,
            step: Step::Initialize,
            request: vec![],
            reader: Reader::default(),
            session: String::new(),
            kept: vec![],
        }
    }

    fn opened(&mut self, answer: &Answer, received: &[u8]) -> Result<Heard, String> {
        let body = answer.body.raw(received);
        if answer.status != 200 || memmem::find(body, b"\"serverInfo\"").is_none() {
            let (status, start) = (answer.status, start(body));
            return Err(format!("initialize was answered with {status}: {start}"));
        }
        self.session = session_id(received).ok_or("initialize was answered without a session")?;
        self.step = Step::Initialized;
        Ok(Heard::Step(answer.end))
    }

    fn accepted(&mut self, answer: &Answer) -> Result<Heard, String> {
        if !is_accepted(answer.status) {
            return Err(format!("initialized was answered with {}", answer.status));
        }
        if self.then == Then::Close {
            self.step = Step::Close;
            return Ok(Heard::Step(answer.end));
        }
        self.kept.push(std::mem::take(&mut self.session));
        self.step = Step::Initialize;
        Ok(Heard::Done(answer.end))
    }

    fn closed(&mut self, answer: &Answer) -> Result<Heard, String> {
        if !is_accepted(answer.status) {
            return Err(format!("DELETE was answered with {}", answer.status));
        }
        self.step = Step::Initialize;
        Ok(Heard::Done(answer.end))
    }
}

impl Speaker for Opener {
    fn prepare(&mut self) -> bool {
        self.request = match self.step {
            Step::Initialize => post_in_session(&self.place, None, INITIALIZE),
            Step::Initialized => post_in_session(&self.place, Some(&self.session), INITIALIZED),
            Step::Close => of_session("DELETE", &self.place, &self.session),
        };
        true
    }

    fn request(&self) -> &[u8] {
        &self.request
    }

    fn hear(&mut self, received: &[u8]) -> Result<Heard, String> {
        let Some(answer) = self.reader.read(received)? else {
            return Ok(Heard::NotYet);
        };
        match self.step {
            Step::Initialize => self.opened(&answer, received),
            Step::Initialized => self.accepted(&answer),
            Step::Close => self.closed(&answer),
        }
    }
}
