//! A value that says where a secret is, and not what it is: `secret://KIND/…`.

/// How such a reference begins.
pub(crate) const SCHEME: &str = "secret://";

/// Whether a value is a reference.
pub(crate) fn is_reference(value: &str) -> bool {
    value.starts_with(SCHEME)
}

/// Whether a value is a secret for which the server runs a program or reads a file.
pub(super) fn is_from_outside(value: &str) -> bool {
    value.strip_prefix(SCHEME).is_some_and(|rest| !rest.starts_with("env/"))
}
