//! The connection to a server: opened in the revision both sides speak, and again when it is lost.

pub(crate) mod changes;
pub(crate) mod client_profile;
mod connect;
pub(crate) mod dialect;
pub(crate) mod eras;
mod events;
pub(crate) mod link;
mod listen;
pub(crate) mod resend;
mod rounds;
mod subscribe;

use crate::{
    error::Result,
    request::change::Change,
    transport::{Endpoint, Fate},
};
use client_profile::Settings;
use link::Link;
use serde_json::{Map, Value};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use subscribe::Subscriptions;
use zcp_wire::{Method, sync::lock};

/// How long the server may take to answer a request that nobody waits for.
const BACKGROUND: Duration = Duration::from_secs(2);

/// The connection of one client to its server.
pub(crate) struct Connection {
    pub(crate) settings: Arc<Settings>,
    pub(crate) endpoint: Box<dyn Endpoint>,
    // A std mutex: never held across an await.
    link: Mutex<Arc<Link>>,
    /// Held while a lost link is replaced.
    opening: tokio::sync::Mutex<()>,
    subscriptions: Arc<Subscriptions>,
    /// Which client of its cache this is.
    number: u64,
}

impl Connection {
    pub(crate) async fn open(settings: Settings, endpoint: Box<dyn Endpoint>) -> Result<Self> {
        let number = settings.cache.join();
        let settings = Arc::new(settings);
        let link = connect::open(&settings, &*endpoint).await?;
        Ok(Self {
            settings,
            endpoint,
            link: Mutex::new(Arc::new(link)),
            opening: tokio::sync::Mutex::default(),
            subscriptions: Arc::default(),
            number,
        })
    }

    /// The link to the server as it is, lost or not.
    pub(crate) fn now(&self) -> Arc<Link> {
        lock(&self.link).clone()
    }

    /// The link to the server, opened again if it was lost.
    pub(crate) async fn link(&self) -> Result<Arc<Link>> {
        let link = self.now();
        if !link.is_lost() {
            return Ok(link);
        }
        let _opening = self.opening.lock().await;
        let link = self.now();
        if !link.is_lost() {
            return Ok(link);
        }
        let link = Arc::new(connect::open(&self.settings, &*self.endpoint).await?);
        *lock(&self.link) = link.clone();
        // Nobody knows what happened meanwhile.
        self.settings.changed(Change::All);
        Ok(link)
    }

    /// Tells the server something, if its revision has a message for it and the link is open: a
    /// server that is reached anew asks for what it wants to know.
    pub(crate) async fn tell(&self, method: Method) {
        let link = self.now();
        if link.server.has(method) && !link.is_lost() {
            events::notify(&*link.peer, link.server.revision, method).await;
        }
    }

    /// Sends a request whose answer nobody waits for, if the link is open. `when` says whether it
    /// is still to be sent; what it gives is held until the answer is there.
    pub(crate) fn send_in_background<T, F>(
        &self,
        method: Method,
        params: Map<String, Value>,
        when: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = Option<T>> + Send + 'static,
        T: Send,
    {
        let (link, settings) = (self.now(), self.settings.clone());
        if link.is_lost() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let owner = link.clone();
        owner.opened.end.spawn(|_| async move {
            let sending = async {
                let Some(_held) = when().await else { return };
                let (options, fate) = (settings.options(), Fate::default());
                let _ = link.send(&settings, &method.into(), params, &options, &fate).await;
            };
            let _ = tokio::time::timeout(BACKGROUND, sending).await;
        });
    }
}
