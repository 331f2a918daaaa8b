//! Outcomes to results of a revision.

use super::{
    lists::Lists,
    report::{Report, VisitFirst},
    tasks,
};
use crate::runtime::{
    Runtime,
    call::{Fault, Offered, Outcome},
};
use serde_json::json;
use zcp_wire::{
    Id, Response, Revision, RpcError,
    downgrade::downgrade,
    error::{BUSY, DENIED, METHOD_NOT_FOUND},
    mcp::{
        Body, Cache, CacheScope, InputRequired, Reply, ResultType, completion::CompleteResult,
        resources::ReadResourceResult, tools::CallToolResult,
    },
};

/// The response to a request that was run.
pub(super) fn response(
    id: Id,
    lists: &Lists,
    revision: Revision,
    report: &Report,
    outcome: Outcome,
) -> Response {
    let runtime = report.runtime();
    if let Outcome::Page(listing) = outcome {
        let page = lists.page(runtime, revision, &listing);
        return Response { id: Some(id), result: Ok(page) };
    }
    match reply(runtime, revision, report, outcome) {
        Ok(reply) => Response::write(id, reply.length(), |out| reply.write(out)),
        Err(error) => Response { id: Some(id), result: Err(error) },
    }
}

fn reply(
    runtime: &Runtime,
    revision: Revision,
    report: &Report,
    outcome: Outcome,
) -> Result<Reply, RpcError> {
    let mut reply = match outcome {
        Outcome::Page(_) => return Err(RpcError::internal("a page is no reply")),
        Outcome::Tool(output) => {
            let mut reply = Reply::new(Body::CallTool(CallToolResult {
                content: output.content,
                structured_content: output.structured,
                is_error: output.is_error,
                meta: None,
            }));
            reply.meta.extra = output.meta;
            reply
        }
        Outcome::Contents(contents, cache) => {
            let mut reply = Reply::new(Body::ReadResource(ReadResourceResult { contents }));
            // The answer to a question is nobody else's business and no one's twice.
            let unshared = Cache { ttl_ms: 0, cache_scope: CacheScope::Private };
            reply.cache = Some(cache.filter(|_| !report.is_retry()).unwrap_or(unshared));
            reply
        }
        Outcome::Prompt(prompt) => Reply::new(Body::GetPrompt(prompt)),
        Outcome::Completion(completion) => {
            Reply::new(Body::Complete(CompleteResult { completion }))
        }
        Outcome::Skill(skill) => {
            let mut reply = Reply::new(Body::Skill { skill: Box::new((*skill).clone()) });
            reply.cache = Some(runtime.settings.list_cache);
            reply
        }
        Outcome::Folder(items, next) => {
            let page = super::lists::folder(runtime, items, next.as_ref());
            let mut reply = Reply::new(Body::Resources(page));
            reply.cache = Some(runtime.settings.list_cache);
            reply
        }
        Outcome::Begun(task) => {
            let shown = tasks::shown(revision, *task);
            let result_type = Some(ResultType::Task);
            Reply { result_type, ..Reply::new(Body::Task(Box::new(shown))) }
        }
        Outcome::Task(task) => Reply::new(Body::Task(Box::new(tasks::shown(revision, *task)))),
        Outcome::Tasks(all, next) => {
            Reply::new(Body::OlderTasks(tasks::page(runtime, revision, all, next)))
        }
        Outcome::Done => Reply::new(Body::Empty {}),
        Outcome::Paused => asking(report.input_required(runtime)?),
        Outcome::Fault(Fault::VisitFirst(page, offered)) => {
            match report.visit_first(runtime, page)? {
                VisitFirst::Asked(asked) => asking(asked),
                VisitFirst::Told(why) if offered == Offered::Tool => {
                    Reply::new(Body::CallTool(CallToolResult {
                        content: vec![why.into()],
                        is_error: true,
                        ..CallToolResult::default()
                    }))
                }
                VisitFirst::Told(why) => return Err(RpcError::internal(why)),
            }
        }
        Outcome::Fault(fault) => return Err(error(revision, fault)),
    };
    report.task().into_iter().for_each(|id| tasks::relate(&mut reply, id));
    // Some clients take an acknowledgement with `_meta` for another kind of result.
    let says_who = !matches!(reply.body, Body::Empty {});
    reply.meta.server_info = says_who.then(|| runtime.info_json.clone());
    downgrade(&mut reply, revision);
    Ok(reply)
}

fn asking(asked: InputRequired) -> Reply {
    let result_type = Some(ResultType::InputRequired);
    Reply { result_type, ..Reply::new(Body::InputRequired(asked)) }
}

pub(super) fn error(revision: Revision, fault: Fault) -> RpcError {
    match fault {
        Fault::Unknown(what) | Fault::Invalid(what) | Fault::Over(what) => {
            RpcError::invalid_params(what)
        }
        Fault::NotOffered(what) => RpcError::new(METHOD_NOT_FOUND, what),
        Fault::NoResource(uri) => no_resource(revision, &uri),
        Fault::MissingCapability(required) => RpcError::missing_capability(&required),
        Fault::Denied(scope) => {
            RpcError::new(DENIED, format!("not allowed without the scope `{scope}`"))
                .with_data(json!({ "scope": scope }))
        }
        Fault::Busy { why, wait: None } => RpcError::new(BUSY, why),
        Fault::Busy { why, wait: Some(wait) } => {
            let seconds = wait.as_secs_f64().ceil() as u64;
            RpcError::new(BUSY, why).with_data(json!({ "retryAfterSeconds": seconds }))
        }
        Fault::Rpc(error) => *error,
        Fault::Failed(why) => RpcError::internal(why),
        Fault::VisitFirst(page, _) => RpcError::internal(page.message),
    }
}

pub(super) fn no_resource(revision: Revision, uri: &str) -> RpcError {
    RpcError::new(revision.resource_not_found(), format!("Resource not found: {uri}"))
        .with_data(json!({ "uri": uri }))
}
