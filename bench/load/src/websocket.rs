//! WebSocket as a client: the upgrade, requests as masked frames, answers as frames.

use crate::{
    answer::{Answer, Body, Wire},
    http,
    message::{FIRST_ID, INITIALIZE, INITIALIZED, Template},
    options::{Place, Work},
    verify::message,
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// A client must mask what it sends. One key for all frames is enough to make the server unmask.
const MASK: [u8; 4] = [0x9a, 0x3c, 0x57, 0xe1];
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const FINAL: u8 = 0x80;
const PATIENCE: Duration = Duration::from_secs(30);

/// A call that can be sent again and again.
pub fn call(work: &Work) -> Template {
    let message = work.operation.request(work.era, FIRST_ID);
    Template::masked(frame_head(message.len()), message.as_bytes(), MASK)
}

/// The start of a text frame: its kind, its length and the mask.
fn frame_head(length: usize) -> Vec<u8> {
    let masked = 0x80;
    let mut head = vec![FINAL | TEXT];
    match length {
        0..=125 => head.push(masked | length as u8),
        126..=65535 => {
            head.push(masked | 126);
            head.extend_from_slice(&(length as u16).to_be_bytes());
        }
        _ => {
            head.push(masked | 127);
            head.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    head.extend_from_slice(&MASK);
    head
}

fn text_frame(message: &str) -> Vec<u8> {
    let mut frame = frame_head(message.len());
    frame.extend(message.bytes().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    frame
}

/// Reads frames; passes over pings and pongs.
#[derive(Clone, Copy)]
pub struct Reader;

impl Wire for Reader {
    fn read(&mut self, received: &[u8]) -> Result<Option<Answer>, String> {
        let mut at = 0;
        while let Some(frame) = parse_frame(received, at)? {
            if frame.kind == TEXT {
                let body = Body::Whole(frame.start..frame.end);
                return Ok(Some(Answer { status: 200, body, end: frame.end }));
            }
            at = frame.end;
        }
        Ok(None)
    }
}

struct Frame {
    kind: u8,
    start: usize,
    end: usize,
}

/// The frame at a place, once all of it is there.
fn parse_frame(received: &[u8], at: usize) -> Result<Option<Frame>, String> {
    let Some(&[first, second]) = received.get(at..at + 2) else {
        return Ok(None);
    };
    let kind = first & 0x0f;
    if kind == CLOSE {
        return Err("the server closed the connection".to_owned());
    }
    if first & FINAL == 0 {
        return Err("the server sent part of a message: not expected".to_owned());
    }
    let length_bytes = match second & 0x7f {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let start = at + 2 + length_bytes;
    let Some(long) = received.get(at + 2..start) else {
        return Ok(None);
    };
    let long = long.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    let length = if length_bytes == 0 { usize::from(second & 0x7f) } else { long };
    let end = start + length;
    Ok((received.len() >= end).then_some(Frame { kind, start, end }))
}

/// A connection that was upgraded.
pub struct Connection {
    pub stream: TcpStream,
}

impl Connection {
    pub fn open(place: &Place) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot connect: {error}");
        let mut stream = TcpStream::connect(("127.0.0.1", place.port)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.write_all(&http::upgrade(place)).map_err(failed)?;
        let head = read_head(&mut stream)?;
        if !head.starts_with("HTTP/1.1 101") {
            return Err(format!("the upgrade was refused: {head}"));
        }
        Ok(Self { stream })
    }

    /// Opens a conversation of 2025-11-25.
    pub fn initialize(&mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| error.to_string();
        self.stream.write_all(&text_frame(INITIALIZE)).map_err(failed)?;
        let answer = self.next_message()?;
        if !message(&answer).is_some_and(|answer| answer["result"]["serverInfo"].is_object()) {
            return Err("initialize was not answered well".to_owned());
        }
        self.stream.write_all(&text_frame(INITIALIZED)).map_err(failed)
    }

    fn next_message(&mut self) -> Result<Vec<u8>, String> {
        let (mut received, mut room) = (vec![], [0; 4096]);
        loop {
            let length = self.stream.read(&mut room).map_err(|error| error.to_string())?;
            if length == 0 {
                return Err("the server closed the connection".to_owned());
            }
            received.extend_from_slice(&room[..length]);
            if let Some(answer) = Reader.read(&received)? {
                return Ok(answer.body.joined(&received));
            }
        }
    }
}

/// Byte by byte, so that no frame after it is taken.
fn read_head(stream: &mut TcpStream) -> Result<String, String> {
    let (mut head, mut byte) = (vec![], [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).map_err(|error| format!("no answer: {error}"))?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(kind: u8, length: usize) -> Vec<u8> {
        let mut frame = frame_head(length);
        frame.truncate(frame.len() - MASK.len());
        frame[0] = FINAL | kind;
        frame[1] &= 0x7f;
        frame.resize(frame.len() + length, b'x');
        frame
    }

    #[test]
    fn frames_of_every_length_are_read_and_pings_passed_over() {
        for length in [3, 125, 126, 65_535, 65_536] {
            let received = [sent(9, 4), sent(TEXT, length)].concat();
            assert!(Reader.read(&received[..received.len() - 1]).unwrap().is_none());
            let answer = Reader.read(&received).unwrap().unwrap();
            assert_eq!(answer.body.raw(&received).len(), length);
            assert_eq!(answer.end, received.len());
        }
    }
}
