//! What a script writes: the beginning of its output, the end of its complaints.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::{
    fs::File,
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;

/// How much was read, for whoever wonders whether anything still comes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<AtomicU64>);

impl Seen {
    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Standard output: its beginning is held, all of it is in a file if there is more.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) held: Vec<u8>,
    /// How much is held.
    limit: usize,
    /// How much there may be in all.
    most: u64,
    pub(crate) total: u64,
    seen: Seen,
    /// Where all of it goes when it is more than is held.
    pub(crate) spill: Spill,
}

/// A file for what is too much to be held.
#[derive(Debug)]
pub(crate) struct Spill {
    pub(crate) path: PathBuf,
    file: Option<File>,
}

impl Drop for Spill {
    fn drop(&mut self) {
        // Whoever keeps it has moved it away.
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Output {
    pub(crate) fn new(limit: usize, most: u64, path: PathBuf, seen: Seen) -> Self {
        Self { held: vec![], limit, most, total: 0, seen, spill: Spill { path, file: None } }
    }

    /// There is more than is held, and all of it is in the file.
    pub(crate) fn is_spilled(&self) -> bool {
        self.spill.file.is_some()
    }

    /// There was more than there may be.
    pub(crate) fn is_too_much(&self) -> bool {
        self.total > self.most
    }

    /// Reads until the end, or until it is too much: whether it came to its end.
    pub(crate) async fn read(&mut self, mut from: impl AsyncRead + Unpin) -> std::io::Result<bool> {
        let mut chunk = vec![];
        loop {
            // Short answers need no second buffer.
            let room = self.limit.saturating_sub(self.held.len());
            if room > 0 && !self.is_spilled() {
                self.held.reserve(room.min(CHUNK / 8));
                let before = self.held.len();
                let mut limited = (&mut from).take(room as u64);
                if limited.read_buf(&mut self.held).await? == 0 {
                    return Ok(true);
                }
                self.total += (self.held.len() - before) as u64;
                self.seen.add(self.held.len() - before);
                continue;
            }
            chunk.reserve(CHUNK);
            if from.read_buf(&mut chunk).await? == 0 {
                if let Some(file) = &mut self.spill.file {
                    file.flush().await?;
                }
                return Ok(true);
            }
            self.total += chunk.len() as u64;
            self.seen.add(chunk.len());
            if self.is_too_much() {
                return Ok(false);
            }
            if self.spill.file.is_none() {
                let mut file = File::create(&self.spill.path).await?;
                file.write_all(&self.held).await?;
                self.spill.file = Some(file);
            }
            if let Some(file) = &mut self.spill.file {
                file.write_all(&chunk).await?;
            }
            chunk.clear();
        }
    }
}

/// Standard error: its last lines.
#[derive(Debug)]
pub(crate) struct Complaints {
    tail: VecDeque<u8>,
    seen: Seen,
}

impl Complaints {
    const HELD: usize = 4 * 1024;
    const LINES: usize = 20;

    pub(crate) fn new(seen: Seen) -> Self {
        Self { tail: VecDeque::new(), seen }
    }

    pub(crate) async fn read(&mut self, mut from: impl AsyncRead + Unpin) -> std::io::Result<()> {
        let mut chunk = Vec::with_capacity(4096);
        while from.read_buf(&mut chunk).await? > 0 {
            self.seen.add(chunk.len());
            self.tail.extend(chunk.drain(..));
            let more = self.tail.len().saturating_sub(Self::HELD);
            self.tail.drain(..more);
        }
        Ok(())
    }

    /// The last lines, as text.
    pub(crate) fn text(&self) -> String {
        let bytes: Vec<u8> = self.tail.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let first = lines.len().saturating_sub(Self::LINES);
        lines[first..].join("\n")
    }
}
