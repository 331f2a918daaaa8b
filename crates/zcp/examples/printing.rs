//! A tool that prints: over stdio its words go to standard error, and the protocol is not hurt.
//!
//! `cargo run -p zcp --example printing`

use zcp::{Server, Stdio, tool};

/// Prints, and says so.
#[tool]
#[expect(clippy::print_stdout, reason = "that is what it shows")]
async fn shout(words: String) -> String {
    println!("{words}");
    print!("{words} without an end");
    format!("printed:\n{words}")
}

#[tokio::main]
async fn main() -> Result<(), zcp::Error> {
    Server::new("printing").tool(shout).serve(Stdio).await
}
