//! The id of a request.

use crate::json;
use bytestring::ByteString;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};
use std::fmt;

/// A request id: a string or an integer of any size, kept as the JSON text it came as.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(ByteString);

impl Id {
    /// Maximum length of an id or a progress token, as JSON text, in bytes. Both are kept and
    /// repeated for as long as a request runs, so longer ones are rejected.
    pub const LONGEST: usize = 1024;

    /// An integer id.
    pub fn number(number: i64) -> Self {
        Self(number.to_string().into())
    }

    /// A string id.
    pub fn text(text: &str) -> Self {
        Self(json::text(text))
    }

    /// The id as JSON text: `7` or `"seven"`.
    pub fn as_json(&self) -> &str {
        &self.0
    }

    /// Takes the id from JSON text: a string or an integer of at most [`LONGEST`](Self::LONGEST)
    /// bytes, nothing else.
    pub fn from_json(json: &str) -> Option<Self> {
        Self::take(json, || json.to_owned().into())
    }

    pub(crate) fn take(json: &str, keep: impl FnOnce() -> ByteString) -> Option<Self> {
        if json.len() > Self::LONGEST {
            return None;
        }
        if json.starts_with('"') {
            // Two spellings of one string must be one id.
            return match json::plain_string(json) {
                Some(_) => Some(Self(keep())),
                None => serde_json::from_str::<String>(json).ok().map(|text| Self::text(&text)),
            };
        }
        let digits = json.strip_prefix('-').unwrap_or(json);
        let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        integer.then(|| Self(keep()))
    }
}

impl Serialize for Id {
    /// Integers beyond 128 bits are written as strings; [`as_json`](Self::as_json) keeps them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.starts_with('"') {
            let text: String = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
            return serializer.serialize_str(&text);
        }
        match (self.0.parse::<i64>(), self.0.parse::<i128>()) {
            (Ok(number), _) => serializer.serialize_i64(number),
            (_, Ok(number)) => serializer.serialize_i128(number),
            _ => serializer.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    /// Integers have at most 64 bits here; [`from_json`](Self::from_json) takes all.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(IdVisitor)
    }
}

struct IdVisitor;

impl Visitor<'_> for IdVisitor {
    type Value = Id;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an integer")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Id, E> {
        Ok(Id::number(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Id, E> {
        Ok(Id(number.to_string().into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
        Some(Id::text(text))
            .filter(|id| id.0.len() <= Id::LONGEST)
            .ok_or_else(|| E::custom("an id has at most 1024 bytes"))
    }
}
