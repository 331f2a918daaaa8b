//! The command line of every server: `stdio`, or `http PORT MODE`.

/// Where a server is asked to serve.
#[derive(Clone, Copy, Debug)]
pub enum Wire {
    /// Lines on standard input and output.
    Stdio,
    /// Streamable HTTP on 127.0.0.1.
    Http {
        /// The port to listen on.
        port: u16,
        /// The kind of clients that will come.
        mode: Mode,
    },
}

/// What clients speak over HTTP. Servers that serve both at once need not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Revision 2026-07-28: no sessions.
    Modern,
    /// Revision 2025-11-25, with sessions.
    Session,
}

const USAGE: &str = "use `stdio`, `http PORT modern` or `http PORT session`";

impl Wire {
    /// Reads the words after the program's name; the error says what they should be.
    pub fn from_args(args: impl Iterator<Item = String>) -> Result<Self, String> {
        let words: Vec<String> = args.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["stdio"] => Ok(Self::Stdio),
            ["http", port, mode] => Ok(Self::Http { port: port_of(port)?, mode: mode_of(mode)? }),
            _ => Err(USAGE.into()),
        }
    }
}

fn port_of(word: &str) -> Result<u16, String> {
    word.parse().map_err(|_| format!("`{word}` is no port: {USAGE}"))
}

fn mode_of(word: &str) -> Result<Mode, String> {
    match word {
        "modern" => Ok(Mode::Modern),
        "session" => Ok(Mode::Session),
        _ => Err(format!("`{word}` is no mode: {USAGE}")),
    }
}
