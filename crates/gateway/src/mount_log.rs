//! What is logged of one mount: in short lines, and not more than so many at a time.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Mutex,
    time::Duration,
};
use tokio::time::Instant;
use zcp::wire::sync::lock;

/// Entries of a list that are logged one by one; of more, only the number is.
const LISTED: usize = 20;
/// Maximum number of lines about one mount in a period.
const LINES: usize = 100;
const PERIOD: Duration = Duration::from_secs(10 * 60);
/// Maximum length of a name, and of an entry of a list, in characters.
const NAME: usize = 100;
const ENTRY: usize = 500;
/// Maximum number of rows of a line, and of characters of each.
const ROWS: usize = 50;
const ROW: usize = 5000;

/// The log of one mount. Its server chooses what is in it, so it is limited.
#[derive(Debug)]
pub(crate) struct Log {
    mount: String,
    written: Mutex<Written>,
}

#[derive(Debug)]
struct Written {
    since: Instant,
    lines: usize,
    /// Lines that were left out since then.
    omitted: usize,
    /// The entries that each list had the last time.
    told: BTreeMap<&'static str, HashSet<String>>,
}

impl Log {
    pub(crate) fn new(mount: &str) -> Self {
        let (since, told) = (Instant::now(), BTreeMap::new());
        let written = Mutex::new(Written { since, lines: 0, omitted: 0, told });
        Self { mount: mount.to_owned(), written }
    }

    /// Logs a line, unless there were too many.
    pub(crate) fn warn(&self, line: &str) {
        let mut written = lock(&self.written);
        written.warn(&self.mount, line);
    }

    /// Logs what is new in a list since the last time.
    pub(crate) fn warn_of_new(&self, list: &'static str, entries: &[String]) {
        let mut written = lock(&self.written);
        let entries: Vec<_> = entries.iter().map(|entry| cut(&plain(entry), ENTRY)).collect();
        let told = written.told.remove(list).unwrap_or_default();
        let new: Vec<_> = entries.iter().filter(|entry| !told.contains(*entry)).collect();
        for entry in new.iter().take(LISTED) {
            written.warn(&self.mount, &format!("left out: {entry}"));
        }
        if new.len() > LISTED {
            let (more, mount) = (new.len() - LISTED, &self.mount);
            written.warn(mount, &format!("left out: {more} more of the mount `{mount}` ({list})"));
        }
        written.told.insert(list, entries.into_iter().collect());
    }
}

impl Written {
    fn warn(&mut self, mount: &str, line: &str) {
        if self.since.elapsed() > PERIOD {
            if self.omitted > 0 {
                tracing::warn!("{} more lines about the mount `{mount}`", self.omitted);
            }
            (self.since, self.lines, self.omitted) = (Instant::now(), 0, 0);
        }
        self.lines += 1;
        if self.lines <= LINES {
            // A line that goes on is marked: nobody can make it look like the next one.
            let line: Vec<_> = line.lines().take(ROWS).map(|row| cut(&plain(row), ROW)).collect();
            tracing::warn!("{}", line.join("\n  | "));
            return;
        }
        self.omitted += 1;
        if self.omitted == 1 {
            tracing::warn!(
                "more than {LINES} lines about the mount `{mount}`: the others of the next {} \
                 minutes are only counted",
                PERIOD.as_secs() / 60
            );
        }
    }
}

/// A name that a server chose, as it is logged: short, and without control characters.
pub(crate) fn shown(name: &str) -> String {
    cut(&plain(&cut(name, NAME)), NAME)
}

/// A text without characters that cannot be seen or that move the cursor.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\'' | '"' | '\\' => plain.push(letter),
            letter => plain.extend(letter.escape_debug()),
        }
    }
    plain
}

/// The beginning of a text.
pub(crate) fn cut(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_names_are_short_and_have_no_control_characters() {
        assert_eq!(shown("x://it's"), "x://it's");
        assert_eq!(shown("a\nWARN b\r\u{1b}[31m"), r"a\nWARN b\r\u{1b}[31m");
        assert_eq!(shown(&"é".repeat(5000)).chars().count(), NAME + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn lines_about_a_mount_are_limited_and_counted() {
        let log = Log::new("far");
        (0..1000).for_each(|number| log.warn(&number.to_string()));
        let state = || {
            let written = log.written.lock().unwrap();
            (written.lines.min(LINES), written.omitted)
        };
        assert_eq!(state(), (LINES, 900));
        tokio::time::sleep(PERIOD + Duration::from_secs(1)).await;
        log.warn("later");
        assert_eq!(state(), (1, 0));
        // The same is not logged again, and of many only some are.
        let many =
            |from: usize| (from..from + 1000).map(|number| number.to_string()).collect::<Vec<_>>();
        log.warn_of_new("names", &many(0));
        assert_eq!(state(), (1 + LISTED + 1, 0));
        log.warn_of_new("names", &many(0));
        assert_eq!(state(), (1 + LISTED + 1, 0));
        log.warn_of_new("names", &many(3));
        assert_eq!(state(), (1 + LISTED + 1 + 3, 0));
    }
}
