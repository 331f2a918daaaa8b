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

mod builder;
mod client;
mod connection;
mod error;
mod group;
mod icons;
pub mod oauth;
mod request;
mod skills;
mod support;
pub mod transport;

pub use builder::Builder;
pub use client::{
    Client,
    task::{Task, TaskState},
    tool_call::{Call, Started},
};
pub use connection::{changes::Changes, eras::Eras, link::Server};
pub use error::{Error, Failure, Late, Result};
pub use group::{Group, Listing};
pub use icons::Picture;
pub use oauth::{OAuth, Vault};
pub use request::{answers::Answer, cache::Cache, change::Change, round_trip::Progress};
pub use skills::{File as SkillFile, Files as SkillFiles, OpenSkill, Skill};
pub use transport::{Endpoint, Http, Process, Sse2024, Ws};
pub use zcp_wire as wire;
pub use zcp_wire::mcp::tasks::TaskStatus;
