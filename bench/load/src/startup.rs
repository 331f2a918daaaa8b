//! A server started again and again: the time to its first right answer, its memory when idle.

use crate::{
    ask::Connection,
    cpu::{Meter, resident_kb, round},
    http::{call, post_in_session},
    message::INITIALIZE,
    options::{Era, Operation, Startup, Work},
    verify::message,
};
use serde_json::{Value, json};
use std::{
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries to reach it.
const PAUSE: Duration = Duration::from_micros(200);
/// How long it is left alone before its memory is looked at.
const REST: Duration = Duration::from_millis(300);

pub fn run(options: &Startup) -> Result<Value, String> {
    let (mut times, mut resident, mut others) = (vec![], vec![], vec![]);
    for _ in 0..options.times {
        let start = start_once(options)?;
        times.push(start.milliseconds);
        resident.push(start.resident_kb);
        others.push(start.other_cores);
    }
    Ok(json!({
        "milliseconds": round(median(&mut times), 3),
        "fastest": round(times[0], 3),
        "slowest": round(times[times.len() - 1], 3),
        "resident_kb": median(&mut resident),
        "other_cores": median(&mut others),
        "errors": 0,
        "first_error": "",
    }))
}

/// One start of the server.
struct Start {
    /// To the first answer.
    milliseconds: f64,
    /// When idle.
    resident_kb: f64,
    /// What the rest of the machine did meanwhile.
    other_cores: f64,
}

fn start_once(options: &Startup) -> Result<Start, String> {
    let request = request(options);
    let started = Instant::now();
    let child = Command::new(&options.server[0])
        .args(&options.server[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", options.server[0]))?;
    let meter = Meter::start(child.id());
    while !is_answered(options.place.port, &request) {
        if started.elapsed() > PATIENCE {
            end(child);
            return Err("the server does not answer".to_owned());
        }
        thread::sleep(PAUSE);
    }
    let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
    thread::sleep(REST);
    let other_cores = meter.stop().other_cores();
    let resident_kb = resident_kb(child.id()) as f64;
    end(child);
    Ok(Start { milliseconds, resident_kb, other_cores })
}

fn request(options: &Startup) -> Vec<u8> {
    let operation = Operation::Echo;
    let work = Work { era: options.era, operation, tools: 0, any_id: true };
    match options.era {
        Era::Session => post_in_session(&options.place, None, INITIALIZE),
        Era::Modern => call(&options.place, &work, None).bytes().to_vec(),
    }
}

fn is_answered(port: u16, request: &[u8]) -> bool {
    let reply = Connection::open(port).and_then(|mut connection| connection.ask(request));
    let result = reply.ok().filter(|reply| reply.status == 200);
    let answer = result.and_then(|reply| message(&reply.body));
    answer.is_some_and(|answer| answer["result"].is_object())
}

fn end(mut child: Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
