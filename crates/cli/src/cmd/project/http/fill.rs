//! A request with its arguments and variables in it, each encoded for where it stands.

use super::{
    request::Template,
    text::{Piece, Variables, given, only_argument, pieces, plain},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Method, Url,
    header::{self, HeaderName, HeaderValue},
};
use serde_json::{Map, Value};
use std::cell::RefCell;

/// What stands for something else in an address or a form.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// A request that can be made.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: Vec<Header>,
    pub(super) body: Option<Vec<u8>>,
    /// The values of variables that are in it.
    pub(super) secrets: Vec<String>,
}

/// A header of a request.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) name: HeaderName,
    pub(super) value: HeaderValue,
    /// It is only for the server that was meant.
    pub(super) is_secret: bool,
}

/// Puts arguments and variables where they belong.
pub(super) fn fill(
    template: &Template,
    args: &Map<String, Value>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Ready, String> {
    let filling = Filling { args, variable, secrets: RefCell::default() };
    let url = filling.address(&template.url)?;
    let mut headers = filling.headers(&template.headers)?;
    let kind = headers.iter().find(|one| one.name == header::CONTENT_TYPE);
    let kind = kind.and_then(|one| one.value.to_str().ok()).map(str::to_owned);
    let body = template.body.as_deref().map(|body| filling.body(body, kind.as_deref()));
    let (body, usual) = body.transpose()?.unzip();
    if let Some(usual) = usual.filter(|_| kind.is_none()) {
        let value = HeaderValue::from_static(usual);
        headers.push(Header { name: header::CONTENT_TYPE, value, is_secret: false });
    }
    let secrets = filling.secrets.into_inner();
    Ok(Ready { method: template.method.clone(), url, headers, body, secrets })
}

struct Filling<'a> {
    args: &'a Map<String, Value>,
    variable: &'a dyn Fn(&str) -> Option<String>,
    secrets: RefCell<Vec<String>>,
}

impl Filling<'_> {
    fn variable(&self, name: &str) -> Result<String, String> {
        let value = (self.variable)(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            format!("it needs the variable `{name}`: set it for the server, and say `@env {name}`")
        })?;
        // As it is, and as it is written into addresses.
        self.secrets.borrow_mut().extend([value.clone(), encoded(&value)]);
        Ok(value)
    }

    /// All parts of a text, one after the other. Arguments that were not given are empty.
    fn text(&self, pieces: &[Piece], encode: fn(&str) -> String) -> Result<String, String> {
        let mut out = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Variable(name) => out.push_str(&encode(&self.variable(name)?)),
                Piece::Argument { name, .. } => {
                    let value = given(self.args, name).map(plain).unwrap_or_default();
                    out.push_str(&encode(&value));
                }
            }
        }
        Ok(out)
    }

    fn address(&self, url: &str) -> Result<Url, String> {
        let url = url.split('#').next().unwrap_or_default();
        let (base, rest) = parted(url)?;
        let pieces = pieces(base, Variables::Filled);
        if pieces.iter().any(|piece| matches!(piece, Piece::Argument { .. })) {
            return Err("an argument must not choose the server: put it into the path".to_owned());
        }
        let base = self.text(&pieces, str::to_owned)?;
        let is_server = Url::parse(&base).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && url.query().or(url.fragment()).is_none()
        });
        if !is_server {
            return Err("its address must begin with http://SERVER or https://SERVER".to_owned());
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.split('/').map(|part| self.segment(part)).collect::<Result<Vec<_>, _>>()?;
        let mut whole = base.trim_end_matches('/').to_owned() + &path.join("/");
        let query = self.pairs(query, Variables::Filled)?;
        if !query.is_empty() {
            whole = format!("{whole}?{query}");
        }
        Url::parse(&whole).map_err(|error| format!("its address is none: {error}"))
    }

    /// A part of the path. What is put there stays one.
    fn segment(&self, part: &str) -> Result<String, String> {
        let pieces = pieces(part, Variables::Filled);
        for piece in &pieces {
            if let Piece::Argument { name, .. } = piece
                && given(self.args, name).is_none_or(|value| plain(value).is_empty())
            {
                return Err(format!(
                    "it needs the argument `{name}`, which is part of its address"
                ));
            }
        }
        let filled = self.text(&pieces, encoded)?;
        match pieces.iter().any(|piece| !matches!(piece, Piece::Text(_))) {
            true if matches!(filled.as_str(), "." | "..") => {
                Err("an argument in its address must not be `.` or `..`".to_owned())
            }
            _ => Ok(filled),
        }
    }

    /// `a={a}&b={b}`, of an address or a form. What was not given is left out, and a list is given
    /// item by item.
    fn pairs(&self, text: &str, variables: Variables) -> Result<String, String> {
        let mut all = vec![];
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                all.push(pair.to_owned());
                continue;
            };
            let pieces = pieces(value, variables);
            let Some((argument, joined)) = only_argument(&pieces) else {
                all.push(format!("{name}={}", self.text(&pieces, encoded)?));
                continue;
            };
            match given(self.args, argument) {
                None => (),
                Some(Value::Array(items)) if joined => {
                    let items: Vec<_> = items.iter().map(|item| encoded(&plain(item))).collect();
                    all.push(format!("{name}={}", items.join(",")));
                }
                Some(value) => each(name, value, &mut all),
            }
        }
        Ok(all.join("&"))
    }

    fn headers(&self, headers: &[(HeaderName, String)]) -> Result<Vec<Header>, String> {
        let mut all = vec![];
        for (name, value) in headers {
            let pieces = pieces(value, Variables::Filled);
            let only = only_argument(&pieces);
            if only.is_some_and(|(argument, _)| given(self.args, argument).is_none()) {
                continue;
            }
            let text = basic(self.text(&pieces, str::to_owned)?);
            if let Some(encoded) = text.strip_prefix("Basic ") {
                self.secrets.borrow_mut().push(encoded.to_owned());
            }
            // No line break gets past this, and no value into the words.
            let value = HeaderValue::from_bytes(text.as_bytes())
                .map_err(|_| format!("the header `{name}` must have no line breaks"))?;
            let is_own = [header::AUTHORIZATION, header::COOKIE].contains(name);
            let is_secret =
                is_own || pieces.iter().any(|piece| matches!(piece, Piece::Variable(_)));
            all.push(Header { name: name.clone(), value, is_secret });
        }
        Ok(all)
    }

    /// The body, and what it is unless something else is said.
    fn body(&self, body: &str, kind: Option<&str>) -> Result<(Vec<u8>, &'static str), String> {
        const TEXT: &str = "text/plain; charset=utf-8";
        let essence = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
        if essence.is_some_and(|kind| kind.eq_ignore_ascii_case(FORM)) {
            let lines: Vec<&str> = body.lines().map(str::trim).collect();
            return Ok((self.pairs(&lines.join(""), Variables::Plain)?.into_bytes(), FORM));
        }
        let is_json = essence.map(|kind| kind.to_ascii_lowercase().ends_with("json"));
        let pieces = pieces(body.trim(), Variables::Plain);
        if let Some((name, _)) = only_argument(&pieces).filter(|_| is_json.unwrap_or(true)) {
            let value = given(self.args, name).map(Value::to_string).unwrap_or_default();
            return Ok((value.into_bytes(), JSON));
        }
        let is_meant = body.trim_start().starts_with(['{', '[']);
        match serde_json::from_str(body) {
            Ok(template) if is_json.unwrap_or(is_meant) => {
                let filled = self.json(&template).unwrap_or_default();
                Ok((filled.to_string().into_bytes(), JSON))
            }
            Err(_) if is_json == Some(true) => Err(format!(
                "its body is no JSON: write places as strings, such as \"{}\"",
                "{name}"
            )),
            _ => Ok((self.text(&pieces, str::to_owned)?.into_bytes(), TEXT)),
        }
    }

    /// JSON with its places filled. A string that is one place only becomes what was given, and
    /// nothing if nothing was.
    fn json(&self, template: &Value) -> Option<Value> {
        Some(match template {
            Value::String(text) => {
                let pieces = pieces(text, Variables::Plain);
                match only_argument(&pieces) {
                    Some((name, _)) => given(self.args, name)?.clone(),
                    None => self.text(&pieces, str::to_owned).ok()?.into(),
                }
            }
            Value::Array(items) => items.iter().filter_map(|item| self.json(item)).collect(),
            Value::Object(members) => {
                let filled =
                    |(name, member): (&String, &Value)| Some((name.clone(), self.json(member)?));
                Value::Object(members.iter().filter_map(filled).collect())
            }
            other => other.clone(),
        })
    }
}

/// The server, and what is asked of it.
fn parted(url: &str) -> Result<(&str, &str), String> {
    // The first in it; others may be part of what is asked.
    let has_scheme = url.split(['/', '?']).next().is_some_and(|first| first.ends_with(':'));
    let start = match url.find("://").filter(|_| has_scheme) {
        Some(at) => at + 3,
        None if url.starts_with('$') => 0,
        None => {
            let fine = "http://, https://, or a variable such as $BASE_URL";
            return Err(format!("its address must begin with {fine}"));
        }
    };
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    Ok(url.split_at(end))
}

/// A value as `name=value`: a list item by item, an object member by member.
fn each(name: &str, value: &Value, all: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| each(name, item, all)),
        Value::Object(members) => members.iter().for_each(|(member, value)| {
            each(&format!("{name}[{}]", encoded(member)), value, all);
        }),
        value => all.push(format!("{name}={}", encoded(&plain(value)))),
    }
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// `Basic user:password` as servers want it.
fn basic(value: String) -> String {
    match value.strip_prefix("Basic ").filter(|rest| rest.contains(':')) {
        Some(rest) => format!("Basic {}", STANDARD.encode(rest)),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::{super::request::parse, *};
    use serde_json::json;

    fn made(text: &str, args: Value) -> Result<Ready, String> {
        let Value::Object(args) = args else { panic!("no object") };
        let variable = |name: &str| match name {
            "KEY" => Some("k&y".to_owned()),
            "BASE" => Some("http://b.example/v1/".to_owned()),
            "USER" => Some("ann".to_owned()),
            _ => None,
        };
        fill(&parse(text).expect("a request"), &args, &variable)
    }

    fn url(text: &str, args: Value) -> String {
        made(&format!("GET {text}"), args).expect("a request").url.to_string()
    }

    fn body(text: &str, args: Value) -> (String, String) {
        let ready = made(&format!("POST https://a.example/\n{text}"), args).expect("a request");
        let kind = ready.headers.iter().find(|one| one.name == header::CONTENT_TYPE);
        let kind = kind.map(|one| one.value.to_str().unwrap().to_owned()).unwrap_or_default();
        (String::from_utf8(ready.body.unwrap_or_default()).unwrap(), kind)
    }

    #[test]
    fn an_argument_stays_where_it_is_put() {
        let pets = "https://a.example/pets/{id}?q={q}&tag={tag}&in=x-{q}";
        let all = json!({ "id": "a/b?c#d é", "q": "x&y=z", "tag": ["a b", 2] });
        assert_eq!(
            url(pets, all),
            "https://a.example/pets/a%2Fb%3Fc%23d%20%C3%A9?q=x%26y%3Dz&tag=a%20b&tag=2&in=x-x%26y%3Dz"
        );
        assert_eq!(url(pets, json!({ "id": 7, "q": null })), "https://a.example/pets/7?in=x-");
        assert_eq!(url("https://a.example?q={q}", json!({})), "https://a.example/");
        let ids = json!({ "ids": ["a", "b,c"], "f": { "a": [1, 2], "b c": true } });
        assert_eq!(
            url("https://a.example/?ids={ids,}", ids.clone()),
            "https://a.example/?ids=a,b%2Cc"
        );
        assert_eq!(
            url("https://a.example/?f={f}", ids),
            "https://a.example/?f[a]=1&f[a]=2&f[b%20c]=true"
        );
    }

    #[test]
    fn an_argument_leads_nowhere_else() {
        for id in ["..", ".", "", "%2e%2e"] {
            let made = made("GET https://a.example/pets/{id}/toys", json!({ "id": id }));
            match id {
                "%2e%2e" => {
                    assert_eq!(made.unwrap().url.path(), "/pets/%252e%252e/toys");
                }
                _ => assert!(made.is_err(), "`{id}`"),
            }
        }
        for wrong in
            ["https://{id}/", "https://a{id}.example/", "ftp://a.example/", "/pets", "$USER/x"]
        {
            assert!(made(&format!("GET {wrong}"), json!({ "id": "b" })).is_err(), "{wrong}");
        }
    }

    #[test]
    fn variables_are_filled_and_missing_ones_named() {
        assert_eq!(url("$BASE/pets?key=$KEY", json!({})), "http://b.example/v1/pets?key=k%26y");
        assert_eq!(url("${BASE}?a=$$KEY", json!({})), "http://b.example/v1?a=$KEY");
        let why = made("GET https://a.example\nX: $NOWHERE", json!({})).expect_err("unset");
        assert!(why.contains("`NOWHERE`") && why.contains("@env NOWHERE"), "{why}");
        let ready =
            made("GET https://a.example\nAuthorization: Basic $USER:$KEY", json!({})).unwrap();
        assert_eq!(ready.headers[0].value, "Basic YW5uOmsmeQ==");
        // What a caller gives is never taken for a variable.
        assert_eq!(
            url("https://a.example/?a={a}", json!({ "a": "$KEY" })),
            "https://a.example/?a=%24KEY"
        );
    }

    #[test]
    fn a_header_is_one_line() {
        let text = "GET https://a.example\nX-A: {a}\nX-B: b";
        for bad in ["a\r\nX-Evil: 1", "a\nb", "a\rb", "a\0b"] {
            let why = made(text, json!({ "a": bad })).expect_err("a line break");
            assert!(why.contains("`x-a`") && !why.contains("Evil"), "{why}");
        }
        assert_eq!(made(text, json!({})).unwrap().headers.len(), 1);
        assert_eq!(made(text, json!({ "a": "x: y" })).unwrap().headers[0].value, "x: y");
    }

    #[test]
    fn a_body_is_json_a_form_or_text() {
        let (json, kind) = body(
            "\n{\"n\": \"{n}\", \"gone\": \"{gone}\", \"s\": \"<{s}>\", \"l\": [\"{n}\", \"{gone}\"], \"k\": {\"o\": \"{o}\"}}",
            json!({ "n": 3, "s": "a\"b", "o": { "x": [1] } }),
        );
        assert_eq!(json, r#"{"n":3,"s":"<a\"b>","l":[3],"k":{"o":{"x":[1]}}}"#);
        assert_eq!(kind, "application/json");
        let (whole, _) = body("\n{body}\n", json!({ "body": { "a": null } }));
        assert_eq!(whole, r#"{"a":null}"#);
        let form = "Content-Type: application/x-www-form-urlencoded\n\na={a}&b={b}&c={c}";
        let (form, _) = body(form, json!({ "a": "x&b=2", "c": [1, 2] }));
        assert_eq!(form, "a=x%26b%3D2&c=1&c=2");
        let (text, kind) = body("\nHello {who}, $KEY", json!({ "who": "Ann" }));
        assert_eq!(
            (text.as_str(), kind.as_str()),
            ("Hello Ann, $KEY", "text/plain; charset=utf-8")
        );
        let text = "POST https://a.example/\nContent-Type: application/json\n\n{\"n\": {n}}";
        assert!(made(text, json!({ "n": 1 })).is_err_and(|why| why.contains("no JSON")));
    }
}
