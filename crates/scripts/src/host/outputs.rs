//! Outputs too long to be shown: kept for their callers, and read in parts.

use crate::{
    content::{self, LARGEST},
    redact, run,
};
use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    io::{self, Read, Seek},
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use zcp::{Contents, Ctx, ResourceContents, wire::sync::lock};

/// How long, and how many, outputs are kept that are too long to be shown.
const KEPT_FOR: Duration = Duration::from_secs(60 * 60);
const KEPT: usize = 100;
/// And how many bytes of them.
const KEPT_BYTES: u64 = 1024 * 1024 * 1024;

/// The outputs of a server that are kept.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// How their URIs begin. Of two folders in one server each has its own.
    pub(crate) scheme: String,
    kept: Mutex<VecDeque<LongOutput>>,
    counted: AtomicU64,
}

#[derive(Debug)]
struct LongOutput {
    id: String,
    path: PathBuf,
    size: u64,
    mime: String,
    /// Who may read it.
    owner: String,
    /// Whose places it takes.
    share: String,
    /// What must not be read in it.
    secrets: Vec<String>,
    at: Instant,
}

impl Outputs {
    pub(super) fn new(scheme: String) -> Self {
        Self { scheme, kept: Mutex::default(), counted: AtomicU64::default() }
    }

    /// The name of a file nobody has used for an output yet.
    pub(super) fn next_name(&self) -> String {
        self.counted.fetch_add(1, Ordering::Relaxed).to_string()
    }

    fn outputs(&self) -> MutexGuard<'_, VecDeque<LongOutput>> {
        lock(&self.kept)
    }

    /// Moves the output of a run to `path` and keeps it for its caller. Beyond the limits, the caller
    /// who has most loses the oldest. Returns its URI.
    pub(super) fn keep(
        &self,
        path: PathBuf,
        output: &run::Output,
        mime: &str,
        ctx: &Ctx,
        secrets: &[String],
    ) -> String {
        if let Err(error) = fs::rename(&output.spill.path, &path) {
            tracing::warn!("a long output is not kept: {error}");
        }
        let id = zcp::random_name();
        let uri = format!("{}{id}", self.scheme);
        let mut outputs = self.outputs();
        outputs.push_back(LongOutput {
            id,
            path,
            size: output.total,
            mime: mime.to_owned(),
            owner: ctx.owner(),
            share: ctx.share(),
            secrets: secrets.to_vec(),
            at: Instant::now(),
        });
        while let Some(old) = one_too_many(&outputs).and_then(|at| outputs.remove(at)) {
            let _ = fs::remove_file(old.path);
        }
        uri
    }

    /// An output that was kept for this caller, or a part of it: `ID` is its beginning, and
    /// `ID/OFFSET` what follows. What is longer than a part says where the next one is.
    pub(crate) async fn read(&self, id: &str, owner: &str) -> Option<Contents> {
        let (id, from) = match id.split_once('/') {
            Some((id, from)) => (id, from.parse().ok()?),
            None => (id, 0),
        };
        let (path, mime, secrets) = {
            let outputs = self.outputs();
            let fresh = |one: &&LongOutput| one.at.elapsed() <= KEPT_FOR;
            let one =
                outputs.iter().filter(fresh).find(|one| one.id == id && one.owner == owner)?;
            (one.path.clone(), one.mime.clone(), one.secrets.clone())
        };
        let read = tokio::task::spawn_blocking(move || part(&path, from, &secrets));
        let (bytes, next) = read.await.ok()?.ok()?;
        let uri = format!("{}{id}", self.scheme);
        let own = if from == 0 { uri.clone() } else { format!("{uri}/{from}") };
        let has_odd_bytes = content::is_text(&mime) && content::odd_bytes(&bytes) > Some(0);
        let mut parts = vec![match has_odd_bytes {
            true => ResourceContents::text(own, mime, String::from_utf8_lossy(&bytes)),
            false => content::contents(bytes, mime, &own),
        }];
        if let Some(next) = next {
            let next = format!("{uri}/{next}");
            let words = format!("This is a part of the output. The next one is {next}");
            parts.push(ResourceContents::text(next, "text/plain", words));
        }
        Some(Contents::Parts(parts))
    }
}

/// The output that is to go, if one is: an old one, or the oldest of the caller who has most.
fn one_too_many(outputs: &VecDeque<LongOutput>) -> Option<usize> {
    if outputs.front()?.at.elapsed() > KEPT_FOR {
        return Some(0);
    }
    let are_many = outputs.len() > KEPT;
    let bytes: u64 = outputs.iter().map(|one| one.size).sum();
    if !are_many && bytes <= KEPT_BYTES {
        return None;
    }
    let mut shares: BTreeMap<&str, u64> = BTreeMap::new();
    for one in outputs {
        *shares.entry(&one.share).or_default() += if are_many { 1 } else { one.size };
    }
    let most = shares.values().max()?;
    outputs.iter().position(|one| shares.get(one.share.as_str()) == Some(most))
}

/// A part of a kept output without its secrets, and where the next part begins.
fn part(path: &Path, from: u64, secrets: &[String]) -> io::Result<(Vec<u8>, Option<u64>)> {
    let mut file = fs::File::open(path)?;
    // A secret may begin before, and end after.
    let around = secrets.iter().map(String::len).max().unwrap_or_default() as u64;
    let begin = from.saturating_sub(around);
    file.seek(io::SeekFrom::Start(begin))?;
    let mut bytes = vec![];
    let before = usize::try_from(from - begin).unwrap_or_default();
    file.take(from - begin + LARGEST + around).read_to_end(&mut bytes)?;
    let most = usize::try_from(LARGEST).unwrap_or(usize::MAX);
    let end = bytes.len().min(before.saturating_add(most));
    if end == bytes.len() {
        return Ok((redact::hide_bytes(&bytes, before..end, secrets), None));
    }
    // No letter is cut in two.
    let is_within = |at: &usize| bytes[*at] & 0b1100_0000 == 0b1000_0000;
    let end = (end - 3..=end).rev().find(|at| !is_within(at)).unwrap_or(end);
    let next = begin + end as u64;
    Ok((redact::hide_bytes(&bytes, before..end, secrets), Some(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(share: &str, size: u64) -> LongOutput {
        let (id, mime, owner) = (String::new(), String::new(), String::new());
        let (path, secrets, share) = (PathBuf::new(), vec![], share.to_owned());
        LongOutput { id, path, size, mime, owner, share, secrets, at: Instant::now() }
    }

    #[test]
    fn whoever_keeps_most_outputs_loses_the_oldest() {
        let mut all: VecDeque<LongOutput> = [output("one", 1)].into();
        all.extend((1..KEPT).map(|_| output("many", 1)));
        assert_eq!(one_too_many(&all), None);
        all.push_back(output("two", 1));
        assert_eq!(one_too_many(&all), Some(1));
        let large =
            [output("one", 1), output("two", KEPT_BYTES / 2), output("one", KEPT_BYTES / 2)];
        assert_eq!(one_too_many(&large.into()), Some(0));
        let large = [output("one", 1), output("two", KEPT_BYTES)];
        assert_eq!(one_too_many(&large.into()), Some(1));
    }
}
