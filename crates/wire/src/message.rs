//! What one line, body or socket message holds: a frame, or a batch of them.

use crate::{Frame, Malformed, RpcError, json::Reader, params::Params};
use bytes::Bytes;
use bytestring::ByteString;

/// One message of a transport.
#[derive(Debug)]
pub enum Message {
    /// The usual case.
    One(Frame),
    /// An array of messages, which only 2025-03-26 allows.
    Batch(Batch),
}

impl Message {
    /// Reads a message, and fills the parameters of one frame in. They share the text.
    pub fn read<'a>(text: &'a ByteString, params: &mut Params<'a>) -> Result<Self, Malformed> {
        if !text.trim_start().starts_with('[') {
            return Frame::read(text, params).map(Self::One);
        }
        // Takes no memory, whatever is in it.
        match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => Ok(Self::Batch(Batch(text.clone()))),
            Err(why) => Err(RpcError::parse(why).into()),
        }
    }

    /// Reads a message that is needed as a whole.
    pub fn parse(bytes: Bytes) -> Result<Self, Malformed> {
        Self::read(&Self::text(bytes)?, &mut Params::default())
    }

    /// Bytes as text, if they are.
    pub fn text(bytes: Bytes) -> Result<ByteString, Malformed> {
        ByteString::try_from(bytes).map_err(|_| RpcError::parse("the bytes are not UTF-8").into())
    }
}

/// A batch that is not read yet: only the conversation it belongs to knows whether it may be, and
/// a short text can hold very many messages.
#[derive(Debug, Clone)]
pub struct Batch(ByteString);

impl Batch {
    /// Reads the messages.
    ///
    /// # Errors
    ///
    /// A batch that is not JSON, that is empty, or that has more than `max` messages. Reading
    /// stops at the first message too many.
    pub fn frames(&self, max: usize) -> Result<Vec<Result<Frame, Malformed>>, Malformed> {
        let mut items = vec![];
        let mut reader = Reader::new(&self.0);
        let whole = reader.array(|reader| {
            items.push(reader.value()?);
            (items.len() <= max).then_some(())
        });
        if items.len() > max {
            let why = format!("a batch may have {max} messages at most");
            return Err(RpcError::invalid_request(why).into());
        }
        if whole.and_then(|()| reader.end()).is_none() {
            return Err(RpcError::parse("broken batch").into());
        }
        if items.is_empty() {
            return Err(RpcError::invalid_request("an empty batch").into());
        }
        Ok(items.into_iter().map(|item| Frame::parse(&self.0.slice_ref(item))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{INVALID_REQUEST, PARSE_ERROR};

    fn read(text: &str, max: usize) -> Result<Vec<bool>, i64> {
        let message = Message::parse(text.to_owned().into());
        let batch = match message.map_err(|malformed| malformed.error.code)? {
            Message::Batch(batch) => batch,
            Message::One(_) => panic!("it is a batch"),
        };
        let frames = batch.frames(max).map_err(|malformed| malformed.error.code)?;
        Ok(frames.iter().map(Result::is_ok).collect())
    }

    #[test]
    fn a_batch_is_read_up_to_its_limit() {
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        assert_eq!(read(&format!(" [ {ping} , 7 ] "), 2), Ok(vec![true, false]));
        assert_eq!(read(&format!("[{ping},{ping},{ping}]"), 2), Err(INVALID_REQUEST));
        assert_eq!(read(" []", 2), Err(INVALID_REQUEST));
        for broken in ["[", "[1", "[1,]", "[1 2]", "[1]]", "[,1]"] {
            assert_eq!(read(broken, 2), Err(PARSE_ERROR), "{broken}");
        }
    }
}
