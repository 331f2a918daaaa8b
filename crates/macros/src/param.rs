//! One parameter of a function under an attribute: its name, what is taken for it from a call, and
//! how it is passed on.

use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::{
    GenericArgument, Ident, Pat, PatType, PathArguments, Type, TypeReference, parse_quote,
    parse_quote_spanned, spanned::Spanned,
};

/// A parameter, taken apart.
pub(crate) struct Param {
    /// What the argument is called.
    pub(crate) name: String,
    pub(crate) docs: String,
    /// The type as it is written.
    pub(crate) written: Type,
    /// The type that is taken from a call: a `String` for a `&str`.
    pub(crate) owned: Type,
    /// The variable that holds it.
    pub(crate) variable: Ident,
    /// How the variable is passed to the function.
    pub(crate) passed: Tokens,
}

impl Param {
    pub(crate) fn parse(param: &mut PatType, number: usize) -> syn::Result<Self> {
        let docs = crate::docs::docs(&param.attrs);
        param.attrs.retain(|attribute| !attribute.path().is_ident("doc"));
        let Some(name) = name(&param.pat) else {
            let why = "a parameter needs a name: `text: String`, or `State(text): State<String>`";
            return Err(syn::Error::new_spanned(&param.pat, why));
        };
        let name = name.to_string().trim_start_matches("r#").to_owned();
        let variable = format_ident!("__arg{number}", span = param.ty.span());
        let (owned, passed) = owned(&param.ty, &variable)?;
        Ok(Self { name, docs, written: (*param.ty).clone(), owned, variable, passed })
    }
}

/// The one name in a pattern.
fn name(pattern: &Pat) -> Option<&Ident> {
    match pattern {
        Pat::Ident(name) => Some(&name.ident),
        Pat::TupleStruct(inner) if inner.elems.len() == 1 => name(&inner.elems[0]),
        _ => None,
    }
}

/// What is taken for a parameter, and how it is passed on: references are to what was taken.
fn owned(written: &Type, variable: &Ident) -> syn::Result<(Type, Tokens)> {
    if let Type::Reference(reference) = written {
        let (owned, _) = referred(reference)?;
        return Ok((owned, quote!(&#variable)));
    }
    if let Some(reference) = optional_reference(written) {
        let (owned, unsized_) = referred(reference)?;
        let borrow = if unsized_ { quote!(as_deref) } else { quote!(as_ref) };
        let owned = parse_quote!(::core::option::Option<#owned>);
        return Ok((owned, quote!(#variable.#borrow())));
    }
    Ok((written.clone(), quote!(#variable)))
}

/// The owned type of what a reference is to, and whether it differs.
fn referred(reference: &TypeReference) -> syn::Result<(Type, bool)> {
    if reference.mutability.is_some() {
        let why = "a parameter is taken by value or as `&T`, not as `&mut T`";
        return Err(syn::Error::new_spanned(reference, why));
    }
    let span = reference.span();
    Ok(match &*reference.elem {
        Type::Path(path) if path.path.is_ident("str") => {
            (parse_quote_spanned!(span=> ::std::string::String), true)
        }
        Type::Slice(slice) => {
            let item = &slice.elem;
            (parse_quote_spanned!(span=> ::std::vec::Vec<#item>), true)
        }
        other => (other.clone(), false),
    })
}

/// The reference in an `Option<&T>`.
fn optional_reference(written: &Type) -> Option<&TypeReference> {
    let Type::Path(path) = written else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Option")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    match arguments.args.first()? {
        GenericArgument::Type(Type::Reference(reference)) => Some(reference),
        _ => None,
    }
}
