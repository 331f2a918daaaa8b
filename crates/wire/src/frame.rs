//! A JSON-RPC frame, its payload left as text until someone needs it.

use crate::{
    Id, MethodName, RpcError,
    json::{self, Broken, Reader, read_members},
    params::Params,
};
use bytes::Bytes;
use bytestring::ByteString;
use std::ops::Range;

/// One message between two peers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Frame {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Is the answer.
    Response(Response),
}

/// A method to run and the id its answer must carry.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Echoed by the response, digit for digit.
    pub id: Id,
    /// For example `tools/call`.
    pub method: MethodName,
    /// JSON text of an object; absent when the sender gave none.
    pub params: Option<ByteString>,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// For example `notifications/progress`.
    pub method: MethodName,
    /// JSON text of an object; absent when the sender gave none.
    pub params: Option<ByteString>,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// Absent only when the request was so broken that its id could not be read.
    pub id: Option<Id>,
    /// JSON text of the result, or why there is none.
    pub result: Result<ResultText, RpcError>,
}

/// JSON text of a result, and of more of its frame if that was written together with it.
#[derive(Debug, Clone, Default)]
pub struct ResultText {
    text: ByteString,
    extent: Extent,
}

/// What a text holds beside the result.
#[derive(Debug, Clone, Default)]
enum Extent {
    /// Nothing.
    #[default]
    Alone,
    /// The brace that closes the frame.
    Closed,
    /// The frame around it; the result is there.
    Framed(Range<usize>),
}

impl ResultText {
    /// A result to be sent again and again, with the brace that closes its frames: a long one
    /// then leaves with one system call.
    pub fn closed(mut result: String) -> Self {
        result.push('}');
        Self { text: result.into(), extent: Extent::Closed }
    }

    fn at(&self) -> Range<usize> {
        match &self.extent {
            Extent::Alone => 0..self.text.len(),
            Extent::Closed => 0..self.text.len() - 1,
            Extent::Framed(at) => at.clone(),
        }
    }

    /// The text alone.
    pub fn into_text(self) -> ByteString {
        match self.extent {
            Extent::Alone => self.text,
            _ => self.text.slice_ref(&self),
        }
    }

    fn is_framed(&self) -> bool {
        matches!(self.extent, Extent::Framed(_))
    }
}

impl From<ByteString> for ResultText {
    fn from(text: ByteString) -> Self {
        Self { text, extent: Extent::Alone }
    }
}

impl std::ops::Deref for ResultText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text[self.at()]
    }
}

impl PartialEq for ResultText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Response {
    /// A response whose frame is written once, around a result of about so many bytes.
    pub fn write(id: Id, length: usize, result: impl FnOnce(&mut String)) -> Self {
        let mut out = String::with_capacity(length + id.as_json().len() + 48);
        out.push_str(OPENING);
        member(&mut out, "id", id.as_json());
        member(&mut out, "result", "");
        let begin = out.len();
        result(&mut out);
        let extent = Extent::Framed(begin..out.len());
        out.push('}');
        Self { id: Some(id), result: Ok(ResultText { text: out.into(), extent }) }
    }

    /// The frame in parts, if its result is as long as this and in no frame yet: a wire may send
    /// a long result as it is held, instead of copying it.
    pub fn in_parts(&self, long: usize) -> Option<Vec<Bytes>> {
        let result = self.result.as_ref().ok()?;
        if result.is_framed() || result.len() < long {
            return None;
        }
        let mut before = String::with_capacity(80);
        before.push_str(OPENING);
        if let Some(id) = &self.id {
            member(&mut before, "id", id.as_json());
        }
        member(&mut before, "result", "");
        let mut parts = vec![before.into(), result.text.clone().into_bytes()];
        if let Extent::Alone = result.extent {
            parts.push(Bytes::from_static(b"}"));
        }
        Some(parts)
    }
}

/// How every frame begins.
const OPENING: &str = r#"{"jsonrpc":"2.0""#;

/// A message that is not a frame, with the id to answer it by if that much could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Malformed {
    /// Echoed when it was readable.
    pub id: Option<Id>,
    /// -32700 or -32600.
    pub error: RpcError,
}

impl From<RpcError> for Malformed {
    fn from(error: RpcError) -> Self {
        Self { id: None, error }
    }
}

impl From<Malformed> for Frame {
    fn from(Malformed { id, error }: Malformed) -> Self {
        Self::Response(Response { id, result: Err(error) })
    }
}

/// The members of every kind of frame, as text; which are present tells the kind.
#[derive(Default)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    id: Option<&'a str>,
    method: Option<&'a str>,
    params: Option<&'a str>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

impl<'a> Envelope<'a> {
    /// Reads all members, and what is in the parameters: one pass.
    fn parse(text: &'a str, params: &mut Params<'a>) -> Result<Self, RpcError> {
        let mut all = Self::default();
        let mut reader = Reader::new(text);
        let twice = read_members(&mut reader, |reader, name| {
            if name == "params" && reader.is_at_object() {
                let object = reader.text_of(|reader| params.read(reader))?;
                return Some(all.params.replace(object).is_none());
            }
            let value = reader.value()?;
            let place = match name {
                "jsonrpc" => &mut all.jsonrpc,
                "id" => &mut all.id,
                "method" => &mut all.method,
                "params" => &mut all.params,
                "result" => &mut all.result,
                "error" => &mut all.error,
                _ => return Some(true),
            };
            Some(place.replace(value).is_none())
        });
        match twice.filter(|_| reader.end().is_some()) {
            Some(None) => Ok(all),
            Some(Some(name)) => {
                Err(RpcError::invalid_request(format!("not a message: `{name}` is there twice")))
            }
            None => Err(match json::explain(text) {
                Broken::NotJson(why) => RpcError::parse(why),
                Broken::NotAnObject => {
                    RpcError::invalid_request("not a message: a message is an object")
                }
            }),
        }
    }
}

impl Frame {
    /// Reads one frame of JSON text, borrowing from it.
    pub fn parse(text: &ByteString) -> Result<Self, Malformed> {
        Self::read(text, &mut Params::default())
    }

    /// Reads one frame of JSON text, and fills its parameters in.
    pub fn read<'a>(text: &'a ByteString, params: &mut Params<'a>) -> Result<Self, Malformed> {
        let envelope = Envelope::parse(text, params)?;
        if !json::is_plain(text.as_bytes()) {
            let id = envelope.id.and_then(Id::from_json);
            let why = "a name begins with `$serde_json::private::`, which is reserved";
            return Err(Malformed { id, error: RpcError::invalid_request(why) });
        }
        Self::of(text, &envelope)
    }

    fn of(text: &ByteString, envelope: &Envelope<'_>) -> Result<Self, Malformed> {
        let id = envelope.id.and_then(|raw| Id::take(raw, || text.slice_ref(raw)));
        let refuse =
            |why: &str| Malformed { id: id.clone(), error: RpcError::invalid_request(why) };

        if id.is_none() && envelope.id.is_some_and(|raw| raw.len() > Id::LONGEST) {
            return Err(refuse(&format!("`id` has more than {} bytes", Id::LONGEST)));
        }
        if envelope.jsonrpc != Some(r#""2.0""#) {
            return Err(refuse(r#"`jsonrpc` must be "2.0""#));
        }
        if let Some(method) = envelope.method {
            let method =
                method_name(text, method).ok_or_else(|| refuse("`method` must be a string"))?;
            let params = envelope.params.filter(|params| *params != "null");
            if params.is_some_and(|params| !params.starts_with('{')) {
                return Err(refuse("`params` must be an object"));
            }
            let params = params.map(|params| text.slice_ref(params));
            return match (envelope.id, id) {
                (None, _) => Ok(Self::Notification(Notification { method, params })),
                (Some(_), Some(id)) => Ok(Self::Request(Request { id, method, params })),
                (Some(_), None) => {
                    Err(RpcError::invalid_request("`id` must be a string or an integer").into())
                }
            };
        }
        let result = match (envelope.result, envelope.error.filter(|error| *error != "null")) {
            (Some(result), None) => Ok(text.slice_ref(result).into()),
            // Whoever waits for this answer is told; the peer's id must not be answered.
            (None, Some(error)) => Err(RpcError::read(error)),
            _ => return Err(refuse("neither a request, a notification nor a response")),
        };
        Ok(Self::Response(Response { id, result }))
    }

    /// Appends the frame as one line of JSON text, without the newline.
    pub fn write(&self, out: &mut String) {
        out.push_str(OPENING);
        match self {
            Self::Request(Request { id, method, params }) => {
                member(out, "id", id.as_json());
                named(out, method, params.as_deref());
            }
            Self::Notification(Notification { method, params }) => {
                named(out, method, params.as_deref());
            }
            Self::Response(Response { id, result }) => {
                if let Some(id) = id {
                    member(out, "id", id.as_json());
                }
                match result {
                    Ok(result) => member(out, "result", result),
                    Err(error) => member(out, "error", &json::text(error)),
                }
            }
        }
        out.push('}');
    }

    /// The frame as JSON text, not copied if it was written before.
    pub fn into_text(self) -> ByteString {
        match self {
            Self::Response(Response { result: Ok(result), .. }) if result.is_framed() => {
                result.text
            }
            _ => self.to_text(),
        }
    }

    /// The frame as JSON text.
    pub fn to_text(&self) -> ByteString {
        if let Self::Response(Response { result: Ok(result), .. }) = self
            && result.is_framed()
        {
            return result.text.clone();
        }
        let payload = match self {
            Self::Request(Request { params, .. })
            | Self::Notification(Notification { params, .. }) => {
                params.as_ref().map_or(0, |params| params.len())
            }
            Self::Response(Response { result, .. }) => result.as_ref().map_or(0, |it| it.len()),
        };
        let mut out = String::with_capacity(payload + 160);
        self.write(&mut out);
        out.into()
    }
}

fn method_name(text: &ByteString, method: &str) -> Option<MethodName> {
    match json::plain_string(method) {
        Some(name) => Some(MethodName::read(name, || text.slice_ref(name))),
        None => serde_json::from_str::<String>(method).ok().map(Into::into),
    }
}

fn member(out: &mut String, name: &str, json: &str) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
    out.push_str(json);
}

fn named(out: &mut String, method: &str, params: Option<&str>) {
    out.push_str(",\"method\":");
    json::push_string(out, method);
    if let Some(params) = params {
        member(out, "params", params);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Frame, Malformed> {
        Frame::parse(&ByteString::from(text))
    }

    #[test]
    fn an_id_comes_back_digit_for_digit() {
        for id in ["0", "-7", "\"\"", "\"a b\"", "123456789012345678901234567890"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            assert_eq!(parse(&text).unwrap().to_text(), text);
        }
    }

    #[test]
    fn an_id_of_another_kind_is_refused_without_an_id() {
        for id in ["null", "1.5", "1e3", "true", "[]", "{}"] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let malformed = parse(&text).unwrap_err();
            assert_eq!((malformed.id, malformed.error.code), (None, crate::error::INVALID_REQUEST));
        }
    }

    #[test]
    fn an_id_over_one_kibibyte_is_refused() {
        let longest = format!("\"{}\"", "x".repeat(Id::LONGEST - 2));
        assert!(parse(&format!(r#"{{"jsonrpc":"2.0","id":{longest},"method":"ping"}}"#)).is_ok());
        for id in [format!("\"{}\"", "x".repeat(Id::LONGEST - 1)), "1".repeat(Id::LONGEST + 1)] {
            for rest in [r#""method":"ping""#, r#""result":{}"#] {
                let malformed = parse(&format!(r#"{{"jsonrpc":"2.0","id":{id},{rest}}}"#));
                let Malformed { id, error } = malformed.unwrap_err();
                assert_eq!((id, error.code), (None, crate::error::INVALID_REQUEST));
                assert!(error.message.contains("1024 bytes"), "{}", error.message);
            }
            assert_eq!(Id::from_json(&id), None);
        }
    }

    #[test]
    fn a_readable_id_is_kept_for_the_error() {
        let malformed = parse(r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#).unwrap_err();
        assert_eq!(malformed.id, Some(Id::text("x")));
    }

    #[test]
    fn two_spellings_of_a_string_are_one_id() {
        assert_eq!(Id::from_json(r#""\u0061""#), Some(Id::text("a")));
    }

    #[test]
    fn broken_json_is_a_parse_error_and_odd_json_an_invalid_request() {
        assert_eq!(parse("{").unwrap_err().error.code, crate::error::PARSE_ERROR);
        assert_eq!(parse("7").unwrap_err().error.code, crate::error::INVALID_REQUEST);
        assert_eq!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#).unwrap_err().error.code,
            crate::error::INVALID_REQUEST
        );
    }

    #[test]
    fn a_hundred_thousand_brackets_are_an_error_and_no_overflow() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}{}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        // The envelope leaves the payload as text; whoever parses it has a depth limit.
        let _ = parse(&deep);
    }
}
