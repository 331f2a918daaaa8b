//! What a tool's handler may return.

use super::error::{CallError, Result};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use zcp_wire::mcp::{
    Extra,
    content::{Content, Kind},
};

/// What a tool gave: content for the model, and structure for programs.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Output {
    /// For the model.
    pub content: Vec<Content>,
    /// For programs.
    #[serde(default, deserialize_with = "there", skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// The call failed, and the content says why.
    pub is_error: bool,
    /// What the result says about itself.
    pub meta: Extra,
}

/// What is there, even if it is `null`.
fn there<'a, D: Deserializer<'a>>(value: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(value).map(Some)
}

impl Output {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// A failure, in words the model can act on.
    pub fn failed(why: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(why) }
    }

    /// The beginning of why the call failed, if it did.
    pub(crate) fn complaint(&self) -> Option<String> {
        let text = self.content.iter().find_map(|one| match &one.kind {
            Kind::Text { text } => Some(text),
            _ => None,
        });
        text.filter(|_| self.is_error).map(|text| text.chars().take(200).collect())
    }

    /// Structure, with the same in words for models that read only those.
    pub fn structured(value: impl Into<Value>) -> Self {
        let value = value.into();
        Self {
            content: vec![Content::text(value.to_string())],
            structured: Some(value),
            ..Self::default()
        }
    }
}

/// What a tool's handler may return.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    note = "return text, `Json<T>`, `Content`, `Output`, or a `Result` of one of them"
)]
pub trait IntoOutput {
    /// The schema of the structure it gives, if it gives one.
    fn schema() -> Option<Value> {
        None
    }

    /// Makes the output.
    fn into_output(self) -> Result<Output>;
}

/// Structured output: `T` is the tool's output schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema> IntoOutput for Json<T> {
    fn schema() -> Option<Value> {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Some(super::signature::tidy_schema(schema.to_value()))
    }

    fn into_output(self) -> Result<Output> {
        Ok(Output::structured(serde_json::to_value(self.0)?))
    }
}

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output> {
        Ok(self)
    }
}

impl IntoOutput for () {
    fn into_output(self) -> Result<Output> {
        Ok(Output::default())
    }
}

impl IntoOutput for &'static str {
    fn into_output(self) -> Result<Output> {
        Ok(Output::text(self))
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<Output> {
        Ok(Output::text(self))
    }
}

impl IntoOutput for Content {
    fn into_output(self) -> Result<Output> {
        Ok(Output { content: vec![self], ..Output::default() })
    }
}

impl IntoOutput for Vec<Content> {
    fn into_output(self) -> Result<Output> {
        Ok(Output { content: self, ..Output::default() })
    }
}

macro_rules! as_text {
    ($($type:ty)*) => {$(
        impl IntoOutput for $type {
            fn into_output(self) -> Result<Output> {
                Ok(Output::text(self.to_string()))
            }
        }
    )*};
}
as_text!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool char);

impl<T: IntoOutput, E: Into<CallError>> IntoOutput for std::result::Result<T, E> {
    fn schema() -> Option<Value> {
        T::schema()
    }

    fn into_output(self) -> Result<Output> {
        self.map_err(Into::into)?.into_output()
    }
}
