//! An access policy for MCP servers: who may call which tool, who is asked first, how often it may be
//! called, and an audit log.
//!
//! A [`Policy`] is a file. A [`Guard`] enforces it, as a [`Gate`](zcp::Gate) in front of all tools of a
//! server: its own functions, scripts, and tools of mounted servers, by the names that clients see.
//!
//! ```no_run
//! use zcp::{Http, Server, Tool};
//! use zcp_policy::{Guard, Policy};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let guard = Guard::new(Policy::file("policy.toml")?);
//! Server::new("shop")
//!     .tool(Tool::new("order", async || "ordered"))
//!     .gate(guard.clone())
//!     .serve(Http::new(([127, 0, 0, 1], 8787)))
//!     .await?;
//! guard.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! ```toml
//! audit = "audit.jsonl"
//!
//! [[rules]]
//! tool = "order"
//! arguments = { what = "cake*" }
//! action = "deny"
//! message = "There is no cake left."
//!
//! [[rules]]
//! tool = "order"
//! action = "ask"
//! rate = "10/minute"
//! ```
//!
//! A gate sees a call with its arguments as the handler will get them, in tasks as well, and again when
//! a task is continued by another process. It says nothing of resources and prompts.

mod audit;
mod audit_queue;
mod decision;
mod guard;
mod guarded_call;
mod judge;
mod log_file;
mod notes;
mod observed;
mod pattern;
mod policy;
mod rule_limits;
mod rules;
mod told;

pub use decision::argument_key;
pub use guard::Guard;
pub use judge::{Judge, Judged};
pub use notes::{Ended, Redact, Stderr};
pub use observed::{Observed, Outcome};
pub use policy::{Allowlist, Folders, Policy, PolicyError};
