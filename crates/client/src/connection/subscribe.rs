//! Changes at a server that tells of lists by itself, and of resources that were subscribed to.

use super::{
    Connection,
    changes::{Changes, FIRST, LONGEST},
};
use crate::{error::Result, request::change::Change, support::backoff::jittered};
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{sync::broadcast, time::Instant};
use zcp_wire::{Method, mcp::subscriptions::Filter, sync::lock};

pub(super) async fn open(connection: Arc<Connection>, filter: Filter) -> Result<Changes> {
    let receiver = connection.settings.changes.subscribe();
    let mut subscribed =
        Subscribed { connection, filter: filter.clone(), wait: FIRST, reached: None };
    subscribed.filter.resource_subscriptions.clear();
    for uri in &filter.resource_subscriptions {
        // Counted first: whoever stops waiting takes it along.
        subscribed.filter.resource_subscriptions.push(uri.clone());
        subscribed.connection.subscriptions.join(uri);
        subscribed.connection.subscribe(uri).await?;
    }
    let capabilities = subscribed.connection.now().server.capabilities.clone();
    let honoured = Filter {
        tools_list_changed: filter.tools_list_changed && capabilities.tools.is_some(),
        prompts_list_changed: filter.prompts_list_changed && capabilities.prompts.is_some(),
        resources_list_changed: filter.resources_list_changed && capabilities.resources.is_some(),
        ..filter
    };
    // The client stays while somebody listens.
    Ok(Changes::new(honoured, (receiver, subscribed), async |(mut receiver, mut subscribed)| {
        loop {
            let change = match receiver.recv().await {
                Ok(change) => change,
                Err(broadcast::error::RecvError::Lagged(_)) => Change::All,
                Err(broadcast::error::RecvError::Closed) => return None,
            };
            if change == Change::All {
                subscribed.again().await;
            }
            if change.is_wanted(&subscribed.filter) {
                return Some((change, (receiver, subscribed)));
            }
        }
    }))
}

/// Subscriptions that end with whoever made them.
struct Subscribed {
    connection: Arc<Connection>,
    filter: Filter,
    /// How long is waited before the server is reached again the next time.
    wait: Duration,
    /// When it was reached again the last time.
    reached: Option<Instant>,
}

impl Subscribed {
    /// Makes the subscriptions again, at a server that may have to be reached again first: a new
    /// session knows of none. One that is lost again soon is waited for longer each time.
    async fn again(&mut self) {
        match self.reached {
            Some(reached) if reached.elapsed() < LONGEST => self.pause().await,
            _ => self.wait = FIRST,
        }
        while self.connection.link().await.is_err() {
            self.pause().await;
        }
        self.reached = Some(Instant::now());
        for uri in &self.filter.resource_subscriptions {
            if let Err(why) = self.connection.subscribe(uri).await {
                tracing::warn!("changes of `{uri}` are not told any more: {why}");
            }
        }
    }

    async fn pause(&mut self) {
        tokio::time::sleep(jittered(self.wait)).await;
        self.wait = (self.wait * 2).min(LONGEST);
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        for uri in std::mem::take(&mut self.filter.resource_subscriptions) {
            if !self.connection.subscriptions.leave(&uri) {
                continue;
            }
            let (all, params) = (self.connection.subscriptions.clone(), uri_of(&uri));
            self.connection.send_in_background(Method::Unsubscribe, params, async move || {
                let turn = all.turn.clone().lock_owned().await;
                // Somebody may have come while this one left.
                all.is_alone(&uri).then_some(turn)
            });
        }
    }
}

fn uri_of(uri: &str) -> Map<String, Value> {
    Map::from_iter([("uri".to_owned(), Value::from(uri))])
}

/// How many listen to each resource.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    counts: Mutex<HashMap<String, usize>>,
    /// Held while the server is told, so that it is told in order.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Subscriptions {
    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        lock(&self.counts)
    }

    fn join(&self, uri: &str) {
        *self.counts().entry(uri.to_owned()).or_default() += 1;
    }

    /// True when nobody is left.
    fn leave(&self, uri: &str) -> bool {
        let mut counts = self.counts();
        let Some(count) = counts.get_mut(uri) else { return false };
        *count -= 1;
        *count == 0 && counts.remove(uri).is_some()
    }

    fn is_alone(&self, uri: &str) -> bool {
        !self.counts().contains_key(uri)
    }
}

impl Connection {
    async fn subscribe(&self, uri: &str) -> Result<()> {
        let _turn = self.subscriptions.turn.lock().await;
        let options = self.settings.options();
        self.request(Method::Subscribe, &uri_of(uri), &options).await.map(drop)
    }
}
