//! What 2025-11-25 added: icons, descriptions of implementations, `execution`, tasks, elicitation by
//! page and its `mode`, fields for several choices, sampling with tools.

use crate::mcp::{Body, InputRequest, Reply};
use serde_json::{Map, Value, json};

pub(super) fn reply(reply: &mut Reply) {
    match &mut reply.body {
        Body::Initialize(result) => {
            let info = &mut result.server_info;
            (info.icons, info.description, info.website_url) = (vec![], None, None);
            result.capabilities.tasks = None;
        }
        Body::Tools(list) => {
            for tool in &mut list.items {
                tool.icons = vec![];
                tool.execution = None;
            }
        }
        Body::Prompts(list) => list.items.iter_mut().for_each(|prompt| prompt.icons = vec![]),
        Body::Resources(list) => list.items.iter_mut().for_each(|item| item.icons = vec![]),
        Body::Templates(list) => list.items.iter_mut().for_each(|item| item.icons = vec![]),
        Body::CallTool(result) => {
            result.content.iter_mut().for_each(|content| content.drop_icons());
        }
        Body::GetPrompt(result) => {
            result.messages.iter_mut().for_each(|message| message.content.drop_icons());
        }
        _ => (),
    }
}

pub(super) fn question(question: &mut InputRequest) {
    match question {
        InputRequest::Elicit(elicit) => {
            elicit.mode = None;
            let form = elicit.requested_schema.as_mut().and_then(Value::as_object_mut);
            form.into_iter().for_each(split_choices);
            let fields =
                elicit.requested_schema.as_mut().and_then(|form| form.get_mut("properties"));
            let fields = fields.and_then(Value::as_object_mut).into_iter();
            fields.flat_map(|fields| fields.values_mut()).for_each(name_choices);
        }
        InputRequest::Sample(sample) => {
            (sample.tools, sample.tool_choice) = (None, None);
            sample.messages.iter_mut().for_each(|message| message.content.as_one_block());
        }
        InputRequest::Roots(_) => (),
    }
}

/// A choice with titles was `enum` with `enumNames`.
fn name_choices(field: &mut Value) {
    let Some(field) = field.as_object_mut() else { return };
    let Some(Value::Array(choices)) = field.remove("oneOf") else { return };
    let all = |key| choices.iter().map(|choice| choice[key].clone()).collect::<Value>();
    field.insert("enum".into(), all("const"));
    field.insert("enumNames".into(), all("title"));
}

/// What may be chosen in a field for several choices: each value, and what it is called.
fn choices(field: &Value) -> Option<Vec<(&str, &str)>> {
    let items = field.get("items").filter(|_| field["type"] == "array")?;
    let plain = || items["enum"].as_array();
    let all = items["anyOf"].as_array().or_else(plain)?;
    let choices = all.iter().filter_map(|choice| {
        let value = choice.get("const").unwrap_or(choice).as_str()?;
        Some((value, choice["title"].as_str().unwrap_or(value)))
    });
    Some(choices.collect())
}

/// What is asked for one of several choices.
fn split(field: &str, choice: &str) -> String {
    [field, "/", choice].concat()
}

/// A field for several choices was not there: whether each is chosen is a field of its own.
fn split_choices(form: &mut Map<String, Value>) {
    let Some(Value::Object(fields)) = form.remove("properties") else { return };
    let mut asked = Map::new();
    for (name, field) in fields {
        let Some(choices) = choices(&field) else {
            asked.insert(name, field);
            continue;
        };
        if let Some(Value::Array(required)) = form.get_mut("required") {
            required.retain(|one| *one != name);
        }
        let label = field["title"].as_str().unwrap_or(&name);
        for (choice, title) in choices {
            let is_default =
                field["default"].as_array().is_some_and(|all| all.contains(&json!(choice)));
            let mut one = json!({ "type": "boolean", "title": format!("{label}: {title}"), "default": is_default });
            if let Some(about) = about(&field) {
                one["description"] = about.into();
            }
            asked.insert(split(&name, choice), one);
        }
    }
    form.insert("properties".into(), asked.into());
}

/// What a field for several choices says of itself, and how many are to be chosen.
fn about(field: &Value) -> Option<String> {
    let count = match (field["minItems"].as_u64(), field["maxItems"].as_u64()) {
        (Some(least), Some(most)) => Some(format!("Choose {least} to {most}.")),
        (Some(least), None) => Some(format!("Choose at least {least}.")),
        (None, Some(most)) => Some(format!("Choose at most {most}.")),
        (None, None) => None,
    };
    let about = field["description"].as_str().map(str::to_owned);
    let all: Vec<_> = about.into_iter().chain(count).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

/// Puts the choices together again.
pub(super) fn answer(answer: &mut Value, question: &InputRequest) {
    let InputRequest::Elicit(elicit) = question else { return };
    let Some(form) = &elicit.requested_schema else { return };
    let Some(fields) = form["properties"].as_object() else { return };
    let Some(content) = answer.get_mut("content").and_then(Value::as_object_mut) else { return };
    let is_required = |name: &str| {
        form["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    for (name, field) in fields {
        let Some(choices) = choices(field) else { continue };
        let mut chosen = vec![];
        for (choice, _) in choices {
            if content.remove(&split(name, choice)) == Some(Value::Bool(true)) {
                chosen.push(choice);
            }
        }
        if !chosen.is_empty() || is_required(name) {
            content.entry(&**name).or_insert_with(|| json!(chosen));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        downgrade::{downgrade_question, upgrade_answer},
        mcp::elicitation::Elicit,
        revision::Revision::{V2025_06_18, V2025_11_25},
    };

    fn asked() -> InputRequest {
        let titled = json!([{ "const": "r", "title": "Red" }, { "const": "g", "title": "Green" }]);
        let form = json!({ "type": "object", "required": ["name", "sizes"], "properties": {
            "name": { "type": "string" },
            "sizes": { "type": "array", "items": { "type": "string", "enum": ["s", "m"] },
                "description": "What fits.", "minItems": 1, "maxItems": 2 },
            "colors": { "type": "array", "title": "Colour", "items": { "anyOf": titled },
                "default": ["g"] },
        } });
        InputRequest::Elicit(Elicit {
            mode: None,
            message: "?".into(),
            requested_schema: Some(form),
            url: None,
            elicitation_id: None,
        })
    }

    #[test]
    fn several_choices_are_asked_one_by_one_and_put_together_again() {
        let mut older = asked();
        downgrade_question(&mut older, V2025_06_18);
        let InputRequest::Elicit(elicit) = older else { panic!("it stays one") };
        let about = "What fits. Choose 1 to 2.";
        let one = |title: &str, default: bool| json!({ "type": "boolean", "title": title, "default": default });
        let mut small = one("sizes: s", false);
        small["description"] = about.into();
        let mut medium = one("sizes: m", false);
        medium["description"] = about.into();
        assert_eq!(
            elicit.requested_schema.unwrap(),
            json!({ "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string" }, "sizes/s": small, "sizes/m": medium,
                "colors/r": one("Colour: Red", false), "colors/g": one("Colour: Green", true),
            } })
        );
        for (content, expected) in [
            (
                json!({ "name": "a", "sizes/s": true, "sizes/m": true, "colors/g": false }),
                json!({ "name": "a", "sizes": ["s", "m"] }),
            ),
            (
                json!({ "name": "a", "colors/r": true }),
                json!({ "name": "a", "sizes": [], "colors": ["r"] }),
            ),
        ] {
            let mut answer = json!({ "action": "accept", "content": content });
            upgrade_answer(&mut answer, &asked(), V2025_06_18);
            assert_eq!(answer["content"], expected);
        }
        let mut declined = json!({ "action": "decline" });
        upgrade_answer(&mut declined, &asked(), V2025_06_18);
        assert_eq!(declined, json!({ "action": "decline" }));
    }

    #[test]
    fn newer_clients_are_asked_for_several_choices_as_they_are() {
        let mut newer = asked();
        downgrade_question(&mut newer, V2025_11_25);
        assert_eq!(newer, asked());
    }
}
