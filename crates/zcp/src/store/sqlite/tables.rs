//! The tables of a store's file, and what is written to them and read from them.

use super::{Bound, Entry, If, Sync};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Expired values, and expired logs, that a batch clears away.
const SWEEP: i64 = 64;
/// Pages that are kept though nothing is on them.
const SPARE: i64 = 128;
/// How long another process may take with a write.
const BUSY: Duration = Duration::from_secs(5);

const TABLES: &str = "
    PRAGMA auto_vacuum = INCREMENTAL;
    PRAGMA journal_mode = WAL;
    PRAGMA journal_size_limit = 16777216;
    CREATE TABLE IF NOT EXISTS kept (
        key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, ends INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS kept_ends ON kept (ends) WHERE ends IS NOT NULL;
    CREATE TABLE IF NOT EXISTS logs (
        log TEXT PRIMARY KEY, last INTEGER NOT NULL, ends INTEGER, bytes INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS logs_ends ON logs (ends) WHERE ends IS NOT NULL;
    CREATE TABLE IF NOT EXISTS items (
        log TEXT NOT NULL, position INTEGER NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (log, position)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
    INSERT OR IGNORE INTO counters VALUES ('version', 0), ('forgotten', 0);
";

pub(super) fn connect(file: &Path, sync: Sync) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(file)?;
    connection.busy_timeout(BUSY)?;
    connection.execute_batch(TABLES)?;
    migrate(&mut connection)?;
    connection.pragma_update(
        None,
        "synchronous",
        match sync {
            Sync::Later => "NORMAL",
            Sync::First => "FULL",
        },
    )?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(connection)
}

/// Adds what files of earlier versions lack. Logs count their bytes since then: one that has no
/// count yet is counted by its next append.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let counted = "SELECT 1 FROM pragma_table_info('logs') WHERE name = 'bytes'";
    if connection.prepare(counted)?.exists([])? {
        return Ok(());
    }
    // Another process may be doing the same: the write lock comes first, and then another look.
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if !change.prepare(counted)?.exists([])? {
        change.execute_batch("ALTER TABLE logs ADD COLUMN bytes INTEGER")?;
    }
    change.commit()
}

/// Clears away some of what has expired, and gives the room back.
pub(super) fn sweep(connection: &Connection) -> rusqlite::Result<()> {
    let now = now();
    let mut values = connection.prepare_cached(
        "DELETE FROM kept WHERE key IN (SELECT key FROM kept WHERE ends <= ?1 LIMIT ?2)",
    )?;
    values.execute(params![now, SWEEP])?;
    let mut logs = connection.prepare_cached("SELECT log FROM logs WHERE ends <= ?1 LIMIT ?2")?;
    let expired: Vec<String> =
        logs.query_map(params![now, SWEEP], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for log in &expired {
        forget(connection, log)?;
    }
    let free: i64 =
        connection.prepare_cached("PRAGMA freelist_count")?.query_row([], |row| row.get(0))?;
    if free > SPARE {
        // It gives back a page a row.
        let mut vacuum = connection.prepare_cached("PRAGMA incremental_vacuum(256)")?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(())
}

/// Forgets a log. New ones begin after the highest position of any that was forgotten, so that a
/// position of a log's earlier life never means something else in its next.
fn forget(connection: &Connection, log: &str) -> rusqlite::Result<()> {
    let last: Option<i64> = connection
        .prepare_cached("DELETE FROM logs WHERE log = ?1 RETURNING last")?
        .query_row([log], |row| row.get(0))
        .optional()?;
    let Some(last) = last else { return Ok(()) };
    connection.prepare_cached("DELETE FROM items WHERE log = ?1")?.execute([log])?;
    connection
        .prepare_cached("UPDATE counters SET n = max(n, ?1) WHERE name = 'forgotten'")?
        .execute([last])?;
    Ok(())
}

pub(super) fn get(connection: &Connection, key: &str) -> rusqlite::Result<Option<Entry>> {
    connection
        .prepare_cached(
            "SELECT value, version FROM kept
             WHERE key = ?1 AND (ends IS NULL OR ends > ?2)",
        )?
        .query_row(params![key, now()], |row| {
            let (value, version): (Vec<u8>, i64) = (row.get(0)?, row.get(1)?);
            Ok(Entry { value: value.into(), version: version.cast_unsigned() })
        })
        .optional()
}

pub(super) fn keys(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<String>> {
    let known = "SELECT key FROM kept WHERE key >= ?1 AND substr(key, 1, ?2) = ?1
         AND (ends IS NULL OR ends > ?3) ORDER BY key";
    let length = i64::try_from(prefix.chars().count()).unwrap_or(i64::MAX);
    let mut known = connection.prepare_cached(known)?;
    known.query_map(params![prefix, length, now()], |row| row.get(0))?.collect()
}

pub(super) fn remove(connection: &Connection, key: &str) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM kept WHERE key = ?1")?.execute([key])?;
    forget(connection, key)
}

pub(super) fn put(
    connection: &Connection,
    key: &str,
    value: &[u8],
    condition: If,
    ttl: Option<Duration>,
) -> rusqlite::Result<bool> {
    let version: Option<i64> = connection
        .prepare_cached("SELECT version FROM kept WHERE key = ?1 AND (ends IS NULL OR ends > ?2)")?
        .query_row(params![key, now()], |row| row.get(0))
        .optional()?;
    let holds = match condition {
        If::Always => true,
        If::Absent => version.is_none(),
        If::Version(wanted) => version == Some(wanted.cast_signed()),
    };
    if !holds {
        return Ok(false);
    }
    connection
        .prepare_cached("UPDATE counters SET n = n + 1 WHERE name = 'version'")?
        .execute([])?;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO kept
             SELECT ?1, ?2, n, ?3 FROM counters WHERE name = 'version'",
        )?
        .execute(params![key, value, end(ttl)])?;
    Ok(true)
}

pub(super) fn append(
    connection: &Connection,
    log: &str,
    value: &[u8],
    bound: Bound,
    ttl: Option<Duration>,
) -> rusqlite::Result<u64> {
    let (last, held) = known(connection, log)?;
    let position = last + 1;
    let entries = i64::try_from(bound.entries).unwrap_or(i64::MAX);
    let most = i64::try_from(bound.bytes).unwrap_or(i64::MAX);
    let bytes = held + i64::try_from(value.len()).unwrap_or(i64::MAX);
    let bytes = drop_oldest(connection, log, position - entries, bytes, most)?;
    let bytes = if bound.entries == 0 {
        0
    } else {
        connection
            .prepare_cached("INSERT INTO items (log, position, value) VALUES (?1, ?2, ?3)")?
            .execute(params![log, position, value])?;
        bytes
    };
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO logs (log, last, ends, bytes) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![log, position, end(ttl), bytes])?;
    Ok(position.cast_unsigned())
}

/// The last position of a log, and the bytes it holds. One that has expired is forgotten first.
fn known(connection: &Connection, log: &str) -> rusqlite::Result<(i64, i64)> {
    let known: Option<(i64, Option<i64>, Option<i64>)> = connection
        .prepare_cached("SELECT last, bytes, ends FROM logs WHERE log = ?1")?
        .query_row([log], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    match known {
        Some((last, Some(bytes), ends)) if ends.is_none_or(|end| end > now()) => Ok((last, bytes)),
        Some((last, None, ends)) if ends.is_none_or(|end| end > now()) => {
            let bytes = connection
                .prepare_cached("SELECT coalesce(sum(length(value)), 0) FROM items WHERE log = ?1")?
                .query_row([log], |row| row.get(0))?;
            Ok((last, bytes))
        }
        expired => {
            if expired.is_some() {
                forget(connection, log)?;
            }
            let forgotten = connection
                .prepare_cached("SELECT n FROM counters WHERE name = 'forgotten'")?
                .query_row([], |row| row.get(0))?;
            Ok((forgotten, 0))
        }
    }
}

/// Drops the oldest items of a log: all up to a position, and more until it has at most so many
/// bytes. Gives the bytes that are left.
fn drop_oldest(
    connection: &Connection,
    log: &str,
    up_to: i64,
    mut bytes: i64,
    most: i64,
) -> rusqlite::Result<i64> {
    let mut oldest = connection.prepare_cached(
        "SELECT position, length(value) FROM items WHERE log = ?1 ORDER BY position",
    )?;
    let mut items = oldest.query([log])?;
    let mut dropped = None;
    while let Some(item) = items.next()? {
        let position: i64 = item.get(0)?;
        if position > up_to && bytes <= most {
            break;
        }
        dropped = Some(position);
        bytes -= item.get::<_, i64>(1)?;
    }
    if let Some(dropped) = dropped {
        connection
            .prepare_cached("DELETE FROM items WHERE log = ?1 AND position <= ?2")?
            .execute(params![log, dropped])?;
    }
    Ok(bytes)
}

/// What a log holds after a position; none if that is gone.
pub(super) fn after(
    connection: &Connection,
    log: &str,
    position: u64,
) -> rusqlite::Result<Option<Vec<(u64, Bytes)>>> {
    let last: Option<i64> = connection
        .prepare_cached("SELECT last FROM logs WHERE log = ?1 AND (ends IS NULL OR ends > ?2)")?
        .query_row(params![log, now()], |row| row.get(0))
        .optional()?;
    let Some(last) = last else { return Ok(Some(Vec::new())) };
    let first: Option<i64> = connection
        .prepare_cached("SELECT min(position) FROM items WHERE log = ?1")?
        .query_row([log], |row| row.get(0))?;
    let dropped = first.map_or(last, |first| first - 1);
    let Ok(position) = i64::try_from(position) else { return Ok(None) };
    if position != 0 && !(dropped..=last).contains(&position) {
        return Ok(None);
    }
    connection
        .prepare_cached(
            "SELECT position, value FROM items WHERE log = ?1 AND position > ?2 ORDER BY position",
        )?
        .query_map(params![log, position], |row| {
            let (position, value): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
            Ok((position.cast_unsigned(), Bytes::from(value)))
        })?
        .collect::<Result<Vec<_>, _>>()
        .map(Some)
}

/// Milliseconds since 1970: the file may be read by another process, and after a restart.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

// An end too far away to be counted is none.
fn end(ttl: Option<Duration>) -> Option<i64> {
    now().checked_add(i64::try_from(ttl?.as_millis()).ok()?)
}
