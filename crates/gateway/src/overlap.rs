//! Which resources of one mount would be read in the place of another's.

use std::collections::HashMap;
use zcp::UriTemplate;

/// How much comparing all URIs with all templates may cost, in bytes of both. What is not compared
/// is listed, and read from the first mount all the same.
const EFFORT: usize = 20_000_000;

/// The templates of the mounts so far.
pub(crate) struct Families<'a> {
    templates: Vec<(UriTemplate, &'a str)>,
    shapes: HashMap<String, &'a str>,
    effort: usize,
}

impl<'a> Families<'a> {
    pub(crate) fn new() -> Self {
        Self { templates: vec![], shapes: HashMap::new(), effort: EFFORT }
    }

    pub(crate) fn add(&mut self, template: &str, mount: &'a str) {
        self.shapes.entry(shape(template)).or_insert(mount);
        self.templates.extend(UriTemplate::parse(template).ok().map(|one| (one, mount)));
    }

    /// The first mount with a template that a URI fits.
    pub(crate) fn owner_of_uri(&mut self, uri: &str) -> Option<&'a str> {
        for (template, mount) in &self.templates {
            let text = template.as_str();
            let fixed = text.split('{').next().unwrap_or_default();
            self.effort = self.effort.checked_sub(fixed.len().max(1))?;
            if !uri.starts_with(fixed) {
                continue;
            }
            self.effort = self.effort.checked_sub(text.len() * uri.len())?;
            if template.matches(uri).is_some() {
                return Some(mount);
            }
        }
        None
    }

    /// The first mount with the same template, whatever its variables are called.
    pub(crate) fn owner_of_template(&self, template: &str) -> Option<&'a str> {
        self.shapes.get(&shape(template)).copied()
    }
}

/// A template with its variables numbered. Those of a query are part of its URIs, and stay.
fn shape(template: &str) -> String {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut parts = template.split('{');
    let mut shape = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (expression, after) = part.split_once('}').unwrap_or((part, ""));
        let names = expression.trim_start_matches(['+', '#', '.', '/']);
        let operator = &expression[..expression.len() - names.len()];
        shape += "{";
        shape += operator;
        match names.starts_with(['?', '&', ';']) {
            true => shape += names,
            false => {
                for variable in names.split(',') {
                    let end = variable.find([':', '*']).unwrap_or(variable.len());
                    let next = numbers.len();
                    let number = numbers.entry(&variable[..end]).or_insert(next);
                    shape += &format!("{number}{},", &variable[end..]);
                }
            }
        }
        shape += "}";
        shape += after;
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_compared_without_the_names_of_variables() {
        for (one, two) in [
            ("a://{x}/{y}", "a://{y}/{x}"),
            ("f:///{+path}", "f:///{+p}"),
            ("{a:3,b*}", "{c:3,d*}"),
        ] {
            assert_eq!(shape(one), shape(two));
        }
        for (one, two) in [
            ("a://{x}/{y}", "a://{x}/{x}"),
            ("a://{x}", "a://{+x}"),
            ("a://{x}", "a://{x:3}"),
            ("a://b{?x}", "a://b{?y}"),
            ("a://{x}", "b://{x}"),
        ] {
            assert_ne!(shape(one), shape(two));
        }
    }

    #[test]
    fn comparing_uris_with_templates_has_an_end() {
        let mut families = Families::new();
        (0..1000).for_each(|number| families.add(&format!("{}{number}", "{+a}".repeat(30)), "a"));
        let begun = std::time::Instant::now();
        let uri = "x".repeat(8000);
        (0..1000).for_each(|_| assert_eq!(families.owner_of_uri(&uri), None));
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(families.effort.checked_sub(8000 * 121), None);
    }
}
