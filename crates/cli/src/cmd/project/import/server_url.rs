//! Addresses of a described API, as requests name them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

/// The variable that has the server's address where the description does not.
pub(super) const BASE: &str = "BASE_URL";
/// What must not be in an address as it is, nor be taken for one of our places.
const STRANGE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b':')
    .remove(b'@')
    .remove(b'!')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b'%');

/// An address of a server without its last slash; a path alone is that of `$BASE_URL`.
pub(super) fn address(url: &str) -> String {
    let whole = Url::parse(url).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && !url.cannot_be_a_base()
            // What nobody has filled in is for the variable.
            && !url.host_str().unwrap_or_default().contains(['{', '}', '%'])
    });
    match whole {
        Some(url) => {
            let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
            let path = literal(url.path().trim_end_matches('/'));
            let host = url.host_str().unwrap_or_default().replace('$', "%24");
            format!("{}://{host}{port}{path}", url.scheme())
        }
        None if url.starts_with('/') => format!("${BASE}{}", literal(url.trim_end_matches('/'))),
        None => format!("${BASE}"),
    }
}

/// A part of an address that means only itself.
pub(super) fn literal(text: &str) -> String {
    utf8_percent_encode(text, STRANGE).to_string()
}
