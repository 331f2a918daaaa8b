//! What every part of the client builds on, and what knows nothing of the protocol's messages.

pub(crate) mod backoff;
pub(crate) mod clock;
pub(crate) mod deadline;
pub(crate) mod http_error;
pub(crate) mod message_limits;
pub(crate) mod own_files;
pub(crate) mod url_policy;
