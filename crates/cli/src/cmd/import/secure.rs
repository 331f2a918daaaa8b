//! How an API knows who calls: keys and tokens, which are variables of the server.

use super::tool::snake;
use serde_json::Value;
use std::collections::BTreeMap;

/// Words of a title that tell nothing apart.
const EMPTY_WORDS: [&str; 8] = ["api", "the", "rest", "openapi", "swagger", "service", "v1", "v2"];

/// A variable of the server's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) about: String,
}

/// What a request must have.
#[derive(Debug, Clone, Default)]
pub(super) struct Proof {
    /// Whole lines.
    pub(super) headers: Vec<String>,
    /// `name=$VALUE`.
    pub(super) query: Vec<String>,
    pub(super) variables: Vec<Variable>,
}

/// The ways an API knows.
#[derive(Debug)]
pub(super) struct Secure {
    ways: BTreeMap<String, Option<Proof>>,
    usual: Value,
}

impl Secure {
    pub(super) fn of(root: &Value) -> Self {
        let schemes = root["components"].get("securitySchemes");
        let schemes = schemes.or(root.get("securityDefinitions")).and_then(Value::as_object);
        let title = prefix(root["info"]["title"].as_str().unwrap_or_default());
        let all: Vec<(&String, &Value)> = schemes.into_iter().flatten().collect();
        let ways = all.iter().map(|(name, scheme)| {
            let alike = all.iter().filter(|(_, other)| ending(other) == ending(scheme)).count();
            let start = match alike > 1 {
                true => format!("{title}_{}", snake(name).to_uppercase()),
                false => title.clone(),
            };
            ((*name).clone(), proof(&start, scheme))
        });
        Self { ways: ways.collect(), usual: root["security"].clone() }
    }

    /// What one operation wants: nothing, or why it cannot be had.
    pub(super) fn wanted(&self, operation: &Value) -> Result<Proof, String> {
        let said = operation.get("security").unwrap_or(&self.usual);
        let Some(choices) = said.as_array().filter(|all| !all.is_empty()) else {
            return Ok(Proof::default());
        };
        let all = |choice: &Value| {
            let names = choice.as_object()?.keys();
            let proofs: Option<Vec<&Proof>> =
                names.map(|name| self.ways.get(name)?.as_ref()).collect();
            let mut whole = Proof::default();
            for proof in proofs? {
                whole.headers.extend(proof.headers.iter().cloned());
                whole.query.extend(proof.query.iter().cloned());
                whole.variables.extend(proof.variables.iter().cloned());
            }
            Some(whole)
        };
        // Whoever need not say who they are does not.
        let open =
            choices.iter().any(|choice| choice.as_object().is_some_and(|one| one.is_empty()));
        if open {
            return Ok(Proof::default());
        }
        let found = choices.iter().find_map(all);
        found.ok_or_else(|| "how it knows who calls is not known".to_owned())
    }
}

/// What the names of an API's variables begin with.
fn prefix(title: &str) -> String {
    let title = snake(title);
    let telling = title.split('_').filter(|word| !EMPTY_WORDS.contains(word));
    let telling = telling.filter(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()));
    let words: Vec<&str> = telling.take(2).collect();
    match words.is_empty() {
        true => "API".to_owned(),
        false => words.join("_").to_uppercase(),
    }
}

/// What the name of a scheme's variable ends with.
fn ending(scheme: &Value) -> &'static str {
    let is_basic = scheme["scheme"].as_str().is_some_and(|one| one.eq_ignore_ascii_case("basic"));
    match scheme["type"].as_str() {
        Some("apiKey") => "API_KEY",
        Some("basic") => "PASSWORD",
        Some("http") if is_basic => "PASSWORD",
        Some("http" | "oauth2" | "openIdConnect") => "TOKEN",
        _ => "",
    }
}

fn proof(start: &str, scheme: &Value) -> Option<Proof> {
    let variable = |end: &str, about: &str| {
        let (name, about) = (format!("{start}_{end}"), about.to_owned());
        Variable { name, about }
    };
    let mut proof = Proof::default();
    let end = ending(scheme);
    let is_bearer = scheme["scheme"].as_str().is_some_and(|s| s.eq_ignore_ascii_case("bearer"));
    match (scheme["type"].as_str()?, end) {
        (_, "PASSWORD") => {
            let (user, password) =
                (variable("USER", "a user"), variable(end, "the user's password"));
            proof.headers.push(format!("Authorization: Basic ${}:${}", user.name, password.name));
            proof.variables = vec![user, password];
        }
        ("apiKey", _) => {
            let name = scheme["name"].as_str().filter(|name| is_token(name))?;
            let key = variable(end, &format!("the key that is sent as `{name}`"));
            match scheme["in"].as_str()? {
                "header" => proof.headers.push(format!("{name}: ${}", key.name)),
                "cookie" => proof.headers.push(format!("Cookie: {name}=${}", key.name)),
                "query" => proof.query.push(format!("{name}=${}", key.name)),
                _ => return None,
            }
            proof.variables.push(key);
        }
        ("oauth2" | "openIdConnect", _) => bearer(&mut proof, variable(end, "an access token")),
        ("http", _) if is_bearer => bearer(&mut proof, variable(end, "a token")),
        _ => return None,
    }
    Some(proof)
}

fn bearer(proof: &mut Proof, token: Variable) {
    proof.headers.push(format!("Authorization: Bearer ${}", token.name));
    proof.variables.push(token);
}

/// Whether a word can be the name of a header, and means nothing else.
pub(super) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_variables() {
        let root = json!({
            "info": { "title": "The Pet-Store API" },
            "security": [{ "token": [] }],
            "components": { "securitySchemes": {
                "token": { "type": "http", "scheme": "Bearer" },
                "login": { "type": "http", "scheme": "basic" },
                "one": { "type": "apiKey", "in": "header", "name": "X-One" },
                "two": { "type": "apiKey", "in": "query", "name": "two" },
                "bad": { "type": "apiKey", "in": "header", "name": "X\nEvil: 1" },
                "tls": { "type": "mutualTLS" },
            } },
        });
        let secure = Secure::of(&root);
        let headers =
            |security: Value| secure.wanted(&json!({ "security": security })).map(|p| p.headers);
        assert_eq!(
            secure.wanted(&json!({})).unwrap().headers,
            ["Authorization: Bearer $PET_STORE_TOKEN"]
        );
        assert_eq!(
            headers(json!([{ "login": [] }])).unwrap(),
            ["Authorization: Basic $PET_STORE_USER:$PET_STORE_PASSWORD"]
        );
        assert_eq!(headers(json!([{ "one": [] }])).unwrap(), ["X-One: $PET_STORE_ONE_API_KEY"]);
        let query = secure.wanted(&json!({ "security": [{ "tls": [] }, { "two": [] }] })).unwrap();
        assert_eq!(query.query, ["two=$PET_STORE_TWO_API_KEY"]);
        assert!(
            headers(json!([{ "bad": [] }])).is_err() && headers(json!([{ "tls": [] }])).is_err()
        );
        assert!(headers(json!([])).unwrap().is_empty());
        assert!(headers(json!([{ "one": [] }, {}])).unwrap().is_empty());
    }
}
