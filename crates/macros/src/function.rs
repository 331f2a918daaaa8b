//! The function under an attribute, and what is written in its place.

use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{Attribute, Expr, ExprLit, FnArg, Ident, ItemFn, Lit, Meta, Pat, ReturnType, Type};

/// An async function, taken apart.
pub(crate) struct Function {
    item: ItemFn,
    pub(crate) docs: String,
    pub(crate) returns: Tokens,
    names: Vec<Ident>,
    types: Vec<Type>,
    param_docs: Vec<String>,
}

impl Function {
    pub(crate) fn parse(tokens: Tokens) -> syn::Result<Self> {
        let mut item: ItemFn = syn::parse2(tokens)?;
        if item.sig.asyncness.is_none() {
            return Err(syn::Error::new_spanned(item.sig.fn_token, "make this an `async fn`"));
        }
        if !item.sig.generics.params.is_empty() {
            return Err(syn::Error::new_spanned(&item.sig.generics, "no generics here"));
        }
        let docs = docs(&item.attrs);
        let returns = match &item.sig.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, returned) => quote!(#returned),
        };
        let (mut names, mut types, mut param_docs) = (vec![], vec![], vec![]);
        for input in &mut item.sig.inputs {
            let FnArg::Typed(param) = input else {
                return Err(syn::Error::new_spanned(input, "a free function takes no `self`"));
            };
            param_docs.push(self::docs(&param.attrs));
            param.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
            let Pat::Ident(name) = &*param.pat else {
                return Err(syn::Error::new_spanned(&param.pat, "a parameter needs a plain name"));
            };
            if let Type::Reference(reference) = &*param.ty {
                let why = "a parameter is taken by value: a `String`, not a `&str`";
                return Err(syn::Error::new_spanned(reference, why));
            }
            if name.ident == item.sig.ident {
                let why = "a parameter cannot have its function's name: rename one of them, \
                    and keep the offer's name with `name = \"…\"`";
                return Err(syn::Error::new_spanned(&name.ident, why));
            }
            names.push(name.ident.clone());
            types.push((*param.ty).clone());
        }
        Ok(Self { item, docs, returns, names, types, param_docs })
    }

    pub(crate) fn name(&self) -> String {
        self.item.sig.ident.to_string().trim_start_matches("r#").to_owned()
    }

    /// Statements that add the parameters to a `signature`.
    pub(crate) fn describe(&self) -> Tokens {
        let (types, docs) = (&self.types, &self.param_docs);
        let names = self.names.iter().map(Ident::to_string);
        quote!(#(::zcp::__private::describe::<#types, _>(#names, #docs, &mut signature);)*)
    }

    /// A closure that takes the parameters from an input, calls the function, and converts.
    pub(crate) fn run(&self, convert: &Tokens) -> Tokens {
        let (name, names, types) = (&self.item.sig.ident, &self.names, &self.types);
        let texts = self.names.iter().map(Ident::to_string);
        quote! {
            move |_input: ::zcp::Input| Box::pin(async move {
                #(let #names = ::zcp::__private::take::<#types, _>(&_input, #texts).await?;)*
                #convert(#name::run(#(#names),*).await)
            })
        }
    }

    /// A value of the function's name, which can be called as before and made an offer of.
    pub(crate) fn item(&self, offer: &Tokens, make: &Tokens) -> Tokens {
        let (visibility, name) = (&self.item.vis, &self.item.sig.ident);
        let mut run = self.item.clone();
        run.vis = syn::Visibility::Inherited;
        run.sig.ident = Ident::new("run", name.span());
        run.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
        let (types, names, returns, docs) = (&self.types, &self.names, &self.returns, &self.docs);
        quote! {
            #[doc = #docs]
            #[allow(non_camel_case_types)]
            #[derive(Debug, Clone, Copy)]
            #visibility struct #name;

            impl ::core::ops::Deref for #name {
                type Target = fn(#(#types),*) -> ::zcp::__private::BoxFuture<'static, #returns>;

                fn deref(&self) -> &Self::Target {
                    const CALL: fn(#(#types),*) -> ::zcp::__private::BoxFuture<'static, #returns> =
                        |#(#names),*| Box::pin(#name::run(#(#names),*));
                    &CALL
                }
            }

            impl #name {
                #run
            }

            impl ::core::convert::From<#name> for #offer {
                fn from(_: #name) -> Self {
                    #make
                }
            }
        }
    }
}

fn docs(attributes: &[Attribute]) -> String {
    let line = |attribute: &Attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value().trim().to_owned()),
            _ => None,
        },
        _ => None,
    };
    attributes.iter().filter_map(line).collect::<Vec<_>>().join("\n").trim().to_owned()
}
