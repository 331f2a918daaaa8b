//! How arguments reach a script.

use serde::{Deserialize, Deserializer};

/// How arguments reach a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// As an object on standard input, and each as a variable.
    Both,
    /// As an object on standard input.
    Stdin,
    /// Each as a variable.
    Env,
    /// As words of the command line, by a template.
    Argv(Vec<String>),
    /// As projects written for mcp-bash expect them.
    McpBash,
}

impl<'a> Deserialize<'a> for Form {
    fn deserialize<D: Deserializer<'a>>(form: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Said {
            Text(String),
            Words(Vec<String>),
        }
        match Said::deserialize(form)? {
            Said::Text(text) => Self::parse(&text).map_err(serde::de::Error::custom),
            Said::Words(words) => Ok(Self::Argv(words)),
        }
    }
}

impl Form {
    /// A form's name, or a template of the command line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Ok(match text.trim() {
            "both" => Self::Both,
            "stdin" | "json" => Self::Stdin,
            "env" => Self::Env,
            "mcp-bash" => Self::McpBash,
            "none" => Self::Argv(vec![]),
            template => {
                let words = shell_words::split(template)
                    .map_err(|error| format!("`args` is not a command line: {error}"))?;
                if !words.iter().any(|word| word.contains('{')) {
                    return Err(format!(
                        "`args` is `{template}`: say stdin, env, both, none, mcp-bash, or a \
                         template such as `--name {{name}}`"
                    ));
                }
                Self::Argv(words)
            }
        })
    }
}
