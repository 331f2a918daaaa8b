//! `zcp store`: where servers keep what outlives a request.

use crate::{errors::usage, print};
use futures_util::StreamExt;
use serde_json::json;
use std::{
    error::Error,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use zcp::{
    operate::{self, OldKeys},
    store::{Bound, Browse, If, Memory, redis::Redis, sqlite::Sqlite},
};

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  zcp store check --store redis://127.0.0.1/
  zcp store rotate-keys --data ./state")]
pub(crate) enum StoreCommand {
    /// Try everything a server does with a store, and say how long it takes.
    #[command(after_help = "Examples:
  zcp store check --data ./state
  zcp store check --store redis://127.0.0.1/")]
    Check(Kept),
    /// Replace the key that servers seal request states and cursors with, while they run.
    #[command(after_help = "Examples:
  zcp store rotate-keys --data ./state
  zcp store rotate-keys --store redis://127.0.0.1/ --revoke")]
    RotateKeys(RotateKeys),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RotateKeys {
    /// Remove the old keys at once, if somebody else may know them: request states and cursors that
    /// clients hold are rejected from then on.
    #[arg(long)]
    pub(crate) revoke: bool,

    #[command(flatten)]
    pub(crate) kept: Kept,
}

/// Where things are kept: in memory unless something is said.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Kept {
    /// Keep sessions and what belongs to them in a file in this folder: a restart loses none.
    #[arg(long, value_name = "FOLDER", conflicts_with = "store")]
    pub(crate) data: Option<PathBuf>,

    /// Keep them in a Redis or Valkey that other servers use too, such as redis://127.0.0.1/:
    /// any of them serves any session.
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

/// How long news of a write may take.
const NEWS: Duration = Duration::from_secs(5);

/// What the file of a folder is called.
const FILE: &str = "zcp.sqlite";

/// The store of servers that are to be looked after: one must be named, and be there.
pub(crate) fn existing(kept: &Kept) -> Result<Arc<dyn Browse>, Box<dyn Error>> {
    if let Some(folder) = &kept.data
        && !folder.join(FILE).exists()
    {
        let folder = folder.display();
        return Err(format!("{folder} has no store: was it a server's --data folder?").into());
    }
    let hint = "say whose: --data FOLDER or --store URL, as the servers were given it";
    open(kept)?.ok_or_else(|| usage(hint.into()))
}

/// The store that was asked for, if one was.
pub(crate) fn open(kept: &Kept) -> Result<Option<Arc<dyn Browse>>, Box<dyn Error>> {
    Ok(match (&kept.data, &kept.store) {
        (Some(folder), _) => Some(Arc::new(Sqlite::open(folder.join(FILE))?)),
        (None, Some(url)) => Some(Arc::new(Redis::new(url)?)),
        (None, None) => None,
    })
}

/// Does everything a server does with a store, and says how long it took.
pub(crate) async fn check(kept: &Kept, json: bool) -> Result<(), Box<dyn Error>> {
    let store = open(kept)?.unwrap_or_else(|| Arc::new(Memory::new()));
    let key = format!("check/{}", std::process::id());
    let ttl = Some(Duration::from_secs(60));
    let begun = Instant::now();
    store.put(&key, "1".into(), If::Always, ttl).await?;
    let written = begun.elapsed();
    let begun = Instant::now();
    let entry = store.get(&key).await?.ok_or("what was written is not there")?;
    let read = begun.elapsed();
    if store.put(&key, "2".into(), If::Absent, ttl).await? {
        return Err("a write that had to fail did not".into());
    }
    if !store.put(&key, "3".into(), If::Version(entry.version), ttl).await? {
        return Err("a write that had to succeed did not".into());
    }
    let mut grew = store.watch(&key);
    let begun = Instant::now();
    let position = store.append(&key, "4".into(), Bound::entries(10), ttl).await?;
    tokio::time::timeout(NEWS, grew.next()).await.map_err(|_| "news of a write do not arrive")?;
    let told = begun.elapsed();
    let log = store.after(&key, 0).await?;
    store.remove(&key).await?;
    if log != [(position, "4".into())] {
        return Err("what was added to a log is not there".into());
    }
    if json {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let times = json!({ "write": ms(written), "read": ms(read), "news": ms(told) });
        print::json(&json!({ "store": "fine", "milliseconds": times }))?;
    } else {
        let times = format!("a write takes {written:.1?}, a read {read:.1?}, news {told:.1?}");
        print::words(&format!("The store is fine: {times}."))?;
    }
    Ok(())
}

/// Puts a new key into the store, which servers that run begin to use.
pub(crate) async fn rotate_keys(rotate: &RotateKeys, json: bool) -> Result<(), Box<dyn Error>> {
    let store = existing(&rotate.kept)?;
    let old = if rotate.revoke { OldKeys::Revoke } else { OldKeys::Retire };
    let rotated = operate::rotate_keys(&*store, old).await?;
    if json {
        let from = humantime::format_rfc3339_millis(rotated.seals_from).to_string();
        let (id, keys, revoked) = (rotated.id, rotated.keys, rotate.revoke);
        print::json(&json!({ "key": id, "keys": keys, "sealsFrom": from, "revoked": revoked }))?;
        return Ok(());
    }
    let (id, keys) = (&rotated.id, rotated.keys);
    print::words(&match old {
        OldKeys::Retire => format!(
            "Added key {id}, one of {keys}. Servers use it in two minutes; the key before it opens \
             request states and cursors for another 24 hours."
        ),
        OldKeys::Revoke => format!(
            "Added key {id} and removed the others. Servers use it within 30 seconds; request \
             states and cursors that clients hold are invalid."
        ),
    })?;
    Ok(())
}
