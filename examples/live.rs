//! Offers that change while the server runs. Run it: `cargo run -p zcp --example live`

use std::{
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use zcp::{Catalog, Ctx, Live, Resource, Result, Server, State, Stdio, Tool, tool};

/// The words the server knows.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<Vec<String>>>);

impl Words {
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tool for each of them.
    fn catalog(&self) -> Catalog {
        let add = |catalog: Catalog, word: String| {
            let name = format!("say_{word}");
            catalog.tool(Tool::new(name, move || ready(word.clone())).read_only())
        };
        self.lock().iter().cloned().fold(Catalog::default(), add)
    }
}

/// Teach the server a word: from then on it has a tool that says it.
#[tool]
async fn learn(word: String, words: State<Words>, live: State<Live>, ctx: Ctx) -> Result<String> {
    words.lock().push(word.clone());
    // Clients that want to know are told that the list of tools has changed.
    live.set(words.catalog());
    // Clients that subscribed to the resource are told to read it again.
    ctx.updated("words://all").await?;
    Ok(format!("now there is say_{word}"))
}

async fn all_words(words: State<Words>) -> String {
    words.lock().join("\n")
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    let live = Live::default();
    let readable = Resource::new("words://all", all_words).name("words");
    Server::new("parrot")
        .provide(live.clone())
        .state(live)
        .state(Words::default())
        .tool(learn)
        .resource(readable.watched())
        .serve(Stdio)
        .await
}
