//! The operations of an API that is described by OpenAPI 3 or Swagger 2.

use super::{
    draft::{Imported, Tool, portable, snake},
    schema::{Schemas, checkable, never_null},
    secure::{Proof, Secure, Variable, is_token},
    server_url::{BASE, address, literal},
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

const METHODS: [&str; 6] = ["get", "head", "post", "put", "patch", "delete"];
const FORM: &str = "application/x-www-form-urlencoded";
/// What must not be in the name of a value as it is.
const STRANGE_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'[')
    .remove(b']')
    .remove(b':');

/// Headers that are no arguments: the specification says that the first three are described elsewhere,
/// and with the others a model could change where a request goes or what is a request.
const NO_ARGUMENTS: [&str; 10] = [
    "accept",
    "content-type",
    "authorization",
    "host",
    "cookie",
    "content-length",
    "transfer-encoding",
    "connection",
    "proxy-authorization",
    "upgrade",
];

/// The tools an API makes.
pub(super) fn import(root: &Value) -> Result<Imported, String> {
    let version = root.get("openapi").or(root.get("swagger")).map(|version| match version {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    let version = version.unwrap_or_default();
    if !version.starts_with("3.") && !version.starts_with('2') {
        return Err(format!("version {version} is not known: there are OpenAPI 3 and Swagger 2.0"));
    }
    let api = Api { root, schemas: Schemas::new(root), secure: Secure::of(root) };
    let mut imported = Imported::default();
    for (path, item) in root["paths"].as_object().into_iter().flatten() {
        let item = api.schemas.meant(item);
        for method in METHODS {
            let Some(operation) = item.get(method).filter(|one| one.is_object()) else { continue };
            let about = format!("{} {path}", method.to_uppercase());
            match api.operation(method, path, item, operation) {
                Ok((tool, variables)) => {
                    imported.tools.push(tool);
                    for variable in variables {
                        if !imported.variables.contains(&variable) {
                            imported.variables.push(variable);
                        }
                    }
                }
                Err(why) => imported.left_out.push((about, why)),
            }
        }
    }
    Ok(imported)
}

struct Api<'a> {
    root: &'a Value,
    schemas: Schemas<'a>,
    secure: Secure,
}

/// The arguments of an operation, while they are gathered.
#[derive(Default)]
struct Arguments {
    properties: Map<String, Value>,
    required: Vec<String>,
}

impl Arguments {
    /// Takes in an argument, and says what it is called.
    fn add(&mut self, wish: &str, place: &str, schema: Value, is_required: bool) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
        let wish: String = wish.chars().take(50).map(plain).collect();
        let wish = match wish.trim_matches(['_', '.', '-']) {
            "" => place,
            wish => wish,
        };
        let names = [wish.to_owned(), format!("{place}_{wish}")].into_iter();
        let names = names.chain((2..).map(|number| format!("{place}_{wish}_{number}")));
        let mut free = names.filter(|name| !self.properties.contains_key(name));
        let name = free.next().unwrap_or_default();
        if is_required {
            self.required.push(name.clone());
        }
        self.properties.insert(name.clone(), schema);
        name
    }
}

/// A request while it is written.
#[derive(Default)]
struct Draft {
    path: String,
    query: Vec<String>,
    headers: Vec<String>,
    body: Option<String>,
    arguments: Arguments,
}

impl<'a> Api<'a> {
    fn operation(
        &self,
        method: &str,
        path: &str,
        item: &'a Value,
        operation: &'a Value,
    ) -> Result<(Tool, Vec<Variable>), String> {
        let mut draft = Draft::default();
        let parameters = self.parameters(item, operation);
        self.path(path, &parameters, &mut draft);
        self.query_and_headers(&parameters, &mut draft)?;
        if !matches!(method, "get" | "head") {
            self.body(operation, &parameters, &mut draft)?;
        }
        let server = self.server(item, operation);
        let Proof { headers, query, mut variables } = self.secure.wanted(operation, &server)?;
        draft.headers.extend(headers);
        draft.query.extend(query);
        if server.starts_with('$') {
            let about = "where the API is, such as https://api.example.com".to_owned();
            variables.push(Variable { name: BASE.to_owned(), about });
        }
        if self.answers_json(operation) {
            draft.headers.insert(0, "Accept: application/json".to_owned());
        }
        checkable(&mut draft.arguments.properties);
        let upper = method.to_uppercase();
        let id = operation["operationId"].as_str().filter(|id| !snake(id).is_empty());
        let about = format!("{upper} {path}");
        let tags: &[&str] = match method {
            "get" | "head" => &["read-only"],
            "delete" => &["destructive"],
            "put" => &["idempotent"],
            _ => &[],
        };
        let tool = Tool {
            source: id.map_or_else(|| about.clone(), str::to_owned),
            name: portable(&snake(id.unwrap_or(&format!("{method}_{path}")))),
            ending: "http",
            description: described(operation, &about),
            about,
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            env: variables.iter().map(|variable| variable.name.clone()).collect(),
            body: draft.text(&upper, &server),
            properties: draft.arguments.properties,
            required: draft.arguments.required,
            shebang: String::new(),
        };
        Ok((tool, variables))
    }

    /// An operation's own parameters, and those of its path that it does not say otherwise.
    fn parameters(&self, item: &'a Value, operation: &'a Value) -> Vec<&'a Value> {
        let list = |of: &'a Value| of["parameters"].as_array().into_iter().flatten();
        let mut all: Vec<&Value> = vec![];
        for one in list(operation).chain(list(item)).map(|one| self.schemas.meant(one)) {
            if !all.iter().any(|known| known["name"] == one["name"] && known["in"] == one["in"]) {
                all.push(one);
            }
        }
        all
    }

    /// The schema of a parameter, which Swagger 2 says in the parameter itself.
    fn schema_of(&self, parameter: &'a Value) -> Value {
        let content = parameter["content"].as_object().and_then(|all| all.values().next());
        let said = parameter.get("schema").or_else(|| content?.get("schema"));
        let mut schema = self.schemas.whole(said.unwrap_or(parameter));
        if let Some(words) = parameter["description"].as_str() {
            schema["description"] = super::draft::words(words, 300).into();
        }
        never_null(&mut schema);
        schema
    }

    fn path(&self, path: &str, parameters: &[&'a Value], draft: &mut Draft) {
        let mut rest = path;
        while let Some((before, after)) = rest.split_once('{') {
            draft.path.push_str(&literal(before));
            let Some((name, after)) = after.split_once('}') else {
                rest = after;
                continue;
            };
            let is_it = |one: &&&Value| one["in"] == "path" && one["name"] == name;
            let said = parameters.iter().find(is_it);
            let schema =
                said.map_or_else(|| json!({ "type": "string" }), |one| self.schema_of(one));
            let argument = draft.arguments.add(name, "path", schema, true);
            draft.path.push_str(&format!("{{{argument}}}"));
            rest = after;
        }
        draft.path.push_str(&literal(rest));
    }

    fn query_and_headers(&self, parameters: &[&'a Value], draft: &mut Draft) -> Result<(), String> {
        for one in parameters {
            let name = one["name"].as_str().unwrap_or_default();
            let is_needed = one["required"] == true;
            match one["in"].as_str().unwrap_or_default() {
                "query" => {
                    let schema = self.schema_of(one);
                    let is_list = schema["type"] == "array";
                    let argument = draft.arguments.add(name, "query", schema, is_needed);
                    let comma = if is_list && is_joined(one) { "," } else { "" };
                    let name = utf8_percent_encode(name, STRANGE_NAME);
                    draft.query.push(format!("{name}={{{argument}{comma}}}"));
                }
                "header" => {
                    let lower = name.to_lowercase();
                    if NO_ARGUMENTS.contains(&lower.as_str()) {
                        continue;
                    }
                    match is_token(name) {
                        true => {
                            let schema = self.schema_of(one);
                            let argument = draft.arguments.add(name, "header", schema, is_needed);
                            draft.headers.push(format!("{name}: {{{argument}}}"));
                        }
                        false if is_needed => return Err("a header's name is none".to_owned()),
                        false => (),
                    }
                }
                "cookie" if is_needed => return Err("it needs a cookie".to_owned()),
                _ => (),
            }
        }
        Ok(())
    }

    fn body(
        &self,
        operation: &'a Value,
        parameters: &[&'a Value],
        draft: &mut Draft,
    ) -> Result<(), String> {
        let find = |place: &str| parameters.iter().find(|one| one["in"] == place);
        if let Some(body) = find("body") {
            let is_needed = body["required"] == true;
            return draft.json(self.schemas.whole(&body["schema"]), is_needed, "application/json");
        }
        if find("formData").is_some() {
            let all = parameters.iter().filter(|one| one["in"] == "formData");
            let all: Vec<_> = all.collect();
            if all.iter().any(|one| one["type"] == "file") {
                return Err("it sends files".to_owned());
            }
            for one in all {
                let name = one["name"].as_str().unwrap_or_default();
                draft.field(name, self.schema_of(one), one["required"] == true);
            }
            return Ok(());
        }
        let body = self.schemas.meant(&operation["requestBody"]);
        let Some(content) = body["content"].as_object().filter(|all| !all.is_empty()) else {
            return Ok(());
        };
        let is_needed = body["required"] == true;
        let essence =
            |kind: &str| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let first = |wanted: &dyn Fn(&str) -> bool| {
            let found = content.iter().find(|(kind, _)| wanted(&essence(kind)))?;
            Some((essence(found.0), found.1))
        };
        let is_json =
            |kind: &str| kind.ends_with("/json") || kind.ends_with("+json") || kind == "*/*";
        if let Some((kind, media)) = first(&is_json) {
            let kind = if is_media(&kind) { kind } else { "application/json".to_owned() };
            return draft.json(self.schemas.whole(&media["schema"]), is_needed, &kind);
        }
        if let Some((_, media)) = first(&|kind| kind == FORM) {
            let schema = self.schemas.whole(&media["schema"]);
            let needed = schema["required"].as_array().cloned().unwrap_or_default();
            for (name, one) in schema["properties"].as_object().into_iter().flatten() {
                draft.field(name, one.clone(), needed.iter().any(|needed| needed == name));
            }
            return Ok(());
        }
        if let Some((kind, _)) = first(&|kind| kind.starts_with("text/") && is_media(kind)) {
            let schema = json!({ "type": "string", "description": "What is sent." });
            let argument = draft.arguments.add("body", "request", schema, is_needed);
            draft.headers.push(format!("Content-Type: {kind}"));
            draft.body = Some(format!("{{{argument}}}"));
            return Ok(());
        }
        match first(&|kind| kind.starts_with("multipart/")) {
            Some(_) => Err("it sends files".to_owned()),
            None => Err("what it sends is neither JSON, a form nor text".to_owned()),
        }
    }

    fn answers_json(&self, operation: &'a Value) -> bool {
        let is_json = |kind: &str| kind.starts_with("application/json");
        let mut answers = operation["responses"].as_object().into_iter().flatten();
        let said = answers.any(|(status, answer)| {
            let content = self.schemas.meant(answer)["content"].as_object();
            status.starts_with('2')
                && content.is_some_and(|all| all.keys().any(|kind| is_json(kind)))
        });
        let produces = operation.get("produces").unwrap_or(&self.root["produces"]);
        said || produces
            .as_array()
            .is_some_and(|all| all.iter().filter_map(Value::as_str).any(is_json))
    }

    /// Where the API is, or a variable that says it.
    fn server(&self, item: &Value, operation: &Value) -> String {
        let root = self.root;
        if root.get("swagger").is_some() {
            let base = root["basePath"].as_str().unwrap_or_default();
            let schemes = root["schemes"].as_array();
            let has = |name: &str| schemes.is_none_or(|all| all.iter().any(|one| one == name));
            let scheme = if has("https") { "https" } else { "http" };
            return match root["host"].as_str() {
                Some(host) => address(&format!("{scheme}://{host}{base}")),
                None => address(base),
            };
        }
        let list = |of: &Value| of["servers"].as_array().and_then(|all| all.first()).cloned();
        let server = list(operation).or_else(|| list(item)).or_else(|| list(root));
        let server = server.unwrap_or_default();
        let url = server["url"].as_str().unwrap_or_default().to_owned();
        let filled = server["variables"].as_object().into_iter().flatten();
        let filled = filled.fold(url, |url, (name, said)| match &said["default"] {
            Value::String(text) => url.replace(&format!("{{{name}}}"), text),
            _ => url,
        });
        address(&filled)
    }
}

fn is_media(kind: &str) -> bool {
    kind.split_once('/').is_some_and(|(a, b)| {
        let fine = |part: &str| {
            !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || ".+-_".contains(c))
        };
        fine(a) && fine(b)
    })
}

/// Whether the items of a list have commas between them.
fn is_joined(parameter: &Value) -> bool {
    match parameter.get("schema").or(parameter.get("content")) {
        Some(_) => parameter["explode"] == false,
        None => parameter["collectionFormat"] != "multi",
    }
}

/// What an operation does, shortly.
fn described(operation: &Value, about: &str) -> String {
    let text = |name: &str| operation[name].as_str().unwrap_or_default().trim();
    let (summary, description) = (text("summary"), text("description"));
    let paragraph = description.split("\n\n").next().unwrap_or_default();
    match (summary, paragraph) {
        ("", "") => about.to_owned(),
        (only, "") | ("", only) => only.to_owned(),
        (summary, paragraph) if paragraph.starts_with(summary) => paragraph.to_owned(),
        (summary, paragraph) => format!("{}. {paragraph}", summary.trim_end_matches('.')),
    }
}

impl Draft {
    /// A body of JSON: its members as arguments, or all of it as one.
    fn json(&mut self, schema: Value, is_needed: bool, kind: &str) -> Result<(), String> {
        self.headers.push(format!("Content-Type: {kind}"));
        let members = schema["properties"].as_object().filter(|all| !all.is_empty());
        let is_closed =
            !["anyOf", "oneOf", "allOf", "not"].iter().any(|key| schema.get(key).is_some())
                && schema.get("additionalProperties").is_none_or(|more| *more == json!(false))
                && schema["type"] == "object";
        let clashes = |all: &&Map<String, Value>| {
            all.keys().any(|name| self.arguments.properties.contains_key(name))
        };
        let Some(members) = members.filter(|all| is_closed && !clashes(all)) else {
            let argument = self.arguments.add("body", "request", schema, is_needed);
            self.body = Some(format!("{{{argument}}}"));
            return Ok(());
        };
        let needed = schema["required"].as_array().cloned().unwrap_or_default();
        let mut template = Map::new();
        for (name, one) in members {
            let is_needed = needed.iter().any(|needed| needed == name);
            let argument = self.arguments.add(name, "body", one.clone(), is_needed);
            template.insert(name.clone(), format!("{{{argument}}}").into());
        }
        let text = serde_json::to_string_pretty(&template).map_err(|error| error.to_string())?;
        self.body = Some(text);
        Ok(())
    }

    /// A field of a form.
    fn field(&mut self, name: &str, schema: Value, is_needed: bool) {
        let argument = self.arguments.add(name, "body", schema, is_needed);
        let name = utf8_percent_encode(name, STRANGE_NAME);
        let pair = format!("{name}={{{argument}}}");
        self.body = Some(match self.body.take() {
            Some(body) => format!("{body}&{pair}"),
            None => {
                self.headers.push(format!("Content-Type: {FORM}"));
                pair
            }
        });
    }

    fn text(&self, method: &str, server: &str) -> String {
        let query = match self.query.is_empty() {
            true => String::new(),
            false => format!("?{}", self.query.join("&")),
        };
        let mut text = format!("{method} {server}{}{query}\n", self.path);
        self.headers.iter().for_each(|line| text.push_str(&format!("{line}\n")));
        if let Some(body) = &self.body {
            text.push_str(&format!("\n{body}\n"));
        }
        text
    }
}
