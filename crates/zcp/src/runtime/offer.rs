//! Functions under `#[tool]`, `#[resource]` and `#[prompt]` as what they offer.
//!
//! The attribute leaves a function that can be called as before. Its future is [`Described`]: the
//! type names the description that the attribute wrote, and so the function alone is enough to make
//! the offer.

use pin_project_lite::pin_project;
use std::{
    fmt,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};

/// What can be offered as an `O`: an `O` itself ([`Tool`](crate::Tool),
/// [`Resource`](crate::Resource) or [`Prompt`](crate::Prompt)), or a function under the attribute
/// of the same name. `T` tells the two apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be offered as `{O}`",
    note = "put `#[tool]`, `#[resource]` or `#[prompt]` on the function; it may have 12 parameters at most",
    note = "other functions are made an offer with `Tool::new`, `Resource::new` or `Prompt::new`"
)]
pub trait IntoOffer<O, T> {
    /// Makes the offer.
    fn into_offer(self) -> O;
}

/// Says that something is an offer itself.
#[derive(Debug)]
pub enum Itself {}

impl<O> IntoOffer<O, Itself> for O {
    fn into_offer(self) -> O {
        self
    }
}

/// What an attribute writes about its function.
pub trait Offers<O> {
    /// Makes the offer.
    fn offer() -> O;
}

pin_project! {
    /// The future of a function under an attribute. `M` describes the function.
    pub struct Described<M, F> {
        #[pin]
        future: F,
        described: PhantomData<fn() -> M>,
    }
}

impl<M, F> Described<M, F> {
    /// The future, described.
    pub fn new(future: F) -> Self {
        Self { future, described: PhantomData }
    }
}

impl<M, F: Future> Future for Described<M, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(context)
    }
}

impl<M, F> fmt::Debug for Described<M, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Described").finish_non_exhaustive()
    }
}

macro_rules! functions {
    ($([$($param:ident)*])*) => {$(
        #[diagnostic::do_not_recommend]
        impl<O, M, Function, Running, $($param,)*>
            IntoOffer<O, fn($($param,)*) -> Described<M, Running>> for Function
        where
            Function: Fn($($param,)*) -> Described<M, Running>,
            M: Offers<O>,
        {
            fn into_offer(self) -> O {
                M::offer()
            }
        }
    )*};
}
functions!(
    [] [A] [A B] [A B C] [A B C D] [A B C D E] [A B C D E F] [A B C D E F G] [A B C D E F G H]
    [A B C D E F G H I] [A B C D E F G H I J] [A B C D E F G H I J K] [A B C D E F G H I J K L]
);
