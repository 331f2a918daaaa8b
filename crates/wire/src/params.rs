//! A request's parameters: one borrowed pass over the members of every method.

use crate::{RpcError, meta::Meta};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The members a server's methods take. Each is read as text here and by its method further on,
/// so that a wrong member is an error of that member and an unknown one is none.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "each field is the member of its name")]
pub struct Params<'a> {
    #[serde(borrow, default, rename = "_meta")]
    pub meta: Option<Meta<'a>>,
    #[serde(borrow, default, rename = "meta")]
    other_meta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub uri: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub cursor: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub input_responses: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub request_state: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "ref")]
    pub reference: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub argument: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub context: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub level: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub notifications: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub capabilities: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub client_info: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub request_id: Option<&'a RawValue>,
}

/// The `meta` some clients write for `_meta`.
#[derive(Deserialize)]
struct OtherMeta<'a> {
    #[serde(borrow, default, alias = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    /// Reads the parameters' text; no text is no members.
    pub fn parse(text: Option<&'a str>) -> Result<Self, RpcError> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        serde_json::from_str(text)
            .map_err(|error| RpcError::invalid_params(format!("params: {error}")))
    }

    /// What the request's progress is to be reported under: `_meta.progressToken`, or what
    /// older clients wrote, `meta.progressToken` and `meta.progress_token`.
    pub fn progress_token(&self) -> Option<&'a RawValue> {
        let usual = self.meta.as_ref().and_then(|meta| meta.progress_token);
        let other =
            || serde_json::from_str::<OtherMeta<'a>>(self.other_meta?.get()).ok()?.progress_token;
        usual.or_else(other).filter(|token| crate::Id::from_json(token.get()).is_some())
    }
}

/// A member that must be a string.
pub fn text<'a>(name: &str, raw: Option<&'a RawValue>) -> Result<Cow<'a, str>, RpcError> {
    optional_text(name, raw)?
        .ok_or_else(|| RpcError::invalid_params(format!("`{name}` is missing")))
}

/// A member that is a string if it is there.
pub fn optional_text<'a>(
    name: &str,
    raw: Option<&'a RawValue>,
) -> Result<Option<Cow<'a, str>>, RpcError> {
    let Some(raw) = raw else { return Ok(None) };
    if let Some(plain) = plain_string(raw.get()) {
        return Ok(Some(Cow::Borrowed(plain)));
    }
    serde_json::from_str::<String>(raw.get())
        .map(|text| Some(Cow::Owned(text)))
        .map_err(|_| RpcError::invalid_params(format!("`{name}` must be a string")))
}

/// The inside of a JSON string that has no escapes.
fn plain_string(json: &str) -> Option<&str> {
    let inner = json.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

/// A member that must be of a type.
pub fn member<T: DeserializeOwned>(name: &str, raw: Option<&RawValue>) -> Result<T, RpcError> {
    let raw = raw.ok_or_else(|| RpcError::invalid_params(format!("`{name}` is missing")))?;
    serde_json::from_str(raw.get())
        .map_err(|error| RpcError::invalid_params(format!("`{name}`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_progress_token_is_read_from_all_three_places() {
        for json in [
            r#"{"_meta":{"progressToken":7}}"#,
            r#"{"meta":{"progressToken":7}}"#,
            r#"{"meta":{"progress_token":7}}"#,
        ] {
            let params = Params::parse(Some(json)).unwrap();
            assert_eq!(params.progress_token().map(RawValue::get), Some("7"), "{json}");
        }
    }
}
