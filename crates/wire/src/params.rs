//! A request's parameters: one borrowed pass over the members of every method.

use crate::{
    Id, RpcError,
    json::{self, Broken, Reader, fill, read_members},
    meta::Meta,
    method::Member,
};
use serde::de::DeserializeOwned;
use std::borrow::Cow;

/// The members a server's methods take, each as JSON text; one that is `null` is not there. A
/// method reads its own further on, so that a wrong member is an error of that member and an
/// unknown one is none.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "each field is the member of its name")]
pub struct Params<'a> {
    pub meta: Option<Meta<'a>>,
    /// A `_meta` that is none.
    odd_meta: Option<&'a str>,
    wrong: Option<String>,
    other_meta: Option<&'a str>,
    pub name: Option<&'a str>,
    pub uri: Option<&'a str>,
    pub arguments: Option<&'a str>,
    pub cursor: Option<&'a str>,
    pub input_responses: Option<&'a str>,
    pub request_state: Option<&'a str>,
    pub reference: Option<&'a str>,
    pub argument: Option<&'a str>,
    pub context: Option<&'a str>,
    pub level: Option<&'a str>,
    pub notifications: Option<&'a str>,
    pub protocol_version: Option<&'a str>,
    pub capabilities: Option<&'a str>,
    pub client_info: Option<&'a str>,
    pub request_id: Option<&'a str>,
    pub task: Option<&'a str>,
    pub task_id: Option<&'a str>,
}

impl<'a> Params<'a> {
    /// Reads the parameters' text; no text is no members.
    pub fn parse(text: Option<&'a str>) -> Result<Self, RpcError> {
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let (mut reader, mut all) = (Reader::new(text), Self::default());
        match all.read(&mut reader).filter(|()| reader.end().is_some()) {
            Some(()) => all.checked().map(|()| all),
            None => Err(RpcError::invalid_params(match json::explain(text) {
                Broken::NotJson(why) => format!("params: {why}"),
                Broken::NotAnObject => "`params` must be an object".to_owned(),
            })),
        }
    }

    /// Reads the parameters where they are in a message. Nothing when they are not an object.
    pub(crate) fn read(&mut self, reader: &mut Reader<'a>) -> Option<()> {
        let mut read_meta = Ok(());
        let twice = read_members(reader, |reader, name| {
            if name == "_meta" && reader.is_at_object() {
                let first = self.meta.is_none();
                read_meta = self.meta.insert(Meta::default()).read(reader)?;
                return Some(first);
            }
            match self.place(name) {
                Some(place) => fill(place, reader.value()?),
                None => reader.value().map(|_| true),
            }
        })?;
        self.wrong = match twice {
            Some(name) => Some(format!("params: `{name}` is there twice")),
            None if self.odd_meta.is_some() => Some("`_meta` must be an object".to_owned()),
            None => read_meta.err().or_else(|| self.long_token()),
        };
        Some(())
    }

    /// Refuses parameters that are wrong whatever the method.
    pub fn checked(&self) -> Result<(), RpcError> {
        self.wrong.as_ref().map_or(Ok(()), |why| Err(RpcError::invalid_params(why)))
    }

    /// The member that names what the request is about.
    pub fn naming(&self, member: Member) -> Option<&'a str> {
        match member {
            Member::Name => self.name,
            Member::Uri => self.uri,
            Member::TaskId => self.task_id,
        }
    }

    fn place<'b>(&'b mut self, name: &str) -> Option<&'b mut Option<&'a str>> {
        Some(match name {
            "_meta" => &mut self.odd_meta,
            "meta" => &mut self.other_meta,
            "name" => &mut self.name,
            "uri" => &mut self.uri,
            "arguments" => &mut self.arguments,
            "cursor" => &mut self.cursor,
            "inputResponses" => &mut self.input_responses,
            "requestState" => &mut self.request_state,
            "ref" => &mut self.reference,
            "argument" => &mut self.argument,
            "context" => &mut self.context,
            "level" => &mut self.level,
            "notifications" => &mut self.notifications,
            "protocolVersion" => &mut self.protocol_version,
            "capabilities" => &mut self.capabilities,
            "clientInfo" => &mut self.client_info,
            "requestId" => &mut self.request_id,
            "task" => &mut self.task,
            "taskId" => &mut self.task_id,
            _ => return None,
        })
    }

    /// Whether they name a revision, which makes their message stateless.
    pub fn says_version(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| meta.version.is_some())
    }

    /// What the request's progress is to be reported under: `_meta.progressToken`, or what
    /// older clients wrote, `meta.progressToken` and `meta.progress_token`.
    pub fn progress_token(&self) -> Option<&'a str> {
        self.any_token().filter(|token| Id::from_json(token).is_some())
    }

    /// Refuses a progress token that every progress notification would be long for.
    fn long_token(&self) -> Option<String> {
        let is_long = self.any_token().is_some_and(|token| token.len() > Id::LONGEST);
        is_long.then(|| format!("`progressToken` has more than {} bytes", Id::LONGEST))
    }

    fn any_token(&self) -> Option<&'a str> {
        let usual = self.meta.as_ref().and_then(|meta| meta.progress_token);
        let other = || {
            let mut token = None;
            let read = json::members(self.other_meta?, |name, value| {
                if let "progressToken" | "progress_token" = &*name {
                    token = Some(value);
                }
            });
            token.filter(|_| read)
        };
        usual.or_else(other)
    }
}

/// A member that must be a string.
pub fn text<'a>(name: &str, raw: Option<&'a str>) -> Result<Cow<'a, str>, RpcError> {
    optional_text(name, raw)?
        .ok_or_else(|| RpcError::invalid_params(format!("`{name}` is missing")))
}

/// A member that is a string if it is there.
pub fn optional_text<'a>(
    name: &str,
    raw: Option<&'a str>,
) -> Result<Option<Cow<'a, str>>, RpcError> {
    let Some(raw) = raw else { return Ok(None) };
    if let Some(plain) = json::plain_string(raw) {
        return Ok(Some(Cow::Borrowed(plain)));
    }
    serde_json::from_str::<String>(raw)
        .map(|text| Some(Cow::Owned(text)))
        .map_err(|_| RpcError::invalid_params(format!("`{name}` must be a string")))
}

/// A member that must be of a type.
pub fn member<T: DeserializeOwned>(name: &str, raw: Option<&str>) -> Result<T, RpcError> {
    let raw = raw.ok_or_else(|| RpcError::invalid_params(format!("`{name}` is missing")))?;
    serde_json::from_str(raw)
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
            assert_eq!(params.progress_token(), Some("7"), "{json}");
            let long = json.replace('7', &"7".repeat(Id::LONGEST + 1));
            let error = Params::parse(Some(&long)).unwrap_err();
            assert!(error.message.contains("1024 bytes"), "{error}");
        }
    }
}
