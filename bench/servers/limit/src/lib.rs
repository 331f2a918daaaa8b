//! What the limits answer with. They are no MCP servers: they check nothing, and show how much time is
//! left for a server that does.

mod prepared;
mod typed;

pub use prepared::prepared_answer;
pub use typed::typed_answer;
