//! Times, sizes and command lines, as people write them.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::time::Duration;

/// A command line, or its words.
pub(crate) fn words<'a, D: Deserializer<'a>>(value: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Said {
        Text(String),
        Words(Vec<String>),
    }
    Ok(match Option::<Said>::deserialize(value)? {
        None => None,
        Some(Said::Words(words)) => Some(words),
        Some(Said::Text(text)) => {
            Some(shell_words::split(&text).map_err(serde::de::Error::custom)?)
        }
    })
}

/// Seconds, or words such as `2m 30s`. What is neither is as if it were not said.
pub(crate) fn time<'a, D: Deserializer<'a>>(value: D) -> Result<Option<Duration>, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::Number(seconds) => {
            seconds.as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        }
        Value::String(text) => Some(time_of(&text).map_err(serde::de::Error::custom)?),
        _ => None,
    })
}

pub(crate) fn time_of(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text.trim())
        .map_err(|error| format!("`{text}` is no time such as 30s or 2m: {error}"))
}

/// A time in which something can be done.
pub(super) fn time_said(value: &Value) -> Result<Duration, String> {
    match time(value).map_err(|error| error.to_string())? {
        Some(Duration::ZERO) => Err("in no time nothing can be done".to_owned()),
        Some(time) => Ok(time),
        None => Err(format!("{value} is no time such as 30 or \"2m\"")),
    }
}

pub(crate) fn size<'a, D: Deserializer<'a>>(value: D) -> Result<Option<u64>, D::Error> {
    Ok(match Value::deserialize(value)? {
        Value::Number(bytes) => bytes.as_u64(),
        Value::String(text) => Some(size_of(&text).map_err(serde::de::Error::custom)?),
        _ => None,
    })
}

/// Bytes, or words such as `64 MiB` and `64M`.
pub(crate) fn size_of(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.trim().trim_end_matches(['b', 'B']).trim_end_matches('i') {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => return Err(format!("`{text}` is no size such as 64MiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("`{text}` is no size such as 64MiB"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("`{text}` is too much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        assert_eq!(size_of("64MiB"), Ok(64 << 20));
        assert_eq!(size_of("2 GB"), Ok(2 << 30));
        assert_eq!(size_of("100k"), Ok(100 << 10));
        assert_eq!(size_of("7"), Ok(7));
        assert!(size_of("lots").is_err());
        assert_eq!(time_of("90"), Ok(Duration::from_secs(90)));
        assert_eq!(time_of("1m 30s"), Ok(Duration::from_secs(90)));
        assert!(time_of("soon").is_err());
    }
}
