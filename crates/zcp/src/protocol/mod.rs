//! Frames to operations and outcomes to frames.

pub mod mcp;
