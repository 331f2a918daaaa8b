//! Runs an operation, below every layer: finds what it names, and calls its handler.

use super::{
    call::{Call, Complete, Fault, Listing, Op, Outcome},
    catalog::Catalog,
    complete::{self, Typed},
    contain::{Contained, caught, contain},
    ctx::Ctx,
    error::{self, CallError},
    failure::{failed, failed_tool},
    input::Input,
    output::Output,
    ready_tool::ReadyTool,
    tasks::{self, Engine, Wanted, Way},
};
use bytestring::ByteString;
use http::Extensions;
use std::{future::Future, sync::Arc, time::Duration};
use tokio::sync::watch;
use zcp_wire::{json, mcp::completion::Reference};

/// The innermost of the runtime: below every layer.
#[derive(Clone)]
pub(crate) struct Core {
    pub(super) catalog: watch::Receiver<Arc<Catalog>>,
    pub(super) state: Arc<Extensions>,
    pub(super) page_size: usize,
    pub(super) call_timeout: Option<Duration>,
    pub(crate) engine: Arc<Engine>,
}

impl Core {
    // What is rare is boxed: every call moves and allocates room for the largest of its branches.
    pub(super) async fn dispatch(&self, Call { op, ctx }: Call) -> Outcome {
        let catalog = self.catalog.borrow().clone();
        match op {
            Op::List { kind, after } => {
                let (size, view) = (self.page_size, ctx.caller().view());
                Outcome::Page(Listing { catalog, kind, after, size, view })
            }
            Op::CallTool { name, args } => {
                let Some(tool) = catalog.find_tool(&name) else {
                    return Box::pin(self.call_unlisted(&catalog, &name, args, ctx)).await;
                };
                match tasks::way(tool, &ctx.about().task) {
                    Way::Wait => (),
                    Way::WaitAWhile => {
                        let wanted = Wanted { name, args, asked: Box::default() };
                        return Box::pin(tasks::run_or_begin(self, wanted, &ctx)).await;
                    }
                    Way::Task(asked) => {
                        let wanted = Wanted { name, args, asked };
                        return Box::pin(tasks::begin(self, wanted, &ctx)).await;
                    }
                    Way::Refused(fault) => return Outcome::Fault(fault),
                }
                // Not in a function of its own: its future would hold the arguments once more.
                let run = caught(|| tool.begin(self.input(args, ctx)));
                let output = match run {
                    Ok(run) => self.guard(run).await,
                    Err(error) => Err(error),
                };
                ended(tool, &name, output)
            }
            op => Box::pin(self.dispatch_other(op, ctx, &catalog)).await,
        }
    }

    /// The operations that are not called by the thousand.
    async fn dispatch_other(&self, op: Op, ctx: Ctx, catalog: &Catalog) -> Outcome {
        match op {
            Op::Task(op) => tasks::call(self, op, &ctx).await,
            Op::ReadResource { uri } => {
                let Some((resource, variables)) = catalog.find_resource(&uri) else {
                    return Outcome::Fault(Fault::NoResource(uri));
                };
                let read = resource.read(uri.clone(), variables, self.input(None, ctx));
                match self.guard(read).await {
                    Ok(contents) => Outcome::Contents(contents, resource.cache()),
                    Err(CallError::NotFound(_)) => Outcome::Fault(Fault::NoResource(uri)),
                    Err(error) => failed("resource", &uri, error),
                }
            }
            Op::GetPrompt { name, args } => {
                let Some(prompt) = catalog.find_prompt(&name) else {
                    return Outcome::Fault(Fault::Unknown(format!("Unknown prompt: {name}")));
                };
                if let Some(missing) = prompt.missing(|name| args.contains_key(name)) {
                    let why = format!("prompt `{name}` needs the argument `{missing}`");
                    return Outcome::Fault(Fault::Invalid(why));
                }
                let args = json::text(&args);
                match self.guard(prompt.get(self.input(Some(args), ctx))).await {
                    Ok(prompt) => Outcome::Prompt(prompt),
                    Err(error) => failed("prompt", &name, error),
                }
            }
            Op::GetSkill { uri } => match catalog.find_skill(&uri) {
                Some(skill) => Outcome::Skill(skill.clone()),
                None => Outcome::Fault(Fault::Unknown(format!("Unknown skill: {uri}"))),
            },
            Op::ReadFolder { uri, after } => {
                let Some(mut all) = catalog.folder(&uri, after.as_deref()) else {
                    return Outcome::Fault(Fault::Unknown(format!("Not a folder: {uri}")));
                };
                let more = all.len() > self.page_size;
                all.truncate(self.page_size);
                let next = all.last().map(|(name, _)| name.clone()).filter(|_| more);
                Outcome::Folder(all.into_iter().map(|(_, resource)| resource).collect(), next)
            }
            Op::Complete(complete) => self.complete(catalog, complete).await,
            // Allowed by all layers. What follows is the protocol's to do.
            Op::List { .. }
            | Op::CallTool { .. }
            | Op::Open
            | Op::Subscribe { .. }
            | Op::Unsubscribe { .. }
            | Op::Listen { .. }
            | Op::SetLevel { .. }
            | Op::Cancel { .. }
            | Op::Answer { .. }
            | Op::Resume
            | Op::Close
            | Op::RootsChanged => Outcome::Done,
        }
    }

    /// Calls a tool whose caller does not wait, or not for long: for as long as it takes.
    pub(super) async fn run_tool(
        self,
        name: ByteString,
        args: Option<ByteString>,
        ctx: Ctx,
    ) -> Outcome {
        let catalog = self.catalog.borrow().clone();
        let Some(tool) = catalog.find_tool(&name) else {
            return Box::pin(self.call_unlisted(&catalog, &name, args, ctx)).await;
        };
        let patient = Self { call_timeout: None, ..self.clone() };
        let output = match caught(|| tool.begin(self.input(args, ctx))) {
            Ok(run) => patient.guard(run).await,
            Err(error) => Err(error),
        };
        ended(tool, &name, output)
    }

    /// Calls a tool that is not in the list: its gate says why it is refused, and logs the call.
    async fn call_unlisted(
        &self,
        catalog: &Catalog,
        name: &str,
        args: Option<ByteString>,
        ctx: Ctx,
    ) -> Outcome {
        let unknown = || Outcome::Fault(Fault::Unknown(format!("Unknown tool: {name}")));
        let Some(tool) = catalog.find_refused_tool(name) else { return unknown() };
        let output = match caught(|| tool.begin(self.input(args, ctx))) {
            Ok(run) => self.guard(run).await,
            Err(error) => Err(error),
        };
        match output {
            Ok(output) => Outcome::Tool(output),
            Err(CallError::NotFound(_)) => unknown(),
            Err(error) => failed_tool(name, error),
        }
    }

    fn input(&self, args: Option<ByteString>, ctx: Ctx) -> Input {
        Input::new(args, ctx, self.state.clone())
    }

    async fn complete(&self, catalog: &Catalog, complete: Complete) -> Outcome {
        let (name, completers) = match &complete.reference {
            Reference::Prompt { name } => {
                (name, catalog.find_prompt(name).map(|it| it.completers()))
            }
            Reference::Resource { uri } => {
                (uri, catalog.find_template(uri).map(|it| it.completers()))
            }
            _ => return Outcome::Fault(Fault::Unknown("no such reference".to_owned())),
        };
        let named = catalog.find_completer(name);
        if completers.is_none() && named.is_none() {
            let why = match &complete.reference {
                Reference::Prompt { .. } => format!("no such prompt: `{name}`"),
                _ => format!("no such template: `{name}`"),
            };
            return Outcome::Fault(Fault::Unknown(why));
        }
        let by = completers.and_then(|all| all.of(&complete.argument)).or(named);
        let Complete { argument, value, context: others, .. } = complete;
        let typed = Typed { argument, value, others };
        match self.guard(complete::complete(by, typed)).await {
            Ok(completion) => Outcome::Completion(completion),
            Err(error) => failed("completion of", name, error),
        }
    }

    /// Runs a handler's work, for as long as a call may take.
    fn guard<T, F: Future<Output = error::Result<T>>>(&self, work: F) -> Contained<F> {
        contain(work, self.call_timeout)
    }
}

/// What a call of a tool comes to: what it gave, if that is what the tool promises.
fn ended(tool: &ReadyTool, name: &str, output: error::Result<Output>) -> Outcome {
    let error = match output {
        Ok(output) => match caught(|| tool.check(&output)) {
            Ok(()) => return Outcome::Tool(output),
            Err(error) => error,
        },
        Err(error) => error,
    };
    failed_tool(name, error)
}
