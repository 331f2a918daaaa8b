//! What a server offers, as a catalog whose handlers call that server.

use crate::{
    offers::{Kind, Offers},
    upstream::Upstream,
};
use std::{iter, sync::Arc};
use zcp::{Catalog, Signature};
use zcp_client::wire::mcp::{
    completion::Reference,
    prompts::Prompt,
    resources::{Resource, ResourceTemplate},
    tools::Tool,
};

impl Upstream {
    pub(crate) fn catalog(self: &Arc<Self>, offers: Offers) -> Catalog {
        let mut mistakes = vec![];
        let tools = offers.tools.into_iter().filter(|tool| match oversized(tool) {
            None => true,
            Some(mistake) => {
                mistakes.push(mistake);
                false
            }
        });
        let tools = tools.map(|tool| self.tool(tool));
        let mut all = tools.fold(Catalog::default(), Catalog::tool);
        for prompt in offers.prompts {
            if offers.completes {
                let of = Reference::Prompt { name: prompt.name.clone() };
                all = all.complete(prompt.name.clone(), self.completer(of));
            }
            all = all.prompt(self.prompt(prompt));
        }
        all =
            offers.resources.into_iter().map(|one| self.resource(one)).fold(all, Catalog::resource);
        for template in offers.templates {
            if offers.completes {
                let of = Reference::Resource { uri: template.uri_template.clone() };
                all = all.complete(template.uri_template.clone(), self.completer(of));
            }
            all = all.resource(self.template(template));
        }
        mistakes.extend(all.take_mistakes());
        let named = |mistake| format!("{mistake} (mounted server `{}`)", self.name());
        self.log.warn_of_new("mistakes", &mistakes.iter().map(named).collect::<Vec<_>>());
        all
    }

    fn tool(self: &Arc<Self>, tool: Tool) -> zcp::Tool {
        let (upstream, name) = (self.clone(), tool.name.clone());
        let mut made = zcp::Tool::from_parts(&tool.name, Signature::default(), move |input| {
            let (upstream, name) = (upstream.clone(), name.clone());
            Box::pin(async move { upstream.call(&name, input).await })
        })
        .input_schema(tool.input_schema)
        // The server checks arguments, and the client its results. Compiling what a server lists
        // would take as much memory as it likes.
        .checked_by_handler();
        made = tool.description.iter().fold(made, |one, text| one.description(text));
        made = tool.title.iter().fold(made, |one, text| one.title(text));
        made = tool.annotations.into_iter().fold(made, zcp::Tool::annotations);
        made = tool.output_schema.into_iter().fold(made, zcp::Tool::output_schema);
        made = tool.icons.into_iter().fold(made, zcp::Tool::icon);
        tool.meta.into_iter().flatten().fold(made, |one, (key, value)| one.meta(key, value))
    }

    fn prompt(self: &Arc<Self>, prompt: Prompt) -> zcp::Prompt {
        let (upstream, name) = (self.clone(), prompt.name.clone());
        let mut made = zcp::Prompt::from_parts(&prompt.name, Signature::default(), move |input| {
            let (upstream, name) = (upstream.clone(), name.clone());
            Box::pin(async move { upstream.fill(&name, &input).await })
        });
        for argument in prompt.arguments {
            made = made.argument(&argument.name, argument.description, argument.required);
        }
        made = prompt.description.iter().fold(made, |one, text| one.description(text));
        made = prompt.title.iter().fold(made, |one, text| one.title(text));
        made = prompt.icons.into_iter().fold(made, zcp::Prompt::icon);
        prompt.meta.into_iter().flatten().fold(made, |one, (key, value)| one.meta(key, value))
    }

    fn resource(self: &Arc<Self>, one: Resource) -> zcp::Resource {
        let mut made = self.readable(Kind::Resource, &one.uri).name(&one.name);
        made = one.title.iter().fold(made, |made, text| made.title(text));
        made = one.description.iter().fold(made, |made, text| made.description(text));
        made = one.mime_type.iter().fold(made, |made, mime| made.mime_type(mime));
        made = one.annotations.into_iter().fold(made, zcp::Resource::annotations);
        made = one.size.into_iter().fold(made, zcp::Resource::size);
        made = one.icons.into_iter().fold(made, zcp::Resource::icon);
        one.meta.into_iter().flatten().fold(made, |made, (key, value)| made.meta(key, value))
    }

    fn template(self: &Arc<Self>, one: ResourceTemplate) -> zcp::Resource {
        // Which paths are right is for the server to say.
        let mut made = self.readable(Kind::Template, &one.uri_template).name(&one.name);
        made = made.allow_any_path();
        made = one.title.iter().fold(made, |made, text| made.title(text));
        made = one.description.iter().fold(made, |made, text| made.description(text));
        made = one.mime_type.iter().fold(made, |made, mime| made.mime_type(mime));
        made = one.annotations.into_iter().fold(made, zcp::Resource::annotations);
        made = one.icons.into_iter().fold(made, zcp::Resource::icon);
        one.meta.into_iter().flatten().fold(made, |made, (key, value)| made.meta(key, value))
    }

    fn readable(self: &Arc<Self>, kind: Kind, uri: &str) -> zcp::Resource {
        let (upstream, of) = (self.clone(), uri.to_owned());
        let readable = zcp::Resource::from_parts(uri, Signature::default(), move |input| {
            let (upstream, of) = (upstream.clone(), of.clone());
            Box::pin(async move { upstream.read(kind, &of, &input).await })
        });
        // It never takes the place of what the server itself reads.
        readable.fallback_order(self.order)
    }

    fn completer(self: &Arc<Self>, of: Reference) -> impl zcp::Completer + use<> {
        let upstream = self.clone();
        move |typed: zcp::Typed| {
            let (upstream, of) = (upstream.clone(), of.clone());
            async move { upstream.complete(&of, &typed).await }
        }
    }
}

/// Why a tool's schemas are too large to be passed on, if they are.
fn oversized(tool: &Tool) -> Option<String> {
    let mut schemas = iter::once(&tool.input_schema).chain(&tool.output_schema);
    let why = schemas.find_map(|schema| zcp_schema::check_size(schema).err())?;
    Some(format!("tool `{}`: {why}", tool.name))
}
