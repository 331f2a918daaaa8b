//! URI templates ([RFC 6570](https://www.rfc-editor.org/rfc/rfc6570)), forwards and backwards.

mod expand;
mod parse;
mod percent;
mod reverse;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use parse::Part;
use reverse::Step;

/// The longest template, and the longest URI that is matched with one.
const LONGEST: usize = 8 * 1024;

/// A family of URIs, such as `book://{id}` or `file:///{+path}{?lines}`.
///
/// All values are strings. `{/path*}` stands for several path segments, and its value is those
/// segments joined by `/`.
#[derive(Debug, Clone)]
pub struct UriTemplate {
    text: String,
    parts: Vec<Part>,
    steps: Vec<Step>,
}

impl UriTemplate {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let parts = parse::parse(text)?;
        let steps = reverse::compile(&parts);
        Ok(Self { text: text.to_owned(), parts, steps })
    }

    /// The template as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names of the variables, each once, in the order they first appear.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let mut seen = BTreeSet::new();
        self.names().filter(move |name| seen.insert(*name))
    }

    /// How much of the template is fixed text. Of several templates that match a URI, the one
    /// where this is highest says most about it.
    #[must_use]
    pub fn specificity(&self) -> usize {
        self.parts.iter().map(Part::text_length).sum()
    }

    /// The URI with these values. A variable without a value is left out.
    #[must_use]
    pub fn expand(&self, values: &BTreeMap<String, String>) -> String {
        expand::expand(&self.parts, values)
    }

    /// The values with which this template would give the URI, percent-decoded; none if there
    /// are no such values.
    ///
    /// - `{id}` takes at least one character, and stops at `/`, `?` and `#`.
    /// - `{+path}` and `{/path*}` go on after a `/`.
    /// - `{?a,b}`, `{&a,b}` and `{;a,b}` may be given in any order, in part or not at all, but
    ///   nothing unnamed, and nothing twice.
    /// - Where several splits are possible, an earlier variable takes as much as it can.
    ///
    /// A value that is not UTF-8 or that has a NUL in it does not match, nor does a URI longer
    /// than 8 KiB. A value may well be a path that climbs: check it before it is used as one.
    #[must_use]
    pub fn matches(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        if uri.len() > LONGEST {
            return None;
        }
        reverse::matches(&self.steps, uri)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(Part::variables).map(|variable| variable.name.as_str())
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether a value, used as a relative path, could lead out of its folder: it starts with `/`,
/// has a `..` segment, or has a backslash in it.
#[must_use]
pub(crate) fn is_traversal(value: &str) -> bool {
    value.starts_with('/') || value.contains('\\') || value.split('/').any(|part| part == "..")
}

/// Why a text is not a URI template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    position: usize,
    reason: &'static str,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a uri template: {} (at byte {})", self.reason, self.position)
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> UriTemplate {
        UriTemplate::parse(text).unwrap()
    }

    fn matches(text: &str, uri: &str) -> Option<Vec<(String, String)>> {
        template(text).matches(uri).map(|values| values.into_iter().collect())
    }

    fn values<const N: usize>(values: [(&str, &str); N]) -> Option<Vec<(String, String)>> {
        Some(values.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    #[test]
    fn expansion_is_that_of_the_rfc() {
        let values = [
            ("var", "value"),
            ("hello", "Hello World!"),
            ("half", "50%"),
            ("path", "/foo/bar"),
            ("empty", ""),
            ("x", "1024"),
            ("y", "768"),
            ("base", "http://example.com/home/"),
            ("who", "fred"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        for (text, expected) in [
            ("{var}", "value"),
            ("{hello}", "Hello%20World%21"),
            ("{half}", "50%25"),
            ("O{empty}X", "OX"),
            ("O{undef}X", "OX"),
            ("{x,y}", "1024,768"),
            ("?{x,empty}", "?1024,"),
            ("?{undef,y}", "?768"),
            ("{var:3}", "val"),
            ("{var:30}", "value"),
            ("{+hello}", "Hello%20World!"),
            ("{+half}", "50%25"),
            ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
            ("{+base}index", "http://example.com/home/index"),
            ("{+path:6}here", "/foo/bhere"),
            ("up{+path}{var}/here", "up/foo/barvalue/here"),
            ("{#x,hello,y}", "#1024,Hello%20World!,768"),
            ("foo{#empty}", "foo#"),
            ("foo{#undef}", "foo"),
            ("{.who,who}", ".fred.fred"),
            ("X{.empty}", "X."),
            ("{/var,x}/here", "/value/1024/here"),
            ("{/var:1,var}", "/v/value"),
            ("{/var,empty}", "/value/"),
            ("{;x,y,empty}", ";x=1024;y=768;empty"),
            ("{?x,y,empty}", "?x=1024&y=768&empty="),
            ("{?var:3}", "?var=val"),
            ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
            ("{&var:3}", "&var=val"),
        ] {
            assert_eq!(template(text).expand(&values), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for text in [
            "{",
            "a}",
            "{}",
            "{?}",
            "{a",
            "{a{b}}",
            "{!a}",
            "{a,}",
            "{a b}",
            "{a-b}",
            "{.}",
            "{a..b}",
            "{a:0}",
            "{a:10000}",
            "{a:+1}",
            "{a:}",
            "{a:3*}",
            "{%4}",
            "a b",
            "a%zz",
            "\n",
        ] {
            assert!(UriTemplate::parse(text).is_err(), "{text}");
        }
        assert!(UriTemplate::parse(&"a".repeat(LONGEST + 1)).is_err());
        assert!(UriTemplate::parse(&"{a}".repeat(65)).is_err());
        assert_eq!(
            UriTemplate::parse("book://{id").unwrap_err().to_string(),
            "not a uri template: `{` has no `}` (at byte 7)"
        );
    }

    #[test]
    fn variables_are_named_once() {
        let template = template("{a}/{b,a.c}{?b:3,d*}");
        assert_eq!(template.variables().collect::<Vec<_>>(), ["a", "b", "a.c", "d"]);
    }

    #[test]
    fn more_text_is_more_specific() {
        assert!(template("a://b/{x}").specificity() > template("a://{+x}").specificity());
    }

    #[test]
    fn a_variable_takes_one_segment() {
        assert_eq!(matches("book://{id}", "book://a%2Fb%20c"), values([("id", "a/b c")]));
        assert_eq!(matches("book://{id}/x", "book://ü/x"), values([("id", "ü")]));
        for uri in ["book://", "book://a/b", "book://a?b", "Book://a", "book://%ff", "book://%00"] {
            assert_eq!(matches("book://{id}", uri), None, "{uri}");
        }
        assert_eq!(matches("ü://x", "ü://x"), values([]));
        assert_eq!(matches("{a}-{b}", "x-y-z"), values([("a", "x-y"), ("b", "z")]));
        assert_eq!(matches("{x,y}", "1,2"), values([("x", "1"), ("y", "2")]));
        assert_eq!(matches("{n}{.ext}", "a.tar.gz"), values([("ext", "gz"), ("n", "a.tar")]));
    }

    #[test]
    fn reserved_and_exploded_variables_take_several_segments() {
        assert_eq!(matches("file:///{+path}", "file:///a/b%20c"), values([("path", "a/b c")]));
        assert_eq!(matches("file://{/path*}", "file:///a/b"), values([("path", "a/b")]));
        assert_eq!(matches("file://{/path}", "file:///a/b"), None);
        assert_eq!(matches("x:{+p}/{n}", "x:a/b/c"), values([("n", "c"), ("p", "a/b")]));
        let exploded = template("file://{/path*}");
        assert_eq!(exploded.expand(&exploded.matches("file:///a/b%2fc").unwrap()), "file:///a/b/c");
    }

    #[test]
    fn a_query_may_come_in_any_order_or_not_at_all() {
        let text = "x://{+path}{?a,b}{&c}";
        assert_eq!(matches(text, "x://p/q"), values([("path", "p/q")]));
        assert_eq!(
            matches(text, "x://p?c=3&a=1%262"),
            values([("a", "1&2"), ("c", "3"), ("path", "p")])
        );
        assert_eq!(matches(text, "x://p?a"), values([("a", ""), ("path", "p")]));
        for uri in ["x://p?", "x://p?d=1", "x://p?a=1&a=2", "x://p?a=1&"] {
            assert_eq!(matches(text, uri), None, "{uri}");
        }
        assert_eq!(matches("x{;v}/y", "x;v=1/y"), values([("v", "1")]));
        assert_eq!(matches("x?a={a}&b={b}", "x?a=1&b=2&b=3"), None);
    }

    #[test]
    fn a_variable_that_comes_twice_has_one_value() {
        assert_eq!(matches("{a}/{a}", "x/x"), values([("a", "x")]));
        assert_eq!(matches("{a}/{a}", "x/y"), None);
        assert_eq!(matches("{/v:1,v}", "/v/value"), values([("v", "value")]));
        assert_eq!(matches("{/v:1,v}", "/x/value"), None);
        assert_eq!(matches("{v:2}", "abc"), None);
    }

    #[test]
    fn matching_is_never_exponential() {
        let text = "{+a}".repeat(63) + "!";
        assert_eq!(matches(&text, &"a".repeat(LONGEST)), None);
        assert_eq!(matches("{a}", &"a".repeat(LONGEST + 1)), None);
    }

    #[test]
    fn climbing_values_are_known() {
        for value in ["..", "../a", "a/..", "a/../b", "/a", "a\\b", "..\\a"] {
            assert!(is_traversal(value), "{value}");
        }
        for value in ["", "a", "a/b", "..a", "a..", "a/...", "."] {
            assert!(!is_traversal(value), "{value}");
        }
    }
}
