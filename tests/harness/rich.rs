//! A server that says everything there is to say about what it offers.

use serde_json::{Map, Value, json};
use zcp::{
    Annotations, Content, Icon, Output, Prompt, PromptMessage, Resource, ResourceContents, Server,
    Tool, wire::mcp::resources,
};

fn icon() -> Icon {
    Icon { src: "https://example.com/i.png".into(), ..Icon::default() }
}

fn notes() -> Annotations {
    Annotations {
        priority: Some(0.5),
        last_modified: Some("2025-01-01T00:00:00Z".into()),
        ..Annotations::default()
    }
}

fn meta() -> Option<Map<String, Value>> {
    json!({ "k": 1 }).as_object().cloned()
}

fn contents() -> [Content; 3] {
    let link = Content::link(resources::Resource {
        uri: "test://a".into(),
        name: "a".into(),
        icons: vec![icon()],
        ..resources::Resource::default()
    });
    let mut noted = Content::text("noted").annotate(notes());
    noted.meta = meta();
    [Content::audio(b"beep", "audio/wav"), link, noted]
}

async fn tool() -> Output {
    Output {
        content: contents().to_vec(),
        structured: Some(json!({ "n": 1 })),
        ..Output::default()
    }
}

async fn prompt() -> Vec<PromptMessage> {
    contents().map(PromptMessage::user).to_vec()
}

async fn read() -> ResourceContents {
    let mut read = ResourceContents::text("test://a", "text/plain", "a");
    read.meta = meta();
    read
}

fn resource(uri: &str) -> Resource {
    let resource = Resource::new(uri, read).title("R").icon(icon());
    resource.annotations(notes()).size(1).meta("k", json!(1))
}

/// Tool `t` and prompt `p` give a sound, a link and a noted text; tool `u` an array as structure;
/// `test://a` and `test://b/{x}` are resources.
pub fn rich() -> Server {
    let all = Tool::new("t", tool)
        .title("The tool")
        .icon(icon())
        .read_only()
        .output_schema(json!({ "type": "object" }))
        .long_running()
        .meta("k", json!(1));
    let array = Tool::new("u", async || Output::structured(json!([1])));
    let prompt = Prompt::new("p", prompt).title("The prompt").icon(icon()).meta("k", json!(1));
    Server::new("rich")
        .title("Rich")
        .description("Says everything")
        .website("https://example.com")
        .icon(icon())
        .instructions("Look")
        .tool(all)
        .tool(array.output_schema(json!({ "type": "array" })))
        .prompt(prompt)
        .resource(resource("test://a"))
        .resource(resource("test://b/{x}").complete("x", ["1"]))
}
