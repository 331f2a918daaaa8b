//! Lines of a script that mean nothing: a few of them are logged, and how many there were.

/// How many are logged in one run.
const MOST: u64 = 20;
/// How many characters of one.
const LONGEST: usize = 100;

/// What a run said that means nothing. The rest is counted, and logged when the run ends.
#[derive(Debug, Default)]
pub(super) struct UnknownWords {
    count: u64,
}

impl UnknownWords {
    /// Logs a word, unless there were many already.
    pub(super) fn note(&mut self, word: &str) {
        if self.counts() {
            tracing::warn!("a script said `{}`, which means nothing", shown(word));
        }
    }

    /// Logs that a line was too long, unless there were many already.
    pub(super) fn note_long(&mut self) {
        if self.counts() {
            tracing::warn!("a script said too long a line, which is passed over");
        }
    }

    fn counts(&mut self) -> bool {
        self.count = self.count.saturating_add(1);
        self.count <= MOST
    }
}

impl Drop for UnknownWords {
    fn drop(&mut self) {
        if self.count > MOST {
            tracing::warn!("a script said {} more lines that mean nothing", self.count - MOST);
        }
    }
}

/// The beginning of a word, in which nothing moves a terminal or begins a line.
fn shown(word: &str) -> String {
    let escaped = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    let mut shown: String = word.chars().take(LONGEST).map(escaped).collect();
    if word.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_shown_in_short_and_without_control_characters() {
        assert_eq!(shown("hüllo"), "hüllo");
        assert_eq!(shown("a\u{1b}[2Jb\u{85}\r"), "a\\u{1b}[2Jb\\u{85}\\r");
        assert_eq!(shown(&"ü".repeat(100)), "ü".repeat(100));
        assert_eq!(shown(&"ü".repeat(1_000_000)), format!("{}…", "ü".repeat(100)));
    }
}
