//! Other MCP servers as part of your own: a [`Provider`](zcp::Provider) that offers their tools,
//! prompts and resources.
//!
//! Each server is a [`Mount`]: a command that speaks MCP on standard input and output, a server
//! over HTTP, or another provider. The gateway connects in the background, so a server that does
//! not answer never delays the start. Clients are notified when what is offered changes.
//!
//! ```no_run
//! use zcp::{Http, Server};
//! use zcp_gateway::{Gateway, Mount};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let gateway = Gateway::builder()
//!     .mount("time", Mount::command(["uvx", "mcp-server-time"]).pass_env("TZ"))
//!     .mount("docs", Mount::http("https://example.com/mcp").tools(["get_*", "!get_secret*"]))
//!     .lock_file("zcp.lock")
//!     .build()?;
//! Server::new("all").provide(gateway.clone()).serve(Http::new(([127, 0, 0, 1], 8787))).await?;
//! gateway.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # The lock file
//!
//! What a server says of its tools, prompts and resources reaches the model, and may change at any
//! time. With [`Builder::lock_file`] it is pinned: what is new or has changed since it was accepted
//! is left out, and a warning is logged. What the lock file holds is listed at once, before the
//! server was started. The first time a server is seen everything it offers is accepted, unless
//! [`Mount::locked`] or [`Builder::locked`] says otherwise. [`Gateway::describe`] reads what all
//! servers offer now, for a new lock file. Without a lock file nothing is pinned.
//!
//! # States
//!
//! A mount is a state machine: [idle](State::Idle) → [starting](State::Starting) →
//! [ready](State::Ready) → [degraded](State::Degraded), with the time of the next attempt →
//! [stopped](State::Stopped). [`Gateway::states`] and [`Gateway::watch`] show the states, and a
//! warning is logged when a server goes away or comes back.

mod board;
mod calls;
mod error;
mod gateway;
mod lock;
mod mount;
mod mount_log;
mod names;
mod offers;
mod overlap;
mod remote_catalog;
mod state;
mod upstream;

pub use error::{Error, Mistake, Result};
pub use gateway::{Builder, Gateway};
pub use lock::{Difference, LockFile};
pub use mount::Mount;
pub use offers::Kind;
pub use state::State;
