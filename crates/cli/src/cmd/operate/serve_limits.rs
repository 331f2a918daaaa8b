//! What clients of `zcp serve` may take, and which endpoints it serves.

use clap::ValueEnum;
use std::{sync::Arc, time::Duration};
use zcp::{
    Endpoint, Http, RateLimit, Server,
    store::{Browse, Store},
};

/// Limits and endpoints. What is not said has the defaults of the library.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Limits and endpoints")]
pub(crate) struct Limits {
    /// Maximum number of open HTTP connections, WebSockets included. Default: 16384.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_connections: Option<usize>,

    /// Maximum number of HTTP connections from one address. Default: 2048, and no limit for this
    /// machine. Raise it behind a proxy on another machine.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_connections_per_address: Option<usize>,

    /// Maximum number of sessions over HTTP. Beyond it the oldest idle one ends. Default: 100000.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_sessions: Option<usize>,

    /// Maximum size of an HTTP request or a WebSocket message, such as 512KiB. Default: 4MiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_body: Option<usize>,

    /// Maximum duration of a call, such as 30s. Default: none.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) call_timeout: Option<Duration>,

    /// Maximum number of requests a second from one caller: a principal, or the address of an
    /// anonymous client. Servers with the same --store count together. Default: none.
    #[arg(long, value_name = "NUMBER", value_parser = rate)]
    pub(crate) rate_limit: Option<f64>,

    /// Do not serve an endpoint of HTTP. Repeat for more.
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) disable: Vec<Disabled>,
}

/// An endpoint that can be disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Disabled {
    /// /mcp
    Mcp,
    /// /ws
    Ws,
    /// /sse and /messages
    Sse,
    /// /metadata
    Metadata,
    /// /metrics
    Metrics,
}

impl Disabled {
    fn endpoint(self) -> Endpoint {
        match self {
            Self::Mcp => Endpoint::Mcp,
            Self::Ws => Endpoint::WebSocket,
            Self::Sse => Endpoint::Sse,
            Self::Metadata => Endpoint::Metadata,
            Self::Metrics => Endpoint::Metrics,
        }
    }
}

impl Limits {
    /// The endpoints that clients do not find.
    pub(crate) fn disabled(&self) -> Vec<Endpoint> {
        self.disable.iter().map(|disabled| disabled.endpoint()).collect()
    }

    /// The limits of HTTP alone.
    pub(crate) fn of_http(&self, http: Http) -> Http {
        let set = |http: Http, limit: Option<usize>, change: fn(Http, usize) -> Http| match limit {
            Some(limit) => change(http, limit),
            None => http,
        };
        let http = set(http, self.max_connections, Http::max_connections);
        let http = set(http, self.max_connections_per_address, Http::max_connections_per_address);
        let http = set(http, self.max_sessions, Http::max_sessions);
        let http = set(http, self.max_body, Http::max_body);
        self.disabled().into_iter().fold(http, Http::disable)
    }

    /// The limits of all transports.
    pub(crate) fn of_server(&self, server: Server, store: Option<&Arc<dyn Browse>>) -> Server {
        let server = match self.call_timeout {
            Some(limit) => server.call_timeout(limit),
            None => server,
        };
        let Some(rate) = self.rate_limit else { return server };
        let limit = RateLimit::per_second(rate);
        match store {
            Some(store) => {
                let store: Arc<dyn Store> = store.clone();
                server.layer(limit.shared(store))
            }
            None => server.layer(limit),
        }
    }
}

/// A number of bytes, with or without a unit.
fn size(text: &str) -> Result<usize, String> {
    let wrong = || "say a size, such as 65536, 512KiB or 4MiB".to_owned();
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("", 0)];
    let (number, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.trim().strip_suffix(unit)?, *shift)))
        .ok_or_else(wrong)?;
    let number: usize = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number.checked_mul(1 << shift).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(wrong)
}

/// A number of requests a second.
fn rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.trim().parse().ok();
    rate.filter(|rate| rate.is_finite() && *rate > 0.0)
        .ok_or_else(|| "say how many requests a second, more than 0: 20, or 0.5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_people_write_them() {
        assert_eq!(size("65536"), Ok(65536));
        assert_eq!(size("512KiB"), Ok(512 * 1024));
        assert_eq!(size(" 4 MiB "), Ok(4 * 1024 * 1024));
        for wrong in ["", "0", "4MB", "-1", "many", "99999999999GiB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "inf", "NaN", "fast"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
