//! What stands in the brackets of an attribute.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{
    Expr, ExprLit, Ident, Lit, LitStr, Token,
    parse::{Parse, ParseStream},
    punctuated::Punctuated,
};

/// The options of one attribute.
pub(crate) struct Options {
    first: Option<LitStr>,
    named: Vec<(Ident, Option<Expr>)>,
}

/// What an option becomes.
pub(crate) enum Setting {
    /// The name, read elsewhere.
    Name,
    /// A call with the option's text.
    Text(Tokens),
    /// A call without arguments.
    Flag(Tokens),
}

enum Item {
    Text(LitStr),
    Named(Ident, Option<Expr>),
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return input.parse().map(Self::Text);
        }
        let name = input.parse()?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Self::Named(name, value))
    }
}

impl Options {
    pub(crate) fn parse(tokens: Tokens) -> syn::Result<Self> {
        use syn::parse::Parser;
        let all = Punctuated::<Item, Token![,]>::parse_terminated.parse2(tokens)?;
        let mut options = Self { first: None, named: vec![] };
        for option in all {
            match option {
                Item::Text(text) if options.first.is_none() => options.first = Some(text),
                Item::Text(text) => return Err(syn::Error::new_spanned(text, "one text only")),
                Item::Named(name, value) => options.named.push((name, value)),
            }
        }
        Ok(options)
    }

    /// The text before all options.
    pub(crate) fn first_text(&self, missing: &str) -> syn::Result<&LitStr> {
        let error = || syn::Error::new(proc_macro2::Span::call_site(), missing);
        self.first.as_ref().ok_or_else(error)
    }

    /// The `name` option.
    pub(crate) fn name(&self) -> Option<String> {
        let (_, value) = self.named.iter().find(|(name, _)| name == "name")?;
        text(value.as_ref()?).map(LitStr::value)
    }

    /// The options as calls on a builder; an unknown option is an error that lists the known.
    pub(crate) fn settings(&self, known: &[(&str, Setting)]) -> syn::Result<Tokens> {
        let mut calls = Tokens::new();
        for (name, value) in &self.named {
            let Some((_, setting)) = known.iter().find(|(known, _)| name == known) else {
                let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
                let why = format!("unknown option: use one of {}", names.join(", "));
                return Err(syn::Error::new_spanned(name, why));
            };
            let literal = value.as_ref().and_then(text);
            match (setting, literal, value) {
                (Setting::Name, Some(_), _) => (),
                (Setting::Text(call), Some(text), _) => calls.extend(quote!(.#call(#text))),
                (Setting::Flag(call), _, None) => calls.extend(call.clone()),
                (Setting::Flag(_), ..) => {
                    return Err(syn::Error::new_spanned(value, "this option takes no value"));
                }
                _ => {
                    return Err(syn::Error::new_spanned(
                        name,
                        "this option takes a text in quotes",
                    ));
                }
            }
        }
        Ok(calls)
    }
}

fn text(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        _ => None,
    }
}
