//! Where catalogs come from: a snapshot, and a signal when there is a newer one.

use super::catalog::Catalog;
use futures_util::{StreamExt, stream::BoxStream};
use std::sync::Arc;
use tokio::sync::watch;

/// Where tools, resources and prompts come from: a snapshot, and a signal when there is a newer
/// one. Every change is announced to the clients who want to know.
pub trait Provider: Send + Sync + 'static {
    /// The snapshot now, and those to come.
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>>;

    /// The URIs of resources that changed, as they do. Asked for once.
    fn updated(&self) -> BoxStream<'static, String> {
        futures_util::stream::pending().boxed()
    }

    /// The servers elsewhere that this provider speaks to, and whether each is there: `zcp_mount_up`
    /// of the metrics.
    fn mounts(&self) -> Vec<(String, bool)> {
        vec![]
    }
}

/// A provider whose catalog a program changes while it runs.
///
/// ```
/// use zcp::{Catalog, Live, Server, Tool};
///
/// let live = Live::default();
/// let server = Server::new("demo").provide(live.clone());
/// live.set(Catalog::default().tool(Tool::new("new", async || "I was not here before")));
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Live {
    sender: Arc<watch::Sender<Arc<Catalog>>>,
}

impl Default for Live {
    fn default() -> Self {
        Self { sender: Arc::new(watch::Sender::new(Arc::default())) }
    }
}

impl Live {
    /// Replaces the catalog, and tells the clients who want to know.
    pub fn set(&self, catalog: Catalog) {
        self.sender.send_replace(Arc::new(catalog));
    }
}

impl Provider for Live {
    fn catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.sender.subscribe()
    }
}
