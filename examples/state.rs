//! State every handler shares, and an extractor. Run it: `cargo run -p zcp --example state`

use std::sync::{Arc, Mutex, PoisonError};
use zcp::{CallError, FromCall, Input, Principal, Result, Server, Signature, State, Stdio, tool};

/// Notes, shared by all callers: a clone is another handle on the same list.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn with<T>(&self, work: impl FnOnce(&mut Vec<String>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An extractor: who writes, if they are allowed to.
struct Author(String);

impl FromCall for Author {
    fn describe(signature: &mut Signature) {
        signature.needs::<Notes>(); // what `Server::build` checks
    }

    async fn from_call(input: &Input) -> Result<Self> {
        match Principal::from_call(input).await?.as_str() {
            "mallory" => Err(CallError::Denied { scope: "notes:write".into() }),
            "" => Ok(Self("somebody".into())),
            name => Ok(Self(name.to_owned())),
        }
    }
}

/// Write a note.
#[tool]
async fn write(text: String, author: Author, notes: State<Notes>) -> String {
    let count = notes.with(|notes| {
        notes.push(format!("{}: {text}", author.0));
        notes.len()
    });
    format!("that makes {count}")
}

/// Read every note.
#[tool(read_only)]
async fn read(notes: State<Notes>) -> String {
    notes.with(|notes| notes.join("\n"))
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    Server::new("notes").state(Notes::default()).tool(write).tool(read).serve(Stdio).await
}
