//! Other servers behind one server, and one policy for all.

mod gateway;
mod guarding;
mod mount_limits;
mod mounts;
