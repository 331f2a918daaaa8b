//! An answer on any wire, as places in the bytes that were received.

use memchr::memchr;
use std::ops::Range;

/// How answers are cut out of what a connection receives.
pub trait Wire {
    /// The answer at the start of `received`, once all of it is there.
    fn read(&mut self, received: &[u8]) -> Result<Option<Answer>, String>;
}

pub struct Answer {
    /// HTTP's; 200 on a wire that has none.
    pub status: u16,
    pub body: Body,
    /// Where the next answer starts.
    pub end: usize,
}

/// Where a body is.
pub enum Body {
    Whole(Range<usize>),
    /// In chunks, with their lengths between them.
    Chunked(Range<usize>),
}

impl Body {
    /// Its bytes as they were sent, lengths of chunks included: good enough to look for a word.
    pub fn raw<'a>(&self, received: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Whole(place) | Self::Chunked(place) => &received[place.clone()],
        }
    }

    pub fn joined(&self, received: &[u8]) -> Vec<u8> {
        match self {
            Self::Whole(place) => received[place.clone()].to_vec(),
            Self::Chunked(place) => join_chunks(&received[place.clone()]),
        }
    }
}

/// Where the chunk at a place has its bytes, and how many; nothing while its length is not there.
pub fn parse_chunk(received: &[u8], at: usize) -> Result<Option<(usize, usize)>, String> {
    let Some(line_end) = memchr(b'\n', &received[at..]) else {
        return Ok(None);
    };
    let line = std::str::from_utf8(&received[at..at + line_end]).unwrap_or_default();
    let digits = line.split(';').next().unwrap_or_default().trim();
    let length = usize::from_str_radix(digits, 16).map_err(|_| format!("a bad chunk: {line:?}"))?;
    Ok(Some((at + line_end + 1, length)))
}

fn join_chunks(chunks: &[u8]) -> Vec<u8> {
    let (mut joined, mut at) = (vec![], 0);
    while let Ok(Some((start, length))) = parse_chunk(chunks, at) {
        if length == 0 {
            break;
        }
        joined.extend_from_slice(&chunks[start..start + length]);
        at = start + length + 2;
    }
    joined
}

/// The start of a body, for people to read.
pub fn start(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(300)]).trim().to_owned()
}
