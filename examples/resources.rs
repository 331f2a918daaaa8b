//! Resources, a template, completion. Run it: `cargo run -p zcp --example resources`

use serde::Serialize;
use std::time::Duration;
use zcp::{CacheScope, CallError, Json, Resource, Result, Server, Stdio, Typed, resource};

const BOOKS: [(&str, &str); 3] =
    [("dune", "Frank Herbert"), ("emma", "Jane Austen"), ("ubik", "Philip K. Dick")];

#[derive(Serialize)]
struct Book {
    title: String,
    author: &'static str,
}

/// How to find your way in this library.
#[resource("library://about", mime_type = "text/markdown")]
async fn about() -> &'static str {
    "# The library\n\nEvery book is at `book://` and its title."
}

// The parameter is the template's variable.
/// A book, by its title.
#[resource("book://{title}", name = "book", title = "A book", mime_type = "application/json")]
async fn read_book(title: String) -> Result<Json<Book>> {
    let found = BOOKS.iter().find(|(known, _)| *known == title);
    let (_, author) = found.ok_or_else(|| CallError::not_found(&title))?;
    Ok(Json(Book { title, author }))
}

/// What a person may mean by what they have typed so far.
async fn titles(typed: Typed) -> Vec<String> {
    let titles = BOOKS.iter().map(|(title, _)| (*title).to_owned());
    titles.filter(|title| title.contains(&typed.value)).collect()
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    let day = Duration::from_secs(24 * 60 * 60);
    Server::new("library")
        .resource(Resource::from_fn(about).cache(day, CacheScope::Public))
        .resource(Resource::from_fn(read_book).complete("title", titles))
        .serve(Stdio)
        .await
}
