//! An MCP client for servers of every revision.
//!
//! ```no_run
//! use serde_json::json;
//! use zcp_client::{Client, Process};
//!
//! # async fn example() -> Result<(), zcp_client::Error> {
//! let client = Client::connect(Process::new("uvx").arg("mcp-server-time")).await?;
//! for tool in client.list_tools().await? {
//!     println!("{}", tool.name);
//! }
//! let time = client.tool("get_current_time").args(json!({ "timezone": "UTC" })).send().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Which revision the server speaks, and how, is found out by [`Client::connect`]. What a server
//! asks of its client is answered by handlers given to [`Client::builder`].

mod answer;
mod answering;
mod builder;
mod cache;
mod call;
mod client;
mod clock;
mod connect;
mod eras;
mod error;
mod events;
mod exchange;
mod files;
mod form;
mod group;
mod icons;
mod limits;
mod listen;
mod net;
pub mod oauth;
mod pages;
mod pause;
mod skills;
mod task;
pub mod transport;

pub use answer::Answer;
pub use builder::Builder;
pub use cache::Cache;
pub use call::{Call, Started};
pub use client::Client;
pub use connect::Server;
pub use eras::Eras;
pub use error::{Error, Failure, Late, Result};
pub use exchange::Progress;
pub use group::{Group, Listing};
pub use icons::Picture;
pub use listen::{Change, Changes};
pub use oauth::{OAuth, Vault};
pub use skills::{OpenSkill, Skill};
pub use task::{Task, TaskState};
pub use transport::{Endpoint, http::Http, process::Process, sse2024::Sse2024, ws::Ws};
pub use zcp_wire as wire;
pub use zcp_wire::mcp::tasks::TaskStatus;
