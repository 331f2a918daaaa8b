//! How an API knows who calls: keys and tokens, which are variables of the server.

use super::draft::snake;
use reqwest::Url;
use serde_json::Value;
use std::{collections::BTreeMap, net::Ipv6Addr};

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

/// The ways an API knows, and those it wants where an operation does not say.
#[derive(Debug)]
pub(super) struct Secure {
    schemes: BTreeMap<String, Value>,
    usual: Value,
}

impl Secure {
    pub(super) fn of(root: &Value) -> Self {
        let schemes = root["components"].get("securitySchemes");
        let schemes = schemes.or(root.get("securityDefinitions")).and_then(Value::as_object);
        let schemes = schemes.into_iter().flatten();
        let schemes = schemes.map(|(name, scheme)| (name.clone(), scheme.clone())).collect();
        Self { schemes, usual: root["security"].clone() }
    }

    /// What a request must have for one way. The names of its variables say which server they are
    /// sent to: a description cannot name a variable that is meant for another.
    fn proof(&self, name: &str, host: &str) -> Option<Proof> {
        let scheme = self.schemes.get(name)?;
        let alike = self.schemes.values().filter(|other| kind(other) == kind(scheme)).count();
        let end = match alike > 1 {
            true => format!("_{}_FOR_{host}", snake(name).to_uppercase()),
            false => format!("_FOR_{host}"),
        };
        proof(scheme, &end)
    }

    /// What one operation wants that is sent to a server: nothing, or why it cannot be had.
    pub(super) fn wanted(&self, operation: &Value, server: &str) -> Result<Proof, String> {
        let said = operation.get("security").unwrap_or(&self.usual);
        let Some(choices) = said.as_array().filter(|all| !all.is_empty()) else {
            return Ok(Proof::default());
        };
        let host = host(server);
        let all = |choice: &Value| {
            let names = choice.as_object()?.keys();
            let proofs: Option<Vec<Proof>> =
                names.map(|name| self.proof(name, host.as_deref()?)).collect();
            let mut whole = Proof::default();
            for proof in proofs? {
                whole.headers.extend(proof.headers);
                whole.query.extend(proof.query);
                whole.variables.extend(proof.variables);
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

/// A server as a part of a variable's name. No two servers have one name: a dot is `_` and a hyphen
/// `__`, and what could be mistaken for that has no name.
fn host(server: &str) -> Option<String> {
    if server.starts_with('$') {
        return Some("BASE_URL".to_owned());
    }
    let url = Url::parse(server).ok()?;
    let name = url.host_str()?;
    let name = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => {
            let address: Ipv6Addr = address.parse().ok()?;
            address.segments().map(|part| format!("{part:x}")).join(".")
        }
        None => name.to_owned(),
    };
    let is_label = |label: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !label.is_empty() && label.chars().all(plain) && label.trim_matches('-') == label
    };
    if !name.split('.').all(is_label) {
        return None;
    }
    let name = name.replace('-', "__").replace('.', "_").to_uppercase();
    Some(match url.port() {
        Some(port) => format!("{name}_PORT_{port}"),
        None => name,
    })
}

/// What a scheme wants: how the names of its variables begin.
fn kind(scheme: &Value) -> &'static str {
    let is_basic = scheme["scheme"].as_str().is_some_and(|one| one.eq_ignore_ascii_case("basic"));
    match scheme["type"].as_str() {
        Some("apiKey") => "API_KEY",
        Some("basic") => "PASSWORD",
        Some("http") if is_basic => "PASSWORD",
        Some("http" | "oauth2" | "openIdConnect") => "TOKEN",
        _ => "",
    }
}

fn proof(scheme: &Value, end: &str) -> Option<Proof> {
    let variable = |begin: &str, about: &str| {
        let (name, about) = (format!("{begin}{end}"), about.to_owned());
        Variable { name, about }
    };
    let mut proof = Proof::default();
    let kind = kind(scheme);
    let is_bearer = scheme["scheme"].as_str().is_some_and(|s| s.eq_ignore_ascii_case("bearer"));
    match (scheme["type"].as_str()?, kind) {
        (_, "PASSWORD") => {
            let (user, password) =
                (variable("USER", "a user"), variable(kind, "the user's password"));
            proof.headers.push(format!("Authorization: Basic ${}:${}", user.name, password.name));
            proof.variables = vec![user, password];
        }
        ("apiKey", _) => {
            let name = scheme["name"].as_str().filter(|name| is_token(name))?;
            let key = variable(kind, &format!("the key that is sent as `{name}`"));
            match scheme["in"].as_str()? {
                "header" => proof.headers.push(format!("{name}: ${}", key.name)),
                "cookie" => proof.headers.push(format!("Cookie: {name}=${}", key.name)),
                "query" => proof.query.push(format!("{name}=${}", key.name)),
                _ => return None,
            }
            proof.variables.push(key);
        }
        ("oauth2" | "openIdConnect", _) => bearer(&mut proof, variable(kind, "an access token")),
        ("http", _) if is_bearer => bearer(&mut proof, variable(kind, "a token")),
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

    const PETS: &str = "https://pet-store.example/v1";

    #[test]
    fn no_two_servers_have_one_variable() {
        let servers = [
            ("https://api.example.com/v1", Some("API_EXAMPLE_COM")),
            ("https://api-example.com", Some("API__EXAMPLE_COM")),
            ("https://api.example.com:8443", Some("API_EXAMPLE_COM_PORT_8443")),
            ("http://127.0.0.1:80", Some("127_0_0_1")),
            ("http://[::1]:8080", Some("0_0_0_0_0_0_0_1_PORT_8080")),
            ("$BASE_URL/api", Some("BASE_URL")),
            ("https://api_example.com", None),
            ("https://api-.example.com", None),
            ("https://api.example.com.", None),
            ("https://a%24b.example", None),
        ];
        for (server, name) in servers {
            assert_eq!(host(server).as_deref(), name, "{server}");
        }
    }

    #[test]
    fn secrets_are_variables() {
        let root = json!({
            "info": { "title": "GitHub" },
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
        let headers = |security: Value| {
            secure.wanted(&json!({ "security": security }), PETS).map(|p| p.headers)
        };
        assert_eq!(
            secure.wanted(&json!({}), PETS).unwrap().headers,
            ["Authorization: Bearer $TOKEN_FOR_PET__STORE_EXAMPLE"]
        );
        assert_eq!(
            headers(json!([{ "login": [] }])).unwrap(),
            ["Authorization: Basic $USER_FOR_PET__STORE_EXAMPLE:$PASSWORD_FOR_PET__STORE_EXAMPLE"]
        );
        assert_eq!(
            headers(json!([{ "one": [] }])).unwrap(),
            ["X-One: $API_KEY_ONE_FOR_PET__STORE_EXAMPLE"]
        );
        let two = json!({ "security": [{ "tls": [] }, { "two": [] }] });
        let query = secure.wanted(&two, PETS).unwrap().query;
        assert_eq!(query, ["two=$API_KEY_TWO_FOR_PET__STORE_EXAMPLE"]);
        assert!(
            headers(json!([{ "bad": [] }])).is_err() && headers(json!([{ "tls": [] }])).is_err()
        );
        assert!(headers(json!([])).unwrap().is_empty());
        assert!(headers(json!([{ "one": [] }, {}])).unwrap().is_empty());
    }
}
