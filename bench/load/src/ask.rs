//! One request and its answer, waited for; and sessions opened this way.

use crate::{
    answer::Wire,
    http::{Reader, post_in_session, session_id},
    message::{INITIALIZE, INITIALIZED},
    options::Place,
    verify::message,
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A connection that is asked and waits.
pub struct Connection {
    pub stream: TcpStream,
    pub received: Vec<u8>,
}

pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
    pub session: Option<String>,
}

impl Connection {
    pub fn open(port: u16) -> Result<Self, String> {
        let open = || {
            let stream = TcpStream::connect(("127.0.0.1", port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let opened = open().map_err(|error: std::io::Error| format!("cannot connect: {error}"));
        Ok(Self { stream: opened?, received: vec![] })
    }

    pub fn ask(&mut self, request: &[u8]) -> Result<Reply, String> {
        self.stream.write_all(request).map_err(|error| format!("cannot send: {error}"))?;
        self.received.clear();
        let mut reader = Reader::default();
        loop {
            self.receive()?;
            if let Some(answer) = reader.read(&self.received)? {
                let session = session_id(&self.received);
                let body = answer.body.joined(&self.received);
                return Ok(Reply { status: answer.status, body, session });
            }
        }
    }

    pub fn receive(&mut self) -> Result<(), String> {
        let mut room = [0; 65536];
        match self.stream.read(&mut room) {
            Ok(0) => Err("the server closed the connection".to_owned()),
            Ok(length) => {
                self.received.extend_from_slice(&room[..length]);
                Ok(())
            }
            Err(error) => Err(format!("cannot receive: {error}")),
        }
    }

    /// Opens a session and gives its name.
    pub fn open_session(&mut self, place: &Place) -> Result<String, String> {
        let reply = self.ask(&post_in_session(place, None, INITIALIZE))?;
        let answer = message(&reply.body).unwrap_or_default();
        if reply.status != 200 || !answer["result"]["serverInfo"].is_object() {
            return Err(format!("initialize was answered with {}: {answer}", reply.status));
        }
        let session = reply.session.ok_or("initialize was answered without a session id")?;
        let reply = self.ask(&post_in_session(place, Some(&session), INITIALIZED))?;
        if !is_accepted(reply.status) {
            return Err(format!("initialized was answered with {}", reply.status));
        }
        Ok(session)
    }
}

/// What a notification or the end of a session may be answered with.
pub fn is_accepted(status: u16) -> bool {
    matches!(status, 200 | 202 | 204)
}
