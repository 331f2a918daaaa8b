//! What people and programs are shown of a bundle.

use super::Made;
use crate::print;
use anstyle::{AnsiColor, Style};
use std::{error::Error, io::Write};

const NAME: Style = Style::new().bold();
const WARN: Style = AnsiColor::Yellow.on_default();
const QUIET: Style = Style::new().dimmed();

pub(super) fn made(made: &Made, json: bool) -> Result<(), Box<dyn Error>> {
    if json {
        return Ok(print::json(made)?);
    }
    let mut err = anstream::stderr().lock();
    for warning in &made.warnings {
        writeln!(err, "{WARN}warning:{WARN:#} {}", print::harmless(warning))?;
    }
    let mut out = print::out();
    let file = made.file.display();
    let verb = if made.replaced { "Replaced" } else { "Made" };
    writeln!(out, "{verb} {NAME}{file}{NAME:#}, {} for {}", size(made.bytes), made.platform)?;
    let counted = [(made.tools, "tool"), (made.prompts, "prompt"), (made.files, "file")];
    let counted = counted.map(|(count, what)| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    });
    writeln!(out, "  {} {}: {}", made.name, made.version, counted.join(", "))?;
    if !made.left_out.is_empty() {
        writeln!(out, "\nLeft out (to include one, add a line `!NAME` in .mcpbignore):")?;
        let width = made.left_out.iter().map(|one| one.path.chars().count()).max();
        let width = width.unwrap_or(0).min(40);
        for one in &made.left_out {
            let path = print::harmless(&one.path);
            writeln!(out, "  {path:<width$}  {QUIET}{}{QUIET:#}", one.why)?;
        }
    }
    writeln!(out, "\nTo install it, open it: Claude Desktop and others that know .mcpb files do")?;
    writeln!(out, "the rest. Whoever installs it needs the programs that run its scripts.")?;
    Ok(out.flush()?)
}

fn size(bytes: u64) -> String {
    match bytes {
        0..100_000 => format!("{bytes} bytes"),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
