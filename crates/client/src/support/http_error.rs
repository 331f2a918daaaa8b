//! Errors of HTTP requests as text, without the secrets of their URLs.

use url::Position;

/// The server that an error is about, and the error's first cause.
pub(crate) fn explain(error: &reqwest::Error) -> String {
    let mut causes = vec![];
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    let server = error.url().map(|url| &url[Position::BeforeHost..Position::AfterPort]);
    let server = server.unwrap_or_default();
    match causes.last() {
        Some(last) => format!("`{server}` cannot be reached: {last}"),
        None if error.is_timeout() => format!("`{server}` does not answer"),
        None => format!("`{server}` cannot be reached"),
    }
}
