//! A file that says a request: its method and address, its headers, its body.

use reqwest::{Method, header::HeaderName};

/// A request with places for arguments and variables.
#[derive(Debug)]
pub(super) struct Template {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) body: Option<String>,
}

/// Reads a file. What is said of the tool, in comments, is not for us.
pub(super) fn parse(text: &str) -> Result<Template, String> {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().peekable();
    let is_comment = |line: &str| line.starts_with('#') || line.starts_with("//");
    let first = lines.by_ref().find(|line| !line.trim().is_empty() && !is_comment(line.trim()));
    let first = first.ok_or("it has no request: write a line such as GET https://…")?;
    let (method, mut url) = request_line(first)?;
    // A long address may go on in the lines below.
    while let Some(more) = lines.next_if(|line| {
        line.starts_with([' ', '\t']) && line.trim_start().starts_with(['?', '&', '/'])
    }) {
        url.push_str(more.trim());
    }
    let mut headers = vec![];
    for line in lines.by_ref() {
        let line = line.trim();
        if line.is_empty() {
            break;
        }
        if is_comment(line) {
            continue;
        }
        // Its value may be a secret, and is not shown.
        let (name, value) = line
            .split_once(':')
            .ok_or("a line after the address is no header: write `Name: value`")?;
        let name = name.trim();
        let known = name.parse().map_err(|_| format!("`{name}` is no name of a header"))?;
        headers.push((known, value.trim().to_owned()));
    }
    let body: Vec<&str> = lines.collect();
    if body.iter().any(|line| line.starts_with("###")) {
        return Err("it has more than one request: put each into a file of its own".to_owned());
    }
    let body = body.join("\n");
    let body = Some(body.trim_matches('\n').to_owned()).filter(|body| !body.trim().is_empty());
    Ok(Template { method, url, headers, body })
}

/// `GET https://…`, perhaps with `HTTP/1.1` after it.
fn request_line(line: &str) -> Result<(Method, String), String> {
    let mut words = line.split_whitespace();
    let (Some(method), Some(url)) = (words.next(), words.next()) else {
        return Err("it begins with no request: write a line such as GET https://…".to_owned());
    };
    let is_method = method.chars().all(|c| c.is_ascii_uppercase());
    let method = method.parse().ok().filter(|_| is_method);
    let method = method.ok_or("it begins with no method such as GET or POST")?;
    match words.next().filter(|word| !word.starts_with("HTTP/")) {
        Some(_) => Err("its address has a space: write %20".to_owned()),
        None => Ok((method, url.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_a_request() {
        let text = "# Finds a pet.\n#\n# @env TOKEN\n\nPOST https://a.example/pets HTTP/1.1\r\n  ?a={a}\r\n  &b={b}\r\nAccept: text/plain\r\n# a note\r\nX-A: b: c\r\n\r\n{\r\n  \"a\": 1\r\n}\r\n";
        let read = parse(text).expect("a request");
        assert_eq!(read.method, Method::POST);
        assert_eq!(read.url, "https://a.example/pets?a={a}&b={b}");
        let headers: Vec<_> = read.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(headers, [("accept", "text/plain"), ("x-a", "b: c")]);
        assert_eq!(read.body.as_deref(), Some("{\n  \"a\": 1\n}"));
    }

    #[test]
    fn what_is_no_request_is_told_without_its_words() {
        for wrong in [
            "",
            "# only words",
            "hello",
            "get https://a.example",
            "GET https://a.example a b",
            "GET https://a.example\nsecret words",
            "GET https://a.example\na b: secret",
            "GET https://a.example\n\nbody\n###\nGET https://b.example",
        ] {
            let why = parse(wrong).expect_err(wrong);
            assert!(!why.contains("secret"), "{why}");
        }
    }
}
