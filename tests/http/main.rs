//! HTTP and WebSocket: messages, sessions, limits.

mod callers;
mod hardening;
mod http;
mod limits;
mod replays;
mod sessions;
mod sockets;
mod under_way;
mod unread;
