//! The members of what is said of a script: each by any of its names, and once.

use super::{Manifest, values::time_said};
use serde::{
    Deserialize,
    de::{
        DeserializeSeed, Deserializer, Error, MapAccess, Visitor,
        value::{MapAccessDeserializer, StringDeserializer},
    },
};
use serde_json::Value;
use std::{collections::HashSet, fmt};

/// Names that people write by habit, and what they mean.
const HABITS: [(&str, &str); 18] = [
    ("arguments", "inputSchema"),
    ("input", "inputSchema"),
    ("input_schema", "inputSchema"),
    ("parameters", "params"),
    ("output", "outputSchema"),
    ("output_schema", "outputSchema"),
    ("output_files", "outputFiles"),
    ("icon", "icons"),
    ("meta", "_meta"),
    ("env_allow", "envAllow"),
    ("envAllowlist", "envAllow"),
    ("timeoutSecs", "timeout"),
    ("timeout_secs", "timeout"),
    ("timeout_hint", "timeoutHint"),
    ("progress_extends_timeout", "progressExtendsTimeout"),
    ("maxTimeoutSecs", "maxTimeout"),
    ("max_timeout", "maxTimeout"),
    ("max_timeout_secs", "maxTimeout"),
];

/// What a script's members are called.
const NAMES: &str = "name title description inputSchema params outputSchema annotations icons _meta \
    args returns outputFiles command cwd env envAllow timeout timeoutHint progressExtendsTimeout maxTimeout task \
    limits sandbox enabled";

/// Those that keep a script from something.
const BOUNDS: [&str; 3] = ["limits", "sandbox", "enabled"];

impl<'a> Deserialize<'a> for Manifest {
    fn deserialize<D: Deserializer<'a>>(said: D) -> Result<Self, D::Error> {
        said.deserialize_map(Whole)
    }
}

struct Whole;

impl<'a> Visitor<'a> for Whole {
    type Value = Manifest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what is said of a script")
    }

    fn visit_map<M: MapAccess<'a>>(self, map: M) -> Result<Manifest, M::Error> {
        let mut mistakes = vec![];
        let members = Members { map, seen: HashSet::new(), held: None, mistakes: &mut mistakes };
        // The derived one, which knows one name for each.
        let mut said = Manifest::deserialize(MapAccessDeserializer::new(members))?;
        said.limits.check().map_err(Error::custom)?;
        said.mistakes = mistakes;
        Ok(said)
    }
}

/// Members on their way: of several names for one thing the first that is written counts.
struct Members<'m, M> {
    map: M,
    seen: HashSet<String>,
    /// The value of the last name, if it had to be looked at.
    held: Option<Value>,
    /// What was not understood, and is as if it were not said.
    mistakes: &'m mut Vec<String>,
}

impl<'a, M: MapAccess<'a>> MapAccess<'a> for Members<'_, M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        while let Some(written) = self.map.next_key::<String>()? {
            let habit = HABITS.iter().find(|(habit, _)| *habit == written);
            let mut name = habit.map_or(written.as_str(), |(_, name)| name).to_owned();
            if let Err(meant) = self.is_no_slip(&name) {
                return Err(Error::custom(format!(
                    "`{name}` means nothing: did you mean `{meant}`?"
                )));
            }
            let is_looked_at = name == "env" || HABITS.iter().any(|(_, known)| *known == name);
            if is_looked_at {
                let value: Value = self.map.next_value()?;
                if name == "env" && value.is_array() {
                    name = "envAllow".to_owned();
                }
                let Some(value) = self.understood(&written, &name, value) else { continue };
                if !self.seen.insert(name.clone()) {
                    continue;
                }
                self.held = Some(value);
            }
            return seed.deserialize(StringDeserializer::new(name)).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        match self.held.take() {
            Some(value) => seed.deserialize(value).map_err(Error::custom),
            None => self.map.next_value_seed(seed),
        }
    }
}

impl<M> Members<'_, M> {
    /// Tells of a slip in a name: which is meant, if a script could do more for it.
    fn is_no_slip(&mut self, name: &str) -> Result<(), &'static str> {
        let Err(meant) = super::no_slip(name, NAMES) else { return Ok(()) };
        if BOUNDS.contains(&meant) {
            return Err(meant);
        }
        self.mistakes.push(format!("`{name}` means nothing: did you mean `{meant}`?"));
        Ok(())
    }

    /// A value, unless it says nothing.
    fn understood(&mut self, written: &str, name: &str, value: Value) -> Option<Value> {
        let why = match (name, &value) {
            (_, Value::Null) => return None,
            ("envAllow", Value::Array(names)) => {
                let wrong = names
                    .iter()
                    .filter_map(Value::as_str)
                    .find_map(|name| super::tags::variable(name).err());
                self.mistakes.extend(wrong);
                return Some(value);
            }
            ("timeout" | "maxTimeout", value) => time_said(value).err(),
            ("progressExtendsTimeout", Value::String(text)) => match text.as_str() {
                "true" => return Some(Value::Bool(true)),
                "false" => return Some(Value::Bool(false)),
                _ => Some("it is neither true nor false".to_owned()),
            },
            _ => None,
        };
        let Some(why) = why else { return Some(value) };
        self.mistakes.push(format!("`{written}` is as if it were not said: {why}"));
        None
    }
}
