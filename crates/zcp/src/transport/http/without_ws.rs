//! WebSocket of a server that is built without it: there is nothing to upgrade to.

use ::http::StatusCode;

pub(crate) async fn upgrade() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "this server has no WebSocket")
}
