//! The limit of HTTP over the kernel's sockets: one thread, no async runtime.

use bench_limit::typed_answer;
use bench_shared::Wire;
use httparse::{EMPTY_HEADER, Status};
use mio::{
    Events, Interest, Poll, Registry, Token,
    event::Event,
    net::{TcpListener, TcpStream},
};
use std::{
    error::Error,
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr},
};

const LISTENER: Token = Token(usize::MAX);
/// More than any request of the benchmark, so that one read takes all there is.
const INPUT: usize = 1 << 18;
const HEADERS: usize = 24;

fn main() -> Result<(), Box<dyn Error>> {
    let Wire::Http { port, .. } = Wire::from_args(std::env::args().skip(1))? else {
        return Err("limit-raw serves HTTP only; limit-stdio serves stdio".into());
    };
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut events = Events::with_capacity(512);
    loop {
        poll.poll(&mut events, None)?;
        for token in events.iter().map(Event::token) {
            if token == LISTENER {
                accept_all(&listener, poll.registry(), &mut connections)?;
            } else {
                serve(&mut connections[token.0]);
            }
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    registry: &Registry,
    connections: &mut Vec<Option<Connection>>,
) -> io::Result<()> {
    while let Some((mut stream, _)) = if_ready(listener.accept())? {
        stream.set_nodelay(true)?;
        let token = Token(connections.len());
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        connections.push(Some(Connection::new(stream)));
    }
    Ok(())
}

/// Whatever goes wrong closes the connection.
fn serve(place: &mut Option<Connection>) {
    if let Some(connection) = place
        && connection.go_on().is_err()
    {
        *place = None;
    }
}

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    received: usize,
    output: Vec<u8>,
    sent: usize,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, input: vec![0; INPUT], received: 0, output: Vec::new(), sent: 0 }
    }

    /// Does all the socket is ready for; another event comes when it is ready again.
    fn go_on(&mut self) -> Result<(), Box<dyn Error>> {
        self.receive()?;
        if let Some(request) = whole_request(&self.input[..self.received])? {
            self.output.clear();
            self.sent = 0;
            write_response(&typed_answer(request)?, &mut self.output)?;
            // Clients wait for an answer before they ask again, so nothing follows the request.
            self.received = 0;
        }
        self.send()
    }

    fn receive(&mut self) -> Result<(), Box<dyn Error>> {
        match if_ready(self.stream.read(&mut self.input[self.received..]))? {
            Some(0) => Err("the client has gone, or its request is too long".into()),
            Some(count) => {
                self.received += count;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn send(&mut self) -> Result<(), Box<dyn Error>> {
        while self.sent < self.output.len() {
            let Some(count) = if_ready(self.stream.write(&self.output[self.sent..]))? else {
                break;
            };
            self.sent += count;
        }
        Ok(())
    }
}

/// The body of a request that has arrived in full.
fn whole_request(input: &[u8]) -> Result<Option<&[u8]>, Box<dyn Error>> {
    let mut headers = [EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let Status::Complete(start) = request.parse(input)? else {
        return Ok(None);
    };
    let mut headers = request.headers.iter();
    let length = match headers.find(|header| header.name.eq_ignore_ascii_case("content-length")) {
        Some(header) => str::from_utf8(header.value)?.parse()?,
        None => 0,
    };
    Ok(input[start..].get(..length))
}

/// The date is there for its length: hyper sends one too.
fn write_response(body: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
    write!(
        output,
        "HTTP/1.1 200 OK\r\n\
         content-type: application/json\r\n\
         content-length: {}\r\n\
         date: Sun, 15 Nov 2026 00:00:00 GMT\r\n\r\n",
        body.len()
    )?;
    output.write_all(body)
}

/// `None` when the socket would block.
fn if_ready<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
