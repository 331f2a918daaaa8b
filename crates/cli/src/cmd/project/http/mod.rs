//! `zcp http`: makes the request a file says, with the arguments on standard input.

mod fill;
mod request;
mod text;

use crate::{errors::Exited, home, print};
use fill::Ready;
use reqwest::{Client, Method, Response, StatusCode, Url, header, redirect};
use serde_json::{Map, Value};
use std::{
    error::Error,
    fs::OpenOptions,
    io::{IsTerminal, Read, Write},
    path::PathBuf,
    time::Duration,
};

/// A request: what a tool that is an `.http` file does.
#[derive(Debug, clap::Args)]
pub(crate) struct Request {
    /// The file.
    pub(crate) file: PathBuf,

    /// Seconds after which an answer is no longer waited for.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) timeout: u64,
}

/// Bytes an answer may have.
const LARGEST: usize = 10 * 1024 * 1024;
/// How much of an answer is shown that is a failure.
const SHOWN: usize = 2000;
/// How often a request may be sent on to another address.
const MOST_MOVES: usize = 5;
/// Shorter values are no secrets, and would be found everywhere.
const SHORTEST_SECRET: usize = 4;

/// The variable that names where a tool says what its failure is.
const CHANNEL: &str = "ZCP_OUT";

pub(crate) async fn run(request: Request) -> Result<(), Box<dyn Error>> {
    let done = requested(request).await;
    match (done, home::variable(CHANNEL).filter(|path| !path.is_empty())) {
        (Err(error), Some(channel)) => Err(told(&channel, error)),
        (done, _) => done,
    }
}

/// Says to the server why a request failed, which is then no failure of a program to the user.
fn told(channel: &str, error: Box<dyn Error>) -> Box<dyn Error> {
    let line = format!("error {}\n", Value::from(error.to_string()));
    let open = OpenOptions::new().append(true).open(channel);
    match open.and_then(|mut channel| channel.write_all(line.as_bytes())) {
        Ok(()) => Box::new(Exited::new(1, "")),
        Err(_) => error,
    }
}

async fn requested(request: Request) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(&request.file)
        .map_err(|error| format!("{}: {error}", request.file.display()))?;
    let template = request::parse(&text)?;
    let ready = fill::fill(&template, &arguments()?, &home::variable)?;
    let time = Duration::from_secs(request.timeout);
    let late = |_| format!("no answer within {} s: say more with `@timeout`", request.timeout);
    tokio::time::timeout(time, exchange(ready)).await.map_err(late)?
}

/// The arguments; none were given by a person who only types the command.
fn arguments() -> Result<Map<String, Value>, Box<dyn Error>> {
    let mut all = String::new();
    let mut stdin = std::io::stdin();
    if !stdin.is_terminal() {
        stdin.read_to_string(&mut all)?;
    }
    match all.trim() {
        "" => Ok(Map::new()),
        text => serde_json::from_str(text)
            .map_err(|error| format!("the arguments are no JSON object: {error}").into()),
    }
}

/// Asks, goes where it is sent, and shows what comes back.
async fn exchange(mut ready: Ready) -> Result<(), Box<dyn Error>> {
    let client = Client::builder()
        .redirect(redirect::Policy::none())
        .user_agent(concat!("zcp/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| explain(&error))?;
    for _ in 0..=MOST_MOVES {
        let mut asked = client.request(ready.method.clone(), ready.url.clone());
        for one in &ready.headers {
            asked = asked.header(one.name.clone(), one.value.clone());
        }
        if let Some(body) = &ready.body {
            asked = asked.body(body.clone());
        }
        let response = asked.send().await.map_err(|error| explain(&error))?;
        match moved(&response)? {
            Some(next) => ready.follow(response.status(), next),
            None => return show(response, &ready).await,
        }
    }
    Err(format!("it was sent on more than {MOST_MOVES} times").into())
}

/// Where the answer sends us, if it does.
fn moved(response: &Response) -> Result<Option<Url>, String> {
    let is_move = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let Some(place) = response.headers().get(header::LOCATION).filter(|_| is_move) else {
        return Ok(None);
    };
    let next = place.to_str().ok().and_then(|place| response.url().join(place).ok());
    let Some(next) = next.filter(|next| matches!(next.scheme(), "http" | "https")) else {
        return Err("it was sent on to an address that is none of http or https".to_owned());
    };
    // Whoever is asked does not choose whom else we reach from here.
    let host = next.host_str().unwrap_or_default();
    if response.url().host_str() != Some(host) {
        return Err(format!("it was sent on to another host, {host}: write that into the file"));
    }
    if response.url().scheme() == "https" && next.scheme() != "https" {
        return Err("it was sent on to an address that is not encrypted".to_owned());
    }
    Ok(Some(next))
}

impl Ready {
    /// Goes on at another address. What only the first may know is not told to another.
    fn follow(&mut self, status: StatusCode, next: Url) {
        if self.url.origin() != next.origin() {
            self.headers.retain(|one| !one.is_secret);
        }
        let is_plain = status == StatusCode::SEE_OTHER && self.method != Method::HEAD
            || self.method == Method::POST && matches!(status.as_u16(), 301 | 302);
        if is_plain {
            self.method = Method::GET;
            self.body = None;
            self.headers.retain(|one| one.name != header::CONTENT_TYPE);
        }
        self.url = next;
    }
}

/// The answer as it is, or why there is none.
async fn show(mut response: Response, ready: &Ready) -> Result<(), Box<dyn Error>> {
    let status = response.status();
    let mut body = vec![];
    while let Some(part) = response.chunk().await.map_err(|error| explain(&error))? {
        body.extend_from_slice(&part);
        if body.len() > LARGEST && status.is_success() {
            return Err(format!("the answer has more than {LARGEST} bytes: ask for less").into());
        }
        if body.len() > LARGEST {
            break;
        }
    }
    if !status.is_success() {
        return Err(failure(status, &body, ready).into());
    }
    if ready.method == Method::HEAD || body.is_empty() {
        return Ok(print::words(&about(&response, ready))?);
    }
    Ok(print::bytes(&body)?)
}

/// An answer without a body, in words.
fn about(response: &Response, ready: &Ready) -> String {
    let mut words = format!("HTTP {}", named(response.status()));
    for (name, value) in response.headers().iter().filter(|_| ready.method == Method::HEAD) {
        if let Some(value) = value.to_str().ok().filter(|_| name != header::SET_COOKIE) {
            words.push_str(&format!("\n{name}: {value}"));
        }
    }
    hidden(words, ready)
}

/// What came instead, without what was only meant for the server.
fn failure(status: StatusCode, body: &[u8], ready: &Ready) -> String {
    // Hidden before it is cut, which would leave half a secret.
    let text = hidden(String::from_utf8_lossy(body).into_owned(), ready);
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(end, _)| end);
    let more = if end < text.len() { " …" } else { "" };
    format!("HTTP {}\n{}{more}", named(status), text[..end].trim()).trim_end().to_owned()
}

fn named(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

/// A server may tell us what we told it.
fn hidden(words: String, ready: &Ready) -> String {
    let secrets = ready.secrets.iter().filter(|secret| secret.len() >= SHORTEST_SECRET);
    let mut secrets: Vec<&String> = secrets.collect();
    // One may be the beginning of another.
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets.into_iter().fold(words, |words, secret| words.replace(secret.as_str(), "***"))
}

/// An error and what is behind it, without the address, which may hold a secret.
fn explain(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(behind) = cause.source() {
        cause = behind;
    }
    let host = error.url().and_then(Url::host_str).unwrap_or("the server");
    match error.source() {
        Some(_) => format!("`{host}` cannot be reached: {cause}"),
        None => format!("`{host}` cannot be reached"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(text: &str) -> Ready {
        let variable = |name: &str| (name == "KEY").then(|| "s3cret".to_owned());
        let template = request::parse(text).expect("a request");
        fill::fill(&template, &Map::new(), &variable).expect("it is filled")
    }

    #[test]
    fn secrets_stay_with_the_first_host() {
        let text = "POST https://a.example/x\nAuthorization: Bearer abc\nX-Key: $KEY\nAccept: text/plain\n\nhello";
        let mut here = ready(text);
        here.follow(StatusCode::TEMPORARY_REDIRECT, "https://a.example/y".parse().unwrap());
        assert!(here.headers.iter().any(|one| one.name == "x-key"));
        assert_eq!((here.method.as_str(), here.body.as_deref()), ("POST", Some(&b"hello"[..])));
        for other in ["https://b.example/y", "http://a.example/y", "https://a.example:444/y"] {
            let mut there = ready(text);
            there.follow(StatusCode::FOUND, other.parse().unwrap());
            let names: Vec<_> = there.headers.iter().map(|one| one.name.as_str()).collect();
            assert_eq!(names, ["accept"], "{other}");
            assert_eq!((there.method.as_str(), there.body), ("GET", None));
        }
    }

    #[test]
    fn what_a_server_repeats_is_hidden() {
        let ready = ready("GET https://a.example/?key=$KEY");
        let words = failure(StatusCode::FORBIDDEN, b"no such key: s3cret", &ready);
        assert_eq!(words, "HTTP 403 Forbidden\nno such key: ***");
        let long = format!("{}s3cret", "x".repeat(SHOWN - 3));
        assert!(!failure(StatusCode::FORBIDDEN, long.as_bytes(), &ready).contains("s3"));
    }
}
