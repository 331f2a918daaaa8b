//! `#[tool]`, `#[resource]` and `#[prompt]`: a function becomes an offer of a server. Its doc
//! comment is the description, its parameters are the schema. It stays a function.

mod docs;
mod function;
mod options;
mod param;

use function::Function;
use options::{Options, Setting};
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;

/// Makes a tool of an async function, which is given to `Server::tool`. The function can be called
/// as before.
///
/// Parameters are arguments, or extractors such as `Ctx` and `State<T>`; doc comments on them
/// are their descriptions. There may be 12. References are to what the call brings: `&str`,
/// `&[T]`, `&T` and `Option<&str>` work. Generic functions are given with their types:
/// `.tool(find::<Book>)`. A type parameter that is an argument needs the bounds `DeserializeOwned +
/// JsonSchema + Send`.
///
/// A method takes `&self`. The attribute adds a method that makes the tool, with `_tool` after its
/// name: `.tool(shelf.find_tool())`. The type must be `Clone`, as every call runs on a clone.
///
/// Options: `name = "…"`, `title = "…"`, `read_only`, `destructive`, `not_destructive`,
/// `idempotent`, `open_world`, `closed_world`, `long_running`, `only_as_task`.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(options, item, |options, function| {
        let settings = options.settings(&[
            ("name", Setting::Name),
            ("title", Setting::Text(quote!(title))),
            ("read_only", Setting::Flag(quote!(.read_only()))),
            ("destructive", Setting::Flag(quote!(.destructive(true)))),
            ("not_destructive", Setting::Flag(quote!(.destructive(false)))),
            ("idempotent", Setting::Flag(quote!(.idempotent()))),
            ("open_world", Setting::Flag(quote!(.open_world(true)))),
            ("closed_world", Setting::Flag(quote!(.open_world(false)))),
            ("long_running", Setting::Flag(quote!(.long_running()))),
            ("only_as_task", Setting::Flag(quote!(.only_as_task()))),
        ])?;
        let name = options.name().unwrap_or_else(|| function.name());
        let (describe, run) =
            (function.describe(), function.run(&quote!(::zcp::IntoOutput::into_output)));
        let (returns, docs) = (&function.returns, &function.docs);
        Ok(function.item(
            "tool",
            &quote!(::zcp::Tool),
            &quote! {
                let mut signature = ::zcp::Signature::default();
                #describe
                signature.output::<#returns>();
                ::zcp::Tool::from_parts(#name, signature, #run).description(#docs) #settings
            },
        ))
    })
}

/// Makes a resource of an async function, or with `{variables}` in its URI a family of them. Works
/// like `#[tool]`; a method gets one with `_resource` after its name beside it.
///
/// The URI comes first: `#[resource("book://{id}")]`. Parameters are the template's variables,
/// or extractors. Options: `name = "…"`, `title = "…"`, `mime_type = "…"`, `watched`.
#[proc_macro_attribute]
pub fn resource(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(options, item, |options, function| {
        let uri = options.first_text("a resource needs its URI: #[resource(\"book://{id}\")]")?;
        let settings = options.settings(&[
            ("name", Setting::Name),
            ("title", Setting::Text(quote!(title))),
            ("mime_type", Setting::Text(quote!(mime_type))),
            ("watched", Setting::Flag(quote!(.watched()))),
        ])?;
        let name = options.name().unwrap_or_else(|| function.name());
        let (describe, run) =
            (function.describe(), function.run(&quote!(::zcp::IntoContents::into_contents)));
        let docs = &function.docs;
        Ok(function.item(
            "resource",
            &quote!(::zcp::Resource),
            &quote! {
                let mut signature = ::zcp::Signature::default();
                #describe
                ::zcp::Resource::from_parts(#uri, signature, #run)
                    .name(#name).description(#docs) #settings
            },
        ))
    })
}

/// Makes a prompt of an async function. Works like `#[tool]`; a method gets one with `_prompt`
/// after its name beside it.
///
/// Parameters are the prompt's arguments, or extractors; `Option` ones may be left out. Options:
/// `name = "…"`, `title = "…"`.
#[proc_macro_attribute]
pub fn prompt(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(options, item, |options, function| {
        let settings = options
            .settings(&[("name", Setting::Name), ("title", Setting::Text(quote!(title)))])?;
        let name = options.name().unwrap_or_else(|| function.name());
        let (describe, run) =
            (function.describe(), function.run(&quote!(::zcp::IntoPrompt::into_prompt)));
        let docs = &function.docs;
        Ok(function.item(
            "prompt",
            &quote!(::zcp::Prompt),
            &quote! {
                let mut signature = ::zcp::Signature::default();
                #describe
                ::zcp::Prompt::from_parts(#name, signature, #run).description(#docs) #settings
            },
        ))
    })
}

fn expand(
    options: TokenStream,
    item: TokenStream,
    make: impl FnOnce(&Options, &Function) -> syn::Result<Tokens>,
) -> TokenStream {
    let made = Options::parse(options.into())
        .and_then(|options| make(&options, &Function::parse(item.into())?));
    made.unwrap_or_else(|error| error.to_compile_error()).into()
}
