//! The name of a method as it stands in a message, and the method it was looked up as.

use super::Method;
use bytestring::ByteString;
use std::{fmt, ops::Deref};

/// The method that a message names: its text, and its value if there is such a method. It is
/// looked up once, when the message is read or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodName {
    text: ByteString,
    method: Option<Method>,
}

impl MethodName {
    /// Reads a name. Its text is shared by `share` only where it is not that of the table.
    pub(crate) fn read(name: &str, share: impl FnOnce() -> ByteString) -> Self {
        match Method::parse(name) {
            Some(method) if method.name().len() == name.len() => method.into(),
            method => Self { text: share(), method },
        }
    }

    /// The method, if any revision has it.
    pub fn known(&self) -> Option<Method> {
        self.method
    }

    /// Whether it is that method.
    pub fn is(&self, method: Method) -> bool {
        self.method == Some(method)
    }

    /// The same name in memory of its own.
    #[must_use]
    pub fn detached(&self) -> Self {
        (&**self).into()
    }
}

impl Deref for MethodName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl PartialEq<str> for MethodName {
    fn eq(&self, name: &str) -> bool {
        **self == *name
    }
}

impl PartialEq<&str> for MethodName {
    fn eq(&self, name: &&str) -> bool {
        **self == **name
    }
}

impl From<Method> for MethodName {
    fn from(method: Method) -> Self {
        Self { text: ByteString::from_static(method.name()), method: Some(method) }
    }
}

impl From<&str> for MethodName {
    fn from(name: &str) -> Self {
        Self::read(name, || name.into())
    }
}

impl From<String> for MethodName {
    fn from(name: String) -> Self {
        (*name).into()
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistaken_name_is_understood_and_stays_as_it_was_sent() {
        let name = MethodName::from("completions/complete");
        assert_eq!((name.known(), &*name), (Some(Method::Complete), "completions/complete"));
        assert_eq!(MethodName::from("completion/complete"), MethodName::from(Method::Complete));
    }

    #[test]
    fn a_known_name_shares_no_text_with_its_message() {
        let name = MethodName::read("tools/call", || unreachable!("it is in the table"));
        assert_eq!((name.known(), &*name), (Some(Method::CallTool), "tools/call"));
        let text = ByteString::from("x/y");
        let unknown = MethodName::read("x/y", || text.clone());
        assert_eq!((unknown.known(), unknown.as_ptr()), (None, text.as_ptr()));
        assert_ne!(unknown.detached().as_ptr(), text.as_ptr());
    }
}
