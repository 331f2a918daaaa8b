//! What a handler may take as parameters.

use super::{
    ctx::Ctx,
    error::{CallError, Result},
    input::Input,
    signature::Signature,
};
use crate::auth::{Caller, Principal};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::future::{Future, ready};

/// A handler's parameter. It says what it needs, and takes it from a call.
///
/// Your own extractors are a few lines:
///
/// ```
/// use zcp::{Ctx, FromCall, Input, Result, Server, tool};
///
/// /// The language the caller's gateway asked for.
/// struct Language(String);
///
/// impl FromCall for Language {
///     async fn from_call(input: &Input) -> Result<Self> {
///         let language = input.ctx.get::<String>().cloned();
///         Ok(Self(language.unwrap_or_else(|| "en".into())))
///     }
/// }
///
/// /// Greet in the caller's language.
/// #[tool]
/// async fn greet(language: Language) -> String {
///     if language.0 == "de" { "Hallo".into() } else { "Hello".into() }
/// }
/// # Server::new("demo").tool(greet).build().unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler's parameter",
    note = "a parameter is `Args<T>`, `State<T>`, `Ctx`, `Caller`, `Principal`, or your own `FromCall` type"
)]
pub trait FromCall: Sized + Send {
    /// Adds what it needs to the handler's signature.
    fn describe(signature: &mut Signature) {
        let _ = signature;
    }

    /// Takes it from a call.
    fn from_call(input: &Input) -> impl Future<Output = Result<Self>> + Send;
}

/// All arguments at once; `T`'s fields are their schema.
#[derive(Debug, Clone, Copy)]
pub struct Args<T>(pub T);

/// A clone of what was given to `Server::state`. Its absence is found by `Server::build`.
#[derive(Debug, Clone, Copy)]
pub struct State<T>(pub T);

/// The URI a resource is read by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri(pub String);

impl<T> std::ops::Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: DeserializeOwned + JsonSchema + Send> FromCall for Args<T> {
    fn describe(signature: &mut Signature) {
        signature.args::<T>();
    }

    fn from_call(input: &Input) -> impl Future<Output = Result<Self>> + Send {
        ready(input.args().map(Self))
    }
}

impl<T: Clone + Send + Sync + 'static> FromCall for State<T> {
    fn describe(signature: &mut Signature) {
        signature.needs::<T>();
    }

    fn from_call(input: &Input) -> impl Future<Output = Result<Self>> + Send {
        let state = input.state.get::<T>().cloned();
        ready(state.map(Self).ok_or_else(|| CallError::new("the server lacks a state")))
    }
}

impl FromCall for Ctx {
    fn from_call(input: &Input) -> impl Future<Output = Result<Self>> + Send {
        ready(Ok(input.ctx.clone()))
    }
}

impl FromCall for Caller {
    fn from_call(input: &Input) -> impl Future<Output = Result<Self>> + Send {
        ready(Ok(input.ctx.caller().clone()))
    }
}

impl FromCall for Principal {
    fn from_call(input: &Input) -> impl Future<Output = Result<Self>> + Send {
        ready(Ok(input.ctx.principal().clone()))
    }
}

impl FromCall for Uri {
    fn from_call(input: &Input) -> impl Future<Output = Result<Self>> + Send {
        ready(Ok(Self(input.uri.clone().unwrap_or_default())))
    }
}

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a parameter",
    note = "an argument's type derives `serde::Deserialize` and `schemars::JsonSchema`; anything else is a `FromCall`"
)]
/// A parameter of a `#[tool]`, `#[resource]` or `#[prompt]` function: an extractor, or one named
/// argument. `Via` tells the two apart.
pub trait Param<Via>: Sized + Send {
    /// Adds it to the function's signature.
    fn describe(name: &str, doc: &str, signature: &mut Signature);
    /// Takes it from a call.
    fn take(input: &Input, name: &str) -> impl Future<Output = Result<Self>> + Send;
}

/// The parameter is an extractor.
#[derive(Debug)]
pub enum ViaCall {}
/// The parameter is an argument.
#[derive(Debug)]
pub enum ViaJson {}

impl<T: FromCall> Param<ViaCall> for T {
    fn describe(_: &str, _: &str, signature: &mut Signature) {
        T::describe(signature);
    }

    fn take(input: &Input, _: &str) -> impl Future<Output = Result<Self>> + Send {
        T::from_call(input)
    }
}

impl<T: DeserializeOwned + JsonSchema + Send> Param<ViaJson> for T {
    fn describe(name: &str, doc: &str, signature: &mut Signature) {
        signature.arg::<T>(name, doc);
    }

    fn take(input: &Input, name: &str) -> impl Future<Output = Result<Self>> + Send {
        ready(input.arg(name))
    }
}

/// `Param::describe` with its `Via` inferred.
pub fn describe<T: Param<Via>, Via>(name: &str, doc: &str, signature: &mut Signature) {
    T::describe(name, doc, signature);
}

/// `Param::take` with its `Via` inferred.
pub async fn take<T: Param<Via>, Via>(input: &Input, name: &str) -> Result<T> {
    T::take(input, name).await
}
