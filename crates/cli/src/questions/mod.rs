//! Questions of a server to the user: asked in the terminal, or answered in advance.

mod form;
mod given;

use crate::print;
pub(crate) use given::Answers;
use std::{
    io::{self, BufRead, IsTerminal, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::sync::Mutex;
use zcp_client::{
    Answer,
    wire::mcp::elicitation::{Action, Elicit, ElicitResult},
};

/// Set by Ctrl-C: what is typed after that answers nothing.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Asks nothing any more, and takes no answer to what was asked.
pub(crate) fn stop() {
    STOPPED.store(true, Ordering::Relaxed);
}

/// Whom a server's questions go to.
#[derive(Clone)]
pub(crate) struct Asker {
    /// What the server is called.
    server: String,
    answers: Answers,
    /// One question at a time.
    turn: Arc<Mutex<()>>,
}

impl Asker {
    pub(crate) fn new(server: String, answers: Answers) -> Self {
        Self { server, answers, turn: Arc::default() }
    }

    /// Takes the next answer that was given in advance, or asks the user. Without a terminal there
    /// is nobody to ask, and the question is declined.
    pub(crate) async fn ask(self, question: Elicit) -> Answer<ElicitResult> {
        // Held until it is answered, though nobody may want the answer any more: the next line that
        // is typed belongs to this question.
        let turn = self.turn.lock_owned().await;
        if let Some(answer) = self.answers.next() {
            return Ok(answer);
        }
        if !io::stdin().is_terminal() {
            print::aside(&given::declined(&self.server, &question));
            return Ok(ElicitResult { action: Action::Decline, content: None });
        }
        let server = self.server;
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            form::in_terminal(&server, &question)
        })
        .await;
        Ok(asked
            .ok()
            .and_then(Result::ok)
            .unwrap_or(ElicitResult { action: Action::Cancel, content: None }))
    }
}

/// Asks for a yes.
pub(crate) fn yes(question: &str) -> io::Result<bool> {
    let answer = line(question)?;
    Ok(answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")))
}

/// A line that was typed; none at the end of the input, and none after Ctrl-C.
fn line(prompt: &str) -> io::Result<Option<String>> {
    if STOPPED.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut err = anstream::stderr();
    write!(err, "{}", print::harmless(prompt))?;
    err.flush()?;
    let mut text = String::new();
    let read = io::stdin().lock().read_line(&mut text)?;
    let is_answer = read > 0 && !STOPPED.load(Ordering::Relaxed);
    Ok(is_answer.then(|| text.trim().to_owned()))
}
