//! The same call on every connection, over HTTP or WebSocket, and how long it takes.

use crate::{
    answer::{Answer, Wire, start},
    ask::Connection,
    cpu::{resident_kb, round},
    crowd::{Crowd, Heard, Speaker, Tally, Until},
    http,
    message::{FIRST_ID, Template},
    options::{Calls, Era},
    verify::Checker,
    websocket,
};
use serde_json::{Value, json};

/// Each connection has ids of its own.
const IDS_EACH: u64 = 10_000_000;

pub fn over_http(options: &Calls) -> Result<Value, String> {
    let mut crowd = Crowd::new().map_err(|error| error.to_string())?;
    for number in 0..options.connections {
        let mut connection = Connection::open(options.place.port)?;
        let session = match options.work.era {
            Era::Session => Some(connection.open_session(&options.place)?),
            Era::Modern => None,
        };
        let template = http::call(&options.place, &options.work, session.as_deref());
        let caller = Caller::new(template, http::Reader::default(), options, number);
        crowd.join(connection.stream, caller).map_err(|error| error.to_string())?;
    }
    run(crowd, options)
}

pub fn over_websocket(options: &Calls) -> Result<Value, String> {
    let mut crowd = Crowd::new().map_err(|error| error.to_string())?;
    for number in 0..options.connections {
        let mut connection = websocket::Connection::open(&options.place)?;
        if options.work.era == Era::Session {
            connection.initialize()?;
        }
        let template = websocket::call(&options.work);
        let caller = Caller::new(template, websocket::Reader, options, number);
        crowd.join(connection.stream, caller).map_err(|error| error.to_string())?;
    }
    run(crowd, options)
}

fn run<W: Wire>(mut crowd: Crowd<Caller<W>>, options: &Calls) -> Result<Value, String> {
    let until = match options.count {
        Some(count) => Until::Count(count),
        None => Until::Seconds(options.warm, options.seconds),
    };
    let tally = crowd.run(until, options.place.pid).map_err(|error| error.to_string())?;
    let compared: u64 = crowd.speakers().map(|caller| caller.checker.compared).sum();
    let mut report = report(tally);
    report["compared"] = json!(compared);
    report["connections"] = json!(options.connections);
    report["resident_kb"] = json!(resident_kb(options.place.pid));
    Ok(report)
}

/// Everything a run says about itself.
pub fn report(mut tally: Tally) -> Value {
    let usage = tally.usage.expect("a run that ended was metered");
    let mut report = usage.report(tally.done);
    report["per_second"] = json!(round(tally.done as f64 / usage.seconds, 1));
    report["seconds"] = json!(round(usage.seconds, 3));
    report["answers"] = json!(tally.done);
    report["bytes_each"] = json!(tally.bytes / tally.done.max(1));
    report["errors"] = json!(tally.errors);
    report["first_error"] = json!(tally.first_error);
    add_percentiles(&mut report, &mut tally.latencies);
    report
}

/// `p50_us`, `p99_us` and `p999_us` of nanoseconds.
pub fn add_percentiles(report: &mut Value, latencies: &mut [u32]) {
    latencies.sort_unstable();
    for (name, part) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        let place = (latencies.len() as f64 * part) as usize;
        let nanoseconds = latencies.get(place).or(latencies.last()).copied().unwrap_or(0);
        report[name] = json!(f64::from(nanoseconds) / 1000.0);
    }
}

/// Makes one call again and again, each time with a new id.
struct Caller<W> {
    template: Template,
    wire: W,
    checker: Checker,
    id: u64,
}

impl<W> Caller<W> {
    fn new(template: Template, wire: W, options: &Calls, number: usize) -> Self {
        let id = FIRST_ID + number as u64 * IDS_EACH;
        Self { template, wire, checker: Checker::new(&options.work), id }
    }
}

impl<W: Wire> Speaker for Caller<W> {
    fn prepare(&mut self) -> bool {
        self.id += 1;
        self.template.set_id(self.id);
        true
    }

    fn request(&self) -> &[u8] {
        self.template.bytes()
    }

    fn hear(&mut self, received: &[u8]) -> Result<Heard, String> {
        let Some(answer) = self.wire.read(received)? else {
            return Ok(Heard::NotYet);
        };
        match self.check(&answer, received) {
            Ok(()) => Ok(Heard::Done(answer.end)),
            Err(why) => Ok(Heard::Wrong(answer.end, why)),
        }
    }
}

impl<W> Caller<W> {
    fn check(&mut self, answer: &Answer, received: &[u8]) -> Result<(), String> {
        let whole = self.checker.wants_whole();
        let body = answer.body.raw(received);
        if answer.status != 200 {
            return Err(format!("status {}: {}", answer.status, start(body)));
        }
        self.checker.glance(body)?;
        if whole {
            self.checker.compare(&answer.body.joined(received), Some(self.id))?;
        }
        Ok(())
    }
}
