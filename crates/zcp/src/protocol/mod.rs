//! Frames to operations and outcomes to frames.

pub(crate) mod mcp;
