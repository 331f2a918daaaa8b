//! Calls over a server's standard input and output: one by one, or all without waiting.

use crate::{
    calls::add_percentiles,
    cpu::{Meter, resident_kb, round},
    message::{FIRST_ID, INITIALIZE, INITIALIZED, Template},
    options::{Era, Stdio},
    verify::{Checker, message},
};
use memchr::memmem;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio as Channel},
    thread,
    time::{Duration, Instant},
};

/// Calls in one write, when nobody waits for answers.
const BATCH: u64 = 64;
/// How long a server may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn run(options: &Stdio) -> Result<Value, String> {
    let mut server = Server::start(&options.server)?;
    if options.work.era == Era::Session {
        server.initialize()?;
    }
    let mut checker = Checker::new(&options.work);
    let warm = Calls { first: FIRST_ID, count: options.warm };
    server.one_by_one(template(options), &warm, &mut checker)?;

    let pid = server.child.id();
    let meter = Meter::start(pid);
    let mut done = Done::default();
    for round in 0..options.rounds {
        let first = FIRST_ID + options.warm + round * options.count;
        let calls = Calls { first, count: options.count };
        done.add(if options.pipelined {
            server.all_at_once(template(options), &calls, &mut checker)?
        } else {
            server.one_by_one(template(options), &calls, &mut checker)?
        });
    }
    let usage = meter.stop();

    let answers = options.count * options.rounds;
    let mut report = usage.report(answers);
    report["per_second"] = json!(round(answers as f64 / usage.seconds, 1));
    report["seconds"] = json!(round(usage.seconds, 4));
    report["answers"] = json!(answers);
    report["errors"] = json!(done.errors);
    report["first_error"] = json!(done.first_error);
    report["compared"] = json!(checker.compared);
    report["resident_kb"] = json!(resident_kb(pid));
    add_percentiles(&mut report, &mut done.latencies);
    server.end();
    Ok(report)
}

/// Calls with ids that follow each other.
struct Calls {
    first: u64,
    count: u64,
}

impl Calls {
    fn ids(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }
}

/// What came of some calls.
#[derive(Default)]
struct Done {
    latencies: Vec<u32>,
    errors: u64,
    first_error: String,
}

impl Done {
    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.errors += other.errors;
        if self.first_error.is_empty() {
            self.first_error = other.first_error;
        }
    }

    fn note(&mut self, checked: Result<(), String>) {
        let Err(why) = checked else {
            return;
        };
        self.errors += 1;
        if self.first_error.is_empty() {
            self.first_error = why;
        }
    }
}

struct Server {
    child: Child,
    input: ChildStdin,
    output: Output,
}

struct Output {
    reader: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Server {
    fn start(command: &[String]) -> Result<Self, String> {
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Channel::piped())
            .stdout(Channel::piped())
            .stderr(Channel::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", command[0]))?;
        let input = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let reader = BufReader::with_capacity(1 << 20, output);
        Ok(Self { child, input, output: Output { reader, line: vec![] } })
    }

    fn initialize(&mut self) -> Result<(), String> {
        send(&mut self.input, format!("{INITIALIZE}\n").as_bytes())?;
        let answer = message(self.output.next_answer()?).unwrap_or_default();
        if !answer["result"]["serverInfo"].is_object() {
            return Err(format!("initialize was answered with {answer}"));
        }
        send(&mut self.input, format!("{INITIALIZED}\n").as_bytes())
    }

    /// Each call waits for the answer to the one before.
    fn one_by_one(
        &mut self,
        mut template: Template,
        calls: &Calls,
        checker: &mut Checker,
    ) -> Result<Done, String> {
        let mut done = Done::default();
        for id in calls.ids() {
            template.set_id(id);
            let asked = Instant::now();
            send(&mut self.input, template.bytes())?;
            let answer = self.output.next_answer()?;
            let nanoseconds = asked.elapsed().as_nanos();
            done.latencies.push(u32::try_from(nanoseconds).unwrap_or(u32::MAX));
            done.note(check(checker, answer, Some(id)));
        }
        Ok(done)
    }

    /// A thread sends everything; answers may come in any order, one for each call.
    fn all_at_once(
        &mut self,
        template: Template,
        calls: &Calls,
        checker: &mut Checker,
    ) -> Result<Done, String> {
        let Self { input, output, .. } = self;
        let (mut missing, mut done) = (Missing::new(calls), Done::default());
        thread::scope(|scope| {
            scope.spawn(move || send_all(template, calls, input));
            for _ in calls.ids() {
                let answer = output.next_answer()?;
                done.note(check(checker, answer, None));
                done.note(missing.strike(answer));
            }
            Ok(done)
        })
    }

    /// Closes its input and waits for its end.
    fn end(mut self) {
        drop(self.input);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > PATIENCE {
                let _ = self.child.kill();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Output {
    /// The next line that is no notification.
    fn next_answer(&mut self) -> Result<&[u8], String> {
        loop {
            self.line.clear();
            let length = self.reader.read_until(b'\n', &mut self.line);
            if length.map_err(|error| format!("cannot receive: {error}"))? == 0 {
                return Err("the server closed its output".to_owned());
            }
            let start = &self.line[..self.line.len().min(60)];
            if memmem::find(start, b"\"method\"").is_none() {
                return Ok(&self.line);
            }
        }
    }
}

/// The request, as a line.
fn template(options: &Stdio) -> Template {
    let request = options.work.operation.request(options.work.era, FIRST_ID);
    Template::new(format!("{request}\n").into_bytes())
}

fn send(input: &mut ChildStdin, bytes: &[u8]) -> Result<(), String> {
    input.write_all(bytes).map_err(|error| format!("cannot send: {error}"))
}

/// If this fails, the server is gone, and whoever reads its output knows.
fn send_all(mut template: Template, calls: &Calls, input: &mut ChildStdin) -> Result<(), String> {
    let mut batch = vec![];
    for id in calls.ids() {
        template.set_id(id);
        batch.extend_from_slice(template.bytes());
        let count = id - calls.first + 1;
        if count.is_multiple_of(BATCH) || count == calls.count {
            send(input, &batch)?;
            batch.clear();
        }
    }
    Ok(())
}

fn check(checker: &mut Checker, answer: &[u8], id: Option<u64>) -> Result<(), String> {
    let whole = checker.wants_whole();
    checker.glance(answer)?;
    if whole { checker.compare(answer, id) } else { Ok(()) }
}

/// Which calls have no answer yet.
struct Missing {
    first: u64,
    is_missing: Vec<bool>,
}

impl Missing {
    fn new(calls: &Calls) -> Self {
        Self { first: calls.first, is_missing: vec![true; calls.count as usize] }
    }

    fn strike(&mut self, answer: &[u8]) -> Result<(), String> {
        let id = id(answer).ok_or("an answer has no id")?;
        let place = id.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        let is_missing = place.and_then(|place| self.is_missing.get_mut(place));
        match is_missing {
            Some(is_missing) if *is_missing => {
                *is_missing = false;
                Ok(())
            }
            _ => Err(format!("an answer to {id}, which was answered before or never asked")),
        }
    }
}

/// The id of an answer, without parsing all of it. No text that is echoed has such a member.
fn id(answer: &[u8]) -> Option<u64> {
    let name = b"\"id\":";
    let rest = &answer[memmem::find(answer, name)? + name.len()..];
    let digits = rest.iter().skip_while(|byte| **byte == b' ').take_while(|b| b.is_ascii_digit());
    let digits: Vec<u8> = digits.copied().collect();
    std::str::from_utf8(&digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_answered_once() {
        let mut missing = Missing::new(&Calls { first: 10, count: 2 });
        assert!(missing.strike(br#"{"jsonrpc":"2.0","id":11,"result":{}}"#).is_ok());
        assert!(missing.strike(br#"{"result":{},"id": 10}"#).is_ok());
        assert!(missing.strike(br#"{"id":11,"result":{}}"#).is_err());
        assert!(missing.strike(br#"{"id":12,"result":{}}"#).is_err());
    }
}
