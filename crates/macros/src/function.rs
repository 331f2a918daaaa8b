//! The function under an attribute, and what is written beside it.

use crate::param::Param;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{
    Attribute, FnArg, GenericParam, Generics, Ident, ItemFn, Pat, Receiver, ReturnType, parse_quote,
};

/// Parameters that a handler may have.
const MOST: usize = 12;

/// An async function, taken apart.
pub(crate) struct Function {
    item: ItemFn,
    pub(crate) docs: String,
    pub(crate) returns: Tokens,
    params: Vec<Param>,
    /// It is a method, which takes `&self`.
    is_method: bool,
}

impl Function {
    pub(crate) fn parse(tokens: Tokens) -> syn::Result<Self> {
        let mut item: ItemFn = syn::parse2(tokens)?;
        if item.sig.asyncness.is_none() {
            return Err(syn::Error::new_spanned(item.sig.fn_token, "make this an `async fn`"));
        }
        let docs = crate::docs::docs(&item.attrs);
        let returns = match &item.sig.output {
            ReturnType::Default => quote!(()),
            ReturnType::Type(_, returned) => quote!(#returned),
        };
        let (mut params, mut is_method) = (vec![], false);
        for input in &mut item.sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    check_receiver(receiver)?;
                    is_method = true;
                }
                FnArg::Typed(param) if params.len() == MOST => {
                    let why = "a handler takes 12 parameters at most: put the arguments into a \
                        struct, and take it as `Args<T>`";
                    return Err(syn::Error::new_spanned(param, why));
                }
                FnArg::Typed(param) => params.push(Param::parse(param, params.len())?),
            }
        }
        if is_method && !item.sig.generics.params.is_empty() {
            let why = "a method has no generics here: put them on the `impl`";
            return Err(syn::Error::new_spanned(&item.sig.generics, why));
        }
        Ok(Self { item, docs, returns, params, is_method })
    }

    pub(crate) fn name(&self) -> String {
        self.item.sig.ident.to_string().trim_start_matches("r#").to_owned()
    }

    /// Statements that add the parameters to a `signature`.
    pub(crate) fn describe(&self) -> Tokens {
        let types = self.params.iter().map(|param| &param.owned);
        let names = self.params.iter().map(|param| &param.name);
        let docs = self.params.iter().map(|param| &param.docs);
        quote!(#(::zcp::__private::describe::<#types, _>(#names, #docs, &mut signature);)*)
    }

    /// A closure that takes the parameters from an input, calls the function, and converts.
    pub(crate) fn run(&self, convert: &Tokens) -> Tokens {
        let variables = self.params.iter().map(|param| &param.variable);
        let types = self.params.iter().map(|param| &param.owned);
        let names = self.params.iter().map(|param| &param.name);
        let passed = self.params.iter().map(|param| &param.passed);
        let (name, generics) = (&self.item.sig.ident, self.turbofish());
        let (prepare, callee) = match self.is_method {
            true => (quote!(let this = this.clone();), quote!(this.#name)),
            false => (quote!(), quote!(#name #generics)),
        };
        quote! {
            move |_input: ::zcp::Input| {
                #prepare
                Box::pin(async move {
                    #(let #variables = ::zcp::__private::take::<#types, _>(&_input, #names).await?;)*
                    #convert(#callee(#(#passed),*).await)
                })
            }
        }
    }

    /// The function, and how it is made an offer: of the type `offer`, by the expression `make`.
    pub(crate) fn item(&self, kind: &str, offer: &Tokens, make: &Tokens) -> Tokens {
        match self.is_method {
            true => self.method(kind, offer, make),
            false => self.free(offer, make),
        }
    }

    /// The method as it is, and one beside it that makes the offer of a clone.
    fn method(&self, kind: &str, offer: &Tokens, make: &Tokens) -> Tokens {
        let (item, visibility) = (&self.item, &self.item.vis);
        let maker = format_ident!("{}_{kind}", self.name(), span = item.sig.ident.span());
        let docs =
            format!("Makes a {kind} of [`{0}`](Self::{0}), which runs on a clone.", self.name());
        quote! {
            #item

            #[doc = #docs]
            #visibility fn #maker(&self) -> #offer
            where
                Self: ::core::clone::Clone + ::core::marker::Send + ::core::marker::Sync + 'static,
            {
                let this = ::core::clone::Clone::clone(self);
                #make
            }
        }
    }

    /// A function that is called as before, whose future's type leads to its description.
    fn free(&self, offer: &Tokens, make: &Tokens) -> Tokens {
        let ItemFn { vis: visibility, sig: signature, attrs, .. } = &self.item;
        let (name, returns) = (&signature.ident, &self.returns);
        let mut inner = self.item.clone();
        inner.vis = syn::Visibility::Inherited;
        inner.attrs.retain(|attribute| !belongs_outside(attribute));
        // A parameter of the function's name would hide it.
        if self.params.iter().any(|param| param.name == self.name()) {
            inner.sig.ident = format_ident!("__run", span = name.span());
        }
        let (call, turbofish) = (&inner.sig.ident, self.turbofish());
        let outside = attrs.iter().filter(|attribute| belongs_outside(attribute));
        let (params, passed) = self.outer_params();
        let (generics, wheres) = (&signature.generics, &signature.generics.where_clause);

        let described = format_ident!("__zcp_{}", self.name(), span = name.span());
        let own = self.own_generics();
        let (declared, used, bounds) = own.split_for_impl();
        let marked = own.type_params().map(|param| &param.ident);
        let bare = own.params.iter().map(|param| match param {
            GenericParam::Const(param) => {
                let (name, kind) = (&param.ident, &param.ty);
                quote!(const #name: #kind)
            }
            GenericParam::Type(param) => {
                let name = &param.ident;
                quote!(#name)
            }
            GenericParam::Lifetime(param) => quote!(#param),
        });
        quote! {
            #(#outside)*
            #[allow(clippy::too_many_arguments)]
            #visibility fn #name #generics (#(#params),*) -> ::zcp::__private::Described<
                #described #used,
                impl ::core::future::Future<Output = #returns>,
            > #wheres {
                #[allow(clippy::too_many_arguments)]
                #inner

                ::zcp::__private::Described::new(#call #turbofish (#(#passed),*))
            }

            #[doc(hidden)]
            #[allow(non_camel_case_types, unreachable_pub, dead_code, missing_debug_implementations)]
            #visibility struct #described<#(#bare),*>(
                ::core::marker::PhantomData<(#(fn(&#marked),)*)>,
            );

            impl #declared ::zcp::__private::Offers<#offer> for #described #used #bounds {
                fn offer() -> #offer {
                    #make
                }
            }
        }
    }

    /// The parameters of the function that callers see, and how they are passed to the inner one.
    fn outer_params(&self) -> (Vec<Tokens>, Vec<Ident>) {
        let typed = self.item.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(param) => Some(param),
            FnArg::Receiver(_) => None,
        });
        let named = typed.zip(&self.params).map(|(param, parsed)| match &*param.pat {
            Pat::Ident(name) => name.ident.clone(),
            _ => parsed.variable.clone(),
        });
        let names: Vec<Ident> = named.collect();
        let typed = names.iter().zip(&self.params).map(|(name, param)| {
            let written = &param.written;
            quote!(#name: #written)
        });
        (typed.collect(), names)
    }

    /// The generics of the description: without lifetimes, and for as long as the server lives.
    fn own_generics(&self) -> Generics {
        let mut own = self.item.sig.generics.clone();
        let lasting = own.params.into_iter().filter(|param| !is_lifetime(param));
        own.params = lasting.collect();
        let names: Vec<Ident> = own.type_params().map(|param| param.ident.clone()).collect();
        for name in names {
            own.make_where_clause().predicates.push(parse_quote!(#name: 'static));
        }
        own
    }

    /// The generics as they are given to the function.
    fn turbofish(&self) -> Tokens {
        let names = self.item.sig.generics.params.iter().filter_map(|param| match param {
            GenericParam::Type(param) => Some(&param.ident),
            GenericParam::Const(param) => Some(&param.ident),
            GenericParam::Lifetime(_) => None,
        });
        let names: Vec<&Ident> = names.collect();
        if names.is_empty() { Tokens::new() } else { quote!(::<#(#names),*>) }
    }
}

fn is_lifetime(param: &GenericParam) -> bool {
    matches!(param, GenericParam::Lifetime(_))
}

/// Handlers run at the same time, so that they share what they are methods of.
fn check_receiver(receiver: &Receiver) -> syn::Result<()> {
    let shared = receiver.reference.is_some() && receiver.mutability.is_none();
    if shared && receiver.colon_token.is_none() {
        return Ok(());
    }
    Err(syn::Error::new_spanned(receiver, "a method takes `&self`: calls run at the same time"))
}

/// Attributes of what callers see. All others belong to the code of the function.
fn belongs_outside(attribute: &Attribute) -> bool {
    let names = ["doc", "cfg", "cfg_attr", "deprecated", "must_use"];
    names.iter().any(|name| attribute.path().is_ident(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mistake(function: Tokens) -> String {
        Function::parse(function).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn mistakes_say_what_to_do() {
        let params = |most: usize| {
            let names = (0..most).map(|number| format_ident!("a{number}"));
            quote!(async fn f(#(#names: u8),*) {})
        };
        assert_eq!(mistake(params(12)), "");
        assert!(mistake(params(13)).contains("take it as `Args<T>`"));
        assert!(
            mistake(quote!(
                fn f() {}
            ))
            .contains("`async fn`")
        );
        assert!(
            mistake(quote!(
                async fn f(a: &mut u8) {}
            ))
            .contains("`&T`")
        );
        assert!(
            mistake(quote!(
                async fn f((a, b): (u8, u8)) {}
            ))
            .contains("needs a name")
        );
        assert!(
            mistake(quote!(
                async fn f(self) {}
            ))
            .contains("`&self`")
        );
        assert!(
            mistake(quote!(
                async fn f(&mut self) {}
            ))
            .contains("`&self`")
        );
    }
}
