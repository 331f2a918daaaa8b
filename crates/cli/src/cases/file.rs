//! Files of cases, changed where they stand: what does not change keeps its bytes.

use super::{Case, Expect, Got, Result};
use crate::client_config::user_files::{Kept, Readers};
use serde::Serialize;
use serde_json::{Map, Value};
use std::{
    ops::Range,
    path::{Path, PathBuf},
};
use zcp_client::wire::mcp::tools::CallToolResult;

/// A file of cases: what it says, and its text.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: PathBuf,
    kept: Kept,
    text: String,
    pub(crate) cases: Vec<Case>,
}

impl File {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let kept = Kept::read(path)?;
        let text = kept.text.clone().ok_or_else(|| wrong(&"there is no such file"))?;
        let cases = parsed(&text).map_err(|error| wrong(&named(&error, path)))?;
        for (number, case) in cases.iter().enumerate() {
            case.check().map_err(|why| wrong(&format!("case {}: {why}", number + 1)))?;
        }
        Ok(Self { path: path.to_owned(), kept, text, cases })
    }

    /// Says what is expected of a case from now on. Nothing is written yet.
    pub(crate) fn expect(&mut self, number: usize, expect: &Expect) -> Result<()> {
        let mut wanted = self.cases.clone();
        wanted[number].expect = Some(expect.clone());
        let (indent, items) = items(&self.text);
        let item = items.get(number).cloned().filter(|_| items.len() == self.cases.len());
        let ways = item.into_iter().flat_map(|item| {
            let old = &self.text[item.clone()];
            let (body, rest) = old.split_at(body(old, indent));
            let ways = [with_expect(body, indent, expect), Some(written(&wanted[number], indent))];
            let all = |new: String| {
                let (before, after) = (&self.text[..item.start], &self.text[item.end..]);
                format!("{before}{new}{rest}{after}")
            };
            ways.into_iter().flatten().map(all).collect::<Vec<_>>()
        });
        // What would say anything else than it should is not taken.
        let found = ways.into_iter().find(|text| parsed(text).is_ok_and(|cases| cases == wanted));
        let hint = "write its cases as a list, each beginning with `- ` in a line of its own";
        let path = self.path.display();
        self.text = found.ok_or_else(|| format!("{path} cannot be rewritten: {hint}"))?;
        self.cases = wanted;
        Ok(())
    }

    /// Writes the file, unless it has changed since; what it was is in a file beside it, which is
    /// named.
    pub(crate) fn save(&self) -> Result<Option<PathBuf>> {
        self.kept.replace(&self.text, Readers::Usual)
    }
}

/// Adds a case to a file, and makes the file if it is not there. A case that is there already is
/// not added again.
pub(crate) fn append_case(
    file: &Path,
    tool: &str,
    args: &Map<String, Value>,
    result: &CallToolResult,
) -> Result<()> {
    let case = Case {
        tool: Some(tool.to_owned()),
        args: args.clone(),
        expect: Some(Got::tool(result).expected()),
        ..Case::default()
    };
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let kept = Kept::take(file)?;
    let mut text = kept.text.clone().unwrap_or_default();
    let mut wanted = parsed(&text).map_err(|error| wrong(&named(&error, file)))?;
    if wanted.contains(&case) {
        return Ok(());
    }
    if !text.is_empty() {
        text += if text.ends_with('\n') { "\n" } else { "\n\n" };
    }
    text += &written(&case, items(&text).0);
    wanted.push(case);
    if parsed(&text).ok() != Some(wanted) {
        let hint = "its cases are no list with a line `- …` for each";
        return Err(wrong(&format!("nothing can be added: {hint}")).into());
    }
    kept.extend(&text, Readers::Usual)
}

/// A mistake with the file's name where the reader of YAML knows none.
fn named(error: &str, path: &Path) -> String {
    let error = error.strip_prefix("error: ").unwrap_or(error);
    error.replace("--> <input>:", &format!("--> {}:", path.display()))
}

fn parsed(text: &str) -> std::result::Result<Vec<Case>, String> {
    let says_something = |line: &str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#') && line != "---"
    };
    if !text.lines().any(says_something) {
        return Ok(vec![]);
    }
    // `no` is a word here, as it is to those who read the file with other programs.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// Where the items of the list are, and how far they are indented. Whatever belongs to an item is
/// indented further, so nothing else can look like the beginning of one.
fn items(text: &str) -> (usize, Vec<Range<usize>>) {
    let mut indent = None;
    let mut starts = vec![];
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let inner = line.trim_start_matches(' ');
        let is_item = inner.starts_with("- ") || inner.trim_end() == "-";
        if is_item && line.len() - inner.len() == *indent.get_or_insert(line.len() - inner.len()) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    (indent.unwrap_or(0), starts.iter().copied().zip(ends).map(|(from, to)| from..to).collect())
}

/// Where an item ends, and empty lines and comments before the next one begin.
fn body(item: &str, indent: usize) -> usize {
    let mut end = item.len();
    for line in item.split_inclusive('\n').collect::<Vec<_>>().into_iter().rev() {
        let inner = line.trim_start();
        let is_between =
            inner.is_empty() || inner.starts_with('#') && line.len() - inner.len() <= indent;
        if !is_between {
            break;
        }
        end -= line.len();
    }
    end
}

/// An item with another expectation, and all else as it is; none if it is not written in lines.
fn with_expect(item: &str, indent: usize, expect: &Expect) -> Option<String> {
    let first = item.lines().next()?.get(indent + 1..)?;
    let column = indent + 1 + (first.len() - first.trim_start().len());
    let begins = first.trim_start();
    let is_plain = begins.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    if !is_plain || begins.starts_with("expect:") {
        return None;
    }
    let new = indented(&serde_saphyr::to_string(&Wrapped { expect }).ok()?, column);
    let mut all = String::new();
    let mut is_replaced = false;
    let mut is_inside = false;
    for line in item.split_inclusive('\n') {
        let inner = line.trim_start_matches(' ');
        let deep = line.len() - inner.len();
        if is_inside && (inner.trim().is_empty() || deep > column) {
            continue;
        }
        is_inside = deep == column && inner.starts_with("expect:");
        match is_inside {
            true => all += &new,
            false => all += line,
        }
        is_replaced |= is_inside;
    }
    if !is_replaced {
        if !all.ends_with('\n') {
            all.push('\n');
        }
        all += &new;
    }
    Some(all)
}

#[derive(Serialize)]
struct Wrapped<'a> {
    expect: &'a Expect,
}

/// A case as an item of a list.
fn written(case: &Case, indent: usize) -> String {
    indented(&serde_saphyr::to_string(&[case]).unwrap_or_default(), indent)
}

fn indented(text: &str, by: usize) -> String {
    text.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;
    use zcp_client::wire::mcp::content::Content;

    fn file(text: &str) -> File {
        let kept = Kept::read(Path::new("no such.yaml")).unwrap();
        let cases = parsed(text).unwrap();
        File { path: kept.path.clone(), kept, text: text.to_owned(), cases }
    }

    fn says(text: &str) -> Expect {
        Expect { text: Some(text.to_owned()), ..Expect::default() }
    }

    const CASES: &str = "# Cases of greet.\n\n- name: plain # the usual\n  tool: greet\n  args: { name: Ann }\n  expect:\n    # what it says\n    text: Hello\n\n    contains: [H]\n  # after it\n  skip: later\n\n# The second.\n- { tool: other }\n\n-   tool: third\n    args:\n      text: |\n        - no item\n        expect: nothing\n# The end.\n";

    #[test]
    fn what_does_not_change_keeps_its_bytes() {
        let mut one = file(CASES);
        one.expect(0, &says("Bye\nall")).unwrap();
        let new = "  expect:\n    text: |-\n      Bye\n      all\n  # after it\n  skip: later\n";
        let old = &CASES[CASES.find("  expect:").unwrap()..CASES.find("\n# The second").unwrap()];
        assert_eq!(one.text, CASES.replace(old, new));
        one.expect(2, &says("x")).unwrap();
        assert!(one.text.ends_with("expect: nothing\n    expect:\n      text: x\n# The end.\n"));
        one.expect(1, &says("{}")).unwrap();
        let second = "# The second.\n- tool: other\n  expect:\n    text: \"{}\"\n\n-   tool: third";
        assert!(one.text.contains(second), "{}", one.text);
        assert_eq!(parsed(&one.text).unwrap(), one.cases);
    }

    #[test]
    fn a_file_that_is_no_list_of_lines_is_left_alone() {
        let mut one = file("[{ tool: a }, { tool: b }]\n");
        assert!(one.expect(1, &says("x")).unwrap_err().to_string().contains("each beginning with"));
        assert_eq!(one.text, "[{ tool: a }, { tool: b }]\n");
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |text: &str| parsed(text).unwrap()[0].check().unwrap_err();
        assert!(wrong("- name: x").contains("`tool`"));
        assert!(wrong("- { tool: a, resource: b }").contains("several"));
        assert!(wrong("- { tool: a, expect: { matches: '(' } }").contains("matches"));
        assert!(parsed("- { tol: a }").unwrap_err().contains("tol"));
        assert_eq!(parsed("# none yet\n").unwrap(), []);
    }

    #[test]
    fn words_need_no_quotes() {
        let cases = parsed("- { tool: a, args: { b: no }, expect: { contains: 3 } }\n- { tool: a, expect: { contains: [yes, 4, x] } }\n").unwrap();
        assert_eq!(cases[0].args["b"], "no");
        let contains = |number: usize| cases[number].expect.clone().unwrap().contains;
        assert_eq!(
            (contains(0), contains(1)),
            (vec!["3".into()], vec!["yes".into(), "4".into(), "x".into()])
        );
        assert!(parsed("- { tool: a, expect: { contains: { a: 1 } } }").is_err());
    }

    #[test]
    fn what_was_added_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, "- tool: a\n").unwrap();
        let mut one = File::read(&path).unwrap();
        one.expect(0, &says("x")).unwrap();
        fs::write(&path, "- tool: a\n- tool: b\n").unwrap();
        assert!(one.save().unwrap_err().to_string().contains("try again"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "- tool: a\n- tool: b\n");
    }

    #[test]
    fn recorded_calls_become_cases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tests/today.yaml");
        let result = |text: &str, structured: Option<Value>| CallToolResult {
            content: vec![Content::text(text)],
            structured_content: structured,
            is_error: false,
            meta: None,
        };
        let args = |value: Value| value.as_object().unwrap().clone();
        let ann = args(json!({ "name": "Ann", "loud": true, "odd": "yes: no # \"\n- x" }));
        append_case(&path, "greet", &ann, &result("Hello,\n  Ann!\n", None)).unwrap();
        append_case(&path, "greet", &ann, &result("Hello,\n  Ann!\n", None)).unwrap();
        let value = json!({ "a": [1, null], "b": "*" });
        append_case(&path, "look", &Map::new(), &result(&value.to_string(), Some(value.clone())))
            .unwrap();
        let failed = CallToolResult { is_error: true, ..result("no", None) };
        append_case(&path, "look", &Map::new(), &failed).unwrap();
        let read = File::read(&path).unwrap().cases;
        assert_eq!(read.len(), 3);
        assert_eq!(read[0].args, ann);
        assert_eq!(read[0].expect, Some(says("Hello,\n  Ann!\n")));
        let expect = read[1].expect.clone().unwrap();
        assert_eq!((expect.text, expect.structured), (None, Some(value)));
        assert_eq!(read[2].expect, Some(Expect { error: Some(true), ..says("no") }));
        fs::write(&path, "{ no: list }").unwrap();
        assert!(append_case(&path, "look", &Map::new(), &failed).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "{ no: list }");
    }
}
