//! Tools of every kind of content, schema and failure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;
use zcp::{Args, Content, Ctx, Json, Level, Output, ResourceContents, Result, Server, Tool, tool};

/// A red dot.
pub(crate) const PNG: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0,
    1, 0, 0, 0, 1, 8, 2, 0, 0, 0, 0x90, 0x77, 0x53, 0xde, 0, 0, 0, 0x0c, b'I', b'D', b'A', b'T',
    0x08, 0xd7, 0x63, 0xf8, 0xcf, 0xc0, 0, 0, 3, 1, 1, 0, 0x18, 0xdd, 0x8d, 0xb0, 0, 0, 0, 0, b'I',
    b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
];

/// A moment of silence.
pub(crate) const WAV: &[u8] = &[
    b'R', b'I', b'F', b'F', 38, 0, 0, 0, b'W', b'A', b'V', b'E', b'f', b'm', b't', b' ', 16, 0, 0,
    0, 1, 0, 1, 0, 0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0, b'd', b'a', b't', b'a', 2, 0,
    0, 0, 0, 0,
];

/// Text.
#[tool]
async fn test_simple_text() -> &'static str {
    "This is a simple text response for testing."
}

/// A picture.
#[tool]
async fn test_image_content() -> Content {
    Content::image(PNG, "image/png")
}

/// A sound.
#[tool]
async fn test_audio_content() -> Content {
    Content::audio(WAV, "audio/wav")
}

/// A resource inside the result.
#[tool]
async fn test_embedded_resource() -> Content {
    let text = "This is an embedded resource content.";
    Content::embed(ResourceContents::text("test://embedded-resource", "text/plain", text))
}

/// Text, a picture and a resource at once.
#[tool]
async fn test_multiple_content_types() -> Vec<Content> {
    let data = json!({ "test": "data", "value": 123 }).to_string();
    vec![
        Content::text("Multiple content types test:"),
        Content::image(PNG, "image/png"),
        Content::embed(ResourceContents::text(
            "test://mixed-content-resource",
            "application/json",
            data,
        )),
    ]
}

/// A failure the model can read.
#[tool]
async fn test_error_handling() -> Output {
    Output::failed("This tool intentionally returns an error for testing")
}

/// Three log messages.
#[tool]
async fn test_tool_with_logging(ctx: Ctx) -> &'static str {
    for words in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        ctx.log(Level::Info, words);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "Logged three messages."
}

/// Log messages at every level.
#[tool]
async fn test_logging_tool(ctx: Ctx) -> &'static str {
    let levels = [
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warning,
        Level::Error,
        Level::Critical,
        Level::Alert,
        Level::Emergency,
    ];
    for level in levels {
        ctx.log(level, json!({ "level": level }));
    }
    "Logged at every level."
}

/// Progress in three steps.
#[tool]
async fn test_tool_with_progress(ctx: Ctx) -> &'static str {
    for done in [0.0, 50.0, 100.0] {
        ctx.progress(done, 100.0);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "Went from 0 to 100."
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Weather {
    city: String,
    temperature: f64,
    conditions: String,
}

/// The weather, as structure.
#[tool(read_only)]
async fn test_structured_output(
    /// Where.
    city: String,
) -> Json<Weather> {
    Json(Weather { city, temperature: 21.5, conditions: "clear".into() })
}

/// A list of numbers, as structure whose root is an array.
#[tool(read_only)]
async fn test_array_output() -> Json<Vec<i64>> {
    Json(vec![1, 2, 3])
}

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

async fn add(Args(Add { a, b }): Args<Add>) -> f64 {
    a + b
}

/// A handler that panics: an error of that call alone.
#[tool]
#[expect(clippy::panic, reason = "that is what it shows")]
async fn test_panic() -> Result<()> {
    panic!("on purpose")
}

pub(crate) fn offer(server: Server) -> Server {
    let invalid =
        Tool::new("test_invalid_output", async || Output::structured(json!({ "count": "three" })));
    let count = json!({ "type": "object", "properties": { "count": { "type": "integer" } },
        "required": ["count"] });
    let header = Tool::new("test_custom_header", async |Args(args): Args<Value>| {
        format!("value: {}", args["value"])
    });
    let mirrored = json!({ "type": "object", "properties": {
        "value": { "type": "string", "x-mcp-header": "Value" } } });
    let dialect = Tool::new("json_schema_2020_12_tool", async |Args(args): Args<Value>| {
        Output::text(args.to_string())
    });
    server
        .tool(test_simple_text)
        .tool(test_image_content)
        .tool(test_audio_content)
        .tool(test_embedded_resource)
        .tool(test_multiple_content_types)
        .tool(test_error_handling)
        .tool(test_tool_with_logging)
        .tool(test_logging_tool)
        .tool(test_tool_with_progress)
        .tool(test_structured_output)
        .tool(test_array_output)
        .tool(test_panic)
        .tool(Tool::new("add", add).description("Add two numbers.").read_only().idempotent())
        .tool(
            invalid.description("Returns what its own output schema forbids.").output_schema(count),
        )
        .tool(
            header
                .description("Takes an argument that HTTP clients repeat as a header.")
                .input_schema(mirrored),
        )
        .tool(
            dialect
                .description("Tool with JSON Schema 2020-12 features")
                .input_schema(contact_schema()),
        )
}

/// A schema that uses what JSON Schema 2020-12 has.
fn contact_schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "addressDef", "type": "object", "properties": {
            "street": { "type": "string" }, "city": { "type": "string" } } } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" }
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false
    })
}
