//! Pages made of templates: a page's own script, the one all share, and what a project says.

use serde_json::{Map, Value};

const PAGE: &str = include_str!("../../ui_templates/page.html");
const STYLE: &str = include_str!("../../ui_templates/page.css");
const BRIDGE: &str = include_str!("../../ui_templates/bridge.js");

macro_rules! templates {
    ($($name:literal),*) => {
        /// The templates: what they are called, and a page's own script.
        const SCRIPTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../ui_templates/", $name, ".js")))),*];
        /// And a file that uses them.
        const SAMPLES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../ui_templates/", $name, ".json")))),*];
    };
}
templates!("form", "data-table", "progress", "diff-viewer", "tree-view", "kanban");

/// What pages can be made of, and a `ui.meta.json` for each to begin with.
///
/// ```
/// let (name, sample) = zcp_scripts::page_templates()[0];
/// assert_eq!(name, "form");
/// assert!(sample.contains("submitTool"));
/// ```
pub fn page_templates() -> &'static [(&'static str, &'static str)] {
    SAMPLES
}

/// A page of a template. `name` is what it is called if its config has no title.
pub(crate) fn page(template: &str, config: &Value, name: &str) -> Result<String, String> {
    let Some((_, script)) = SCRIPTS.iter().find(|(name, _)| *name == template) else {
        let known: Vec<&str> = SCRIPTS.iter().map(|(name, _)| *name).collect();
        let known = known.join(", ");
        return Err(format!("there is no template `{template}`: it is one of {known}"));
    };
    let config = match config {
        Value::Null => Value::Object(Map::new()),
        Value::Object(_) => config.clone(),
        _ => return Err("the `config` of a template is an object".to_owned()),
    };
    let title = config["title"].as_str().unwrap_or(name);
    let parts = [
        ("%style%", STYLE.trim_end()),
        ("%bridge%", BRIDGE.trim_end()),
        ("%template%", script.trim_end()),
        ("%title%", &escaped(title)),
        ("%config%", &as_script(&config)),
    ];
    // In one pass: what is put in is not looked at again.
    let (mut page, mut rest) = (String::new(), PAGE);
    while let Some((at, (mark, part))) =
        parts.iter().filter_map(|part| Some((rest.find(part.0)?, part))).min_by_key(|(at, _)| *at)
    {
        page.push_str(&rest[..at]);
        page.push_str(part);
        rest = &rest[at + mark.len()..];
    }
    page.push_str(rest);
    Ok(page)
}

/// JSON that ends no script and begins no comment, whatever is in it.
fn as_script(value: &Value) -> String {
    let mut text = String::new();
    for letter in value.to_string().chars() {
        match letter {
            // In JSON these are only ever inside of strings.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => text.push(letter),
        }
    }
    text
}

/// Words as text of a page.
fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_project_says_stays_data() {
        let nasty = "</script><script>alert(1)</script><!-- & %bridge% \u{2028}";
        let config = json!({ "title": nasty, "fields": [{ "name": nasty }] });
        let page = page("form", &config, "x").unwrap();
        assert!(!page.contains("alert(1)</script>"), "it broke out");
        assert_eq!(page.matches("</script>").count(), 2);
        assert_eq!(page.matches("const bridge").count(), 1);
        let begin = page.find("id=\"config\">").unwrap() + "id=\"config\">".len();
        let inside = &page[begin..begin + page[begin..].find("</script>").unwrap()];
        assert_eq!(serde_json::from_str::<Value>(inside).unwrap(), config);
    }

    #[test]
    fn every_template_has_a_sample_that_uses_it_and_reaches_nowhere() {
        for (name, sample) in page_templates() {
            let sample: Value = serde_json::from_str(sample).unwrap();
            assert_eq!(sample["template"], *name);
            let page = page(name, &sample["config"], name).unwrap();
            for word in ["http://", "https://", "%config%", "%style%", "innerHTML", "eval("] {
                assert!(!page.contains(word), "{name} has {word}");
            }
        }
        let unknown = page("chart", &Value::Null, "x").unwrap_err();
        assert!(unknown.contains("form, data-table, progress"), "{unknown}");
        assert!(page("form", &json!([]), "x").is_err());
    }
}
