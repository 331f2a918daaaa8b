//! Limits of a rule: how often, and how many at a time.

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;
use zcp::RateLimit;

/// How often a caller may make calls that fit a rule, and how many of all callers may run at a time.
#[derive(Debug)]
pub(crate) struct RuleLimits {
    pub(crate) rate: Option<RateLimit>,
    pub(crate) running: Option<Arc<Semaphore>>,
}

/// So many calls in so many seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    calls: u32,
    seconds: f64,
}

impl Rate {
    pub(crate) fn limit(self) -> RateLimit {
        let calls = f64::from(self.calls);
        RateLimit::per_second(calls / self.seconds).burst(calls)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(value: D) -> Result<Self, D::Error> {
        let said = Value::deserialize(value)?;
        let read = |said: &Value| {
            let (calls, unit) = match said {
                Value::Number(calls) => (u32::try_from(calls.as_u64()?).ok()?, "minute"),
                Value::String(text) => {
                    let (calls, unit) = text.split_once('/')?;
                    (calls.trim().parse().ok()?, unit.trim())
                }
                _ => return None,
            };
            let seconds = match unit {
                "s" | "second" => 1.0,
                "m" | "minute" => 60.0,
                "h" | "hour" => 3600.0,
                "d" | "day" => 86400.0,
                _ => return None,
            };
            (calls > 0).then_some(Self { calls, seconds })
        };
        read(&said).ok_or_else(|| {
            D::Error::custom(format!(
                "`rate` is a number of calls per minute, or text such as \"5/second\", \
                 \"10/minute\" or \"100/hour\", not {said}"
            ))
        })
    }
}
