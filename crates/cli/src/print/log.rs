//! Log lines on standard error, and what scripts write to theirs.

use super::{QUIET, harmless};
use crate::cmd::LogFormat;
use std::{
    fmt,
    io::{self, IsTerminal},
    sync::{Mutex, PoisonError},
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

/// What scripts write to standard error, in the process that runs them.
const OF_SCRIPTS: &str = "zcp::stderr";
/// What a server in a child process writes there.
const OF_SERVERS: &str = "zcp_client::stderr";

/// The line of standard error that was shown last.
static LAST: Mutex<String> = Mutex::new(String::new());

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

/// A failure in words, without the last lines of standard error if they were shown already.
pub(crate) fn without_shown(text: &str, stderr: &str) -> String {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let told = stderr.lines().last().unwrap_or_default().trim();
    match !told.is_empty() && last.trim() == told {
        true => text.replace(&format!("\nIts last words:\n{stderr}"), ""),
        false => text.to_owned(),
    }
}

/// Log lines with their time, or plain ones. What scripts write is shown as they wrote it.
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
        if [OF_SCRIPTS, OF_SERVERS].contains(&about.target()) {
            let mut said = Said::default();
            event.record(&mut said);
            let line = harmless(&said.line);
            line.trim_end().clone_into(&mut LAST.lock().unwrap_or_else(PoisonError::into_inner));
            if said.tool.is_empty() || self.format == LogFormat::Plain {
                return writeln!(writer, "{line}");
            }
            let line = format!("    {} stderr | {line}", harmless(&said.tool));
            return match writer.has_ansi_escapes() {
                true => writeln!(writer, "{QUIET}{line}{QUIET:#}"),
                false => writeln!(writer, "{line}"),
            };
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

/// A line of standard error, and the tool that wrote it.
#[derive(Default)]
struct Said {
    tool: String,
    line: String,
}

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.line = format!("{value:?}"),
            "tool" => self.tool = format!("{value:?}"),
            _ => (),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
