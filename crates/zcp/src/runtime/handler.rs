//! Async functions as handlers.

use super::{error::Result, extract::FromCall, input::Input, signature::Signature};
use std::future::Future;

/// Every `async fn` whose parameters are extractors. `T` tells arities apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    note = "a handler is an async fn whose parameters, 12 at most, are `Args<T>`, `State<T>`, `Ctx` or your own `FromCall` types"
)]
pub trait Handler<T>: Clone + Send + Sync + 'static {
    /// What the function returns.
    type Return: Send;

    /// Adds what the function's parameters need.
    fn describe(signature: &mut Signature);

    /// Takes the parameters from a call, and runs the function.
    fn call(self, input: Input) -> impl Future<Output = Result<Self::Return>> + Send;
}

macro_rules! handlers {
    ($([$($param:ident)*])*) => {$(
        #[diagnostic::do_not_recommend]
        #[expect(non_snake_case, reason = "a parameter is named as its type")]
        impl<F, Fut, Out, $($param,)*> Handler<($($param,)*)> for F
        where
            F: Fn($($param,)*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = Out> + Send,
            Out: Send,
            $($param: FromCall,)*
        {
            type Return = Out;

            fn describe(_signature: &mut Signature) {
                $($param::describe(_signature);)*
            }

            async fn call(self, _input: Input) -> Result<Out> {
                $(let $param = $param::from_call(&_input).await?;)*
                Ok(self($($param,)*).await)
            }
        }
    )*};
}
handlers!(
    [A] [A B] [A B C] [A B C D] [A B C D E] [A B C D E G] [A B C D E G H] [A B C D E G H I]
    [A B C D E G H I J] [A B C D E G H I J K] [A B C D E G H I J K L] [A B C D E G H I J K L M]
);

impl<F, Fut, Out> Handler<()> for F
where
    F: Fn() -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Out> + Send,
    Out: Send,
{
    type Return = Out;

    fn describe(_: &mut Signature) {}

    async fn call(self, _: Input) -> Result<Out> {
        Ok(self().await)
    }
}
