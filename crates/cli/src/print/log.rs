//! Log lines on standard error, and what servers in child processes write to theirs.

use super::harmless;
use std::{
    fmt,
    io::{self, IsTerminal},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Full, Writer},
    },
    registry::LookupSpan,
};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
    Plain,
}

/// The target of what a server in a child process writes to standard error.
const OF_SERVERS: &str = "zcp_client::stderr";

/// Log lines go to standard error.
pub(crate) fn start_log(filter: &str, format: LogFormat) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("warn"));
    let colour = io::stderr().is_terminal();
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(colour);
    match format {
        LogFormat::Json => log.json().init(),
        LogFormat::Text | LogFormat::Plain => {
            let whole = Format::default().with_ansi(colour).with_target(false);
            log.event_format(Lines { format, whole }).init();
        }
    }
}

/// Log lines with their time, or plain ones. What servers write is shown as they wrote it: it may
/// have its time already.
struct Lines {
    format: LogFormat,
    whole: Format<Full>,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let about = event.metadata();
        if about.target() == OF_SERVERS {
            let mut said = Said::default();
            event.record(&mut said);
            return writeln!(writer, "{}", harmless(&said.0));
        }
        if self.format == LogFormat::Text {
            return self.whole.format_event(context, writer, event);
        }
        let level = match *about.level() {
            tracing::Level::ERROR => "error",
            tracing::Level::WARN => "warning",
            tracing::Level::INFO => "info",
            tracing::Level::DEBUG => "debug",
            tracing::Level::TRACE => "trace",
        };
        write!(writer, "{level}: ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The words of an event.
#[derive(Default)]
struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}
