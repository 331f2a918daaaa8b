//! The server: one module a theme, each adding what it offers.

mod asking;
mod changing;
mod models;
mod prompts;
mod resources;
mod skills;
mod slow;
mod tasks;
mod tools;

use zcp::Server;

/// A server with one of everything.
pub(crate) fn everything() -> Server {
    let server = Server::new("zcp-everything")
        .title("Everything")
        .description("A server with one of everything")
        .instructions("Call any tool: each shows one feature of the protocol.");
    let server = tools::offer(server);
    let server = asking::offer(server);
    let server = models::offer(server);
    let server = slow::offer(server);
    let server = tasks::offer(server);
    let server = changing::offer(server);
    let server = resources::offer(server);
    let server = skills::offer(server);
    prompts::offer(server)
}
