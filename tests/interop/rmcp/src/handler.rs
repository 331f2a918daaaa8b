//! What this client answers when the server asks, and where it keeps what the server tells.

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, ElicitationAction, Implementation, ListRootsResult,
        LoggingMessageNotificationParam, ProgressNotificationParam, Role, Root, SamplingMessage,
        SamplingMessageContentBlock,
    },
    service::{NotificationContext, RequestContext},
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

pub const MODEL_SAYS: &str = "from the client's model";
pub const USER_NAME: &str = "ada";
pub const ROOT: &str = "file:///tmp/project";

pub struct Handler {
    pub progress: UnboundedSender<(f64, Option<f64>)>,
    pub logs: UnboundedSender<Value>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.sampling = Some(Default::default());
        capabilities.elicitation = Some(Default::default());
        capabilities.roots = Some(Default::default());
        ClientConfig::new(capabilities, Implementation::new("interop", "1"))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let content = SamplingMessageContentBlock::text(MODEL_SAYS);
        let message = SamplingMessage::new(Role::Assistant, content);
        Ok(CreateMessageResult::new(message, "interop".into()))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let content = json!({ "username": USER_NAME, "email": "ada@example.com" });
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new(ROOT)]))
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.progress.send((params.progress, params.total));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.logs.send(params.data);
    }
}
