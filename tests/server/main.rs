//! What a server answers, in every revision.

mod asking;
mod authorizing;
mod bad_input;
mod cancelling;
mod handshake;
mod listening;
mod reporting;
mod resources;
mod roots;
mod smoke;
mod stateless;
mod stdio;
mod tasks;
mod tools;
mod transports;
