//! Questions of a server to the user: asked in the terminal, or answered in advance.

mod form;
mod given;

use crate::print;
pub(crate) use given::{Answers, Misfit};
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

/// Whom a server's questions go to.
#[derive(Clone)]
pub(crate) struct Asker {
    /// What the server is called.
    server: String,
    answers: Answers,
    misfit: Misfit,
    /// One question at a time.
    turn: Arc<Mutex<()>>,
}

impl Asker {
    pub(crate) fn new(server: String, answers: Answers, misfit: Misfit) -> Self {
        Self { server, answers, misfit, turn: Arc::default() }
    }

    /// Takes the next answer that was given in advance, or asks the user. Without a terminal there
    /// is nobody to ask, and the question is declined.
    pub(crate) async fn ask(self, question: Elicit) -> Answer<ElicitResult> {
        // Held until it is answered, though nobody may want the answer any more: the next line that
        // is typed belongs to this question.
        let turn = self.turn.lock_owned().await;
        if let Some(answer) = self.answers.next() {
            return Ok(given::fitting(&question, answer, &self.misfit));
        }
        if !io::stdin().is_terminal() {
            print::aside(&given::declined(&self.server, &question));
            return Ok(ElicitResult { action: Action::Decline, content: None });
        }
        let (server, given_up) = (self.server, Arc::new(AtomicBool::new(false)));
        // What is typed after Ctrl-C, which drops this, answers nothing.
        let _given_up_when_dropped = GivenUp(given_up.clone());
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            form::in_terminal(&server, &question, &given_up)
        })
        .await;
        Ok(asked
            .ok()
            .and_then(Result::ok)
            .unwrap_or(ElicitResult { action: Action::Cancel, content: None }))
    }
}

/// Says that nobody waits for an answer any more.
struct GivenUp(Arc<AtomicBool>);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Asks for a yes.
pub(crate) fn yes(question: &str) -> io::Result<bool> {
    yes_unless(question, &AtomicBool::new(false))
}

/// Asks for a yes, unless nobody waits for it.
fn yes_unless(question: &str, given_up: &AtomicBool) -> io::Result<bool> {
    let answer = line(question, given_up)?;
    Ok(answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes")))
}

/// A line that was typed; none at the end of the input, and none if nobody waits for it.
fn line(prompt: &str, given_up: &AtomicBool) -> io::Result<Option<String>> {
    if given_up.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut err = anstream::stderr();
    write!(err, "{}", print::harmless(prompt))?;
    err.flush()?;
    let mut text = String::new();
    let read = io::stdin().lock().read_line(&mut text)?;
    let is_answer = read > 0 && !given_up.load(Ordering::Relaxed);
    Ok(is_answer.then(|| text.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_waits_for_is_neither_asked_nor_answered() {
        let given_up = Arc::new(AtomicBool::new(false));
        drop(GivenUp(given_up.clone()));
        assert_eq!(line("Really?", &given_up).unwrap(), None);
        assert!(!yes_unless("Really?", &given_up).unwrap());
    }
}
