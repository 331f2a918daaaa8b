//! Lines of a script that mean nothing: a few of them are logged, and how many there were.

use crate::manifest::no_slip;

/// How many are logged in one run.
const MOST: u64 = 20;
/// How many characters of one.
const LONGEST: usize = 100;

/// What a run said that means nothing. The rest is counted, and logged when the run ends.
#[derive(Debug)]
pub(super) struct UnknownWords {
    /// Of which script.
    script: String,
    count: u64,
}

impl UnknownWords {
    pub(super) fn of(script: &str) -> Self {
        Self { script: shown(script), count: 0 }
    }

    /// Logs a word, unless there were many already.
    pub(super) fn note(&mut self, word: &str, known: &'static str) {
        if !self.counts() {
            return;
        }
        let (script, hint) = (&self.script, no_slip(word, known).err());
        let hint = hint.map_or(String::new(), |meant| format!(": did you mean `{meant}`?"));
        tracing::warn!("`{script}` said `{}`, which means nothing{hint}", shown(word));
    }

    /// Logs that a line was too long, unless there were many already.
    pub(super) fn note_long(&mut self) {
        if self.counts() {
            tracing::warn!("`{}` said too long a line, which is passed over", self.script);
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
            let (script, more) = (&self.script, self.count - MOST);
            tracing::warn!("`{script}` said {more} more lines that mean nothing");
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
