//! Who calls.

use std::sync::Arc;

/// Who calls: whatever a layer of the wire left in the request's extensions, or nobody in
/// particular. Sessions, handles and sealed states are bound to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<str>>);

impl Principal {
    /// Nobody in particular.
    pub const ANONYMOUS: Self = Self(None);

    /// A caller known by a name that is unique for this server.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(Some(name.into()))
    }

    /// The caller's name; empty for nobody in particular.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// Who an exchange's extensions say is calling.
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        extensions.get().cloned().unwrap_or(Self::ANONYMOUS)
    }
}
