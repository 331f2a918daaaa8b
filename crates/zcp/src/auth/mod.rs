//! Who sent a message, and what they may do.

mod peer_address;

pub use peer_address::PeerAddress;
pub(crate) use peer_address::network;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// An identity: an issuer and the subject it vouches for, or anonymous.
///
/// Sessions, tasks, handles and sealed states belong to a principal. Two principals are equal if
/// both their issuer and their subject are.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Principal(Option<Arc<str>>);

static ANONYMOUS: Principal = Principal::ANONYMOUS;
static NO_SCOPES: Scopes = Scopes(None);

impl Principal {
    /// A caller without an identity.
    pub const ANONYMOUS: Self = Self(None);

    /// A caller that a layer of this server identified by a name.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self::issued_by("", name)
    }

    /// A caller that an issuer identified, such as the authorization server that signed a token.
    pub fn issued_by(issuer: impl AsRef<str>, subject: impl AsRef<str>) -> Self {
        let (issuer, subject) = (issuer.as_ref(), subject.as_ref());
        // With its length in front, no issuer can pass for another with a part of the subject.
        Self(Some(format!("{}:{issuer}{subject}", issuer.len()).into()))
    }

    /// Who vouches for the subject; empty for a name that this server gave, and if anonymous.
    pub fn issuer(&self) -> &str {
        self.parts().0
    }

    /// The name within the issuer; empty if anonymous. Names of different issuers may be equal, so
    /// compare principals rather than subjects.
    pub fn subject(&self) -> &str {
        self.parts().1
    }

    /// Whether there is no identity.
    pub fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }

    /// A text that no other principal has: the subject of a name that this server gave, otherwise
    /// the issuer's length, the issuer and the subject. Empty if anonymous.
    pub fn as_str(&self) -> &str {
        match self.issuer() {
            "" => self.subject(),
            _ => self.key(),
        }
    }

    /// What stores and sealed texts name it by: different for all principals.
    pub(crate) fn key(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    /// The principal of a [`key`](Self::key), if it is one.
    pub(crate) fn from_key(key: &str) -> Option<Self> {
        if key.is_empty() {
            return Some(Self::ANONYMOUS);
        }
        let (length, rest) = key.split_once(':')?;
        rest.get(length.parse().ok()?..)?;
        Some(Self(Some(key.into())))
    }

    fn parts(&self) -> (&str, &str) {
        let split = self.0.as_deref().and_then(|key| {
            let (length, rest) = key.split_once(':')?;
            rest.split_at_checked(length.parse().ok()?)
        });
        split.unwrap_or_default()
    }

    /// Who the extensions of a message say is calling.
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        if let Some(caller) = extensions.get::<Caller>() {
            return caller.principal().clone();
        }
        extensions.get().cloned().unwrap_or(Self::ANONYMOUS)
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_anonymous() {
            true => f.write_str("Principal::ANONYMOUS"),
            false => {
                f.debug_tuple("Principal").field(&self.issuer()).field(&self.subject()).finish()
            }
        }
    }
}

/// What a caller was granted: a set of scope names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Scopes(Option<Arc<BTreeSet<String>>>);

impl Scopes {
    /// A set of scopes.
    pub fn new(scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let all: BTreeSet<String> = scopes.into_iter().map(Into::into).collect();
        Self((!all.is_empty()).then(|| Arc::new(all)))
    }

    /// Whether a scope was granted.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.as_ref().is_some_and(|all| all.contains(scope))
    }

    /// Every scope, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|all| all.iter().map(String::as_str))
    }

    /// Whether nothing was granted.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The scopes that both have.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        match self == other {
            true => self.clone(),
            false => Self::new(self.iter().filter(|scope| other.contains(scope))),
        }
    }
}

/// Who sent the current message, and what they may do.
///
/// One per message: a layer of the transport puts it into the request's extensions, and handlers
/// read it with [`Ctx::caller`](crate::Ctx::caller). A layer that only knows a name may insert a
/// [`Principal`] instead; such a caller has no scopes.
///
/// ```
/// use zcp::{Caller, Principal, Scopes};
///
/// let caller = Caller::new(Principal::issued_by("https://id.example.com", "ann"))
///     .granted(Scopes::new(["files:read"]));
/// assert!(caller.scopes().contains("files:read"));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller(Option<Arc<Known>>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    principal: Principal,
    scopes: Scopes,
    expires: Option<SystemTime>,
    /// Where it is not what the scopes say.
    view: Option<View>,
}

impl Caller {
    /// A caller without an identity and without scopes.
    pub const ANONYMOUS: Self = Self(None);

    /// A caller without scopes.
    pub fn new(principal: Principal) -> Self {
        match principal.is_anonymous() {
            true => Self::ANONYMOUS,
            false => Self(Some(Arc::new(Known { principal, ..Known::default() }))),
        }
    }

    /// Sets what the caller was granted.
    #[must_use]
    pub fn granted(self, scopes: Scopes) -> Self {
        self.with(|known| known.scopes = scopes)
    }

    /// Sets when the grant ends. Event streams and sockets of the caller end then.
    #[must_use]
    pub fn until(self, at: SystemTime) -> Self {
        self.with(|known| known.expires = Some(at))
    }

    /// Sets which lists the caller sees, where that depends on more than its scopes.
    #[must_use]
    pub fn seeing(self, view: View) -> Self {
        self.with(|known| known.view = Some(view))
    }

    fn with(self, change: impl FnOnce(&mut Known)) -> Self {
        let mut known = self.0.map(Arc::unwrap_or_clone).unwrap_or_default();
        change(&mut known);
        Self(Some(Arc::new(known)))
    }

    /// Who it is.
    pub fn principal(&self) -> &Principal {
        self.0.as_ref().map_or(&ANONYMOUS, |known| &known.principal)
    }

    /// What it was granted.
    pub fn scopes(&self) -> &Scopes {
        self.0.as_ref().map_or(&NO_SCOPES, |known| &known.scopes)
    }

    /// When the grant ends; never if nothing was said.
    pub fn expires(&self) -> Option<SystemTime> {
        self.0.as_ref()?.expires
    }

    /// Whether the grant has ended.
    pub fn is_expired(&self) -> bool {
        self.expires().is_some_and(|at| at <= SystemTime::now())
    }

    /// Waits until the grant ends.
    pub(crate) async fn expired(self) {
        let Some(at) = self.expires() else { return std::future::pending().await };
        // In steps: clocks may be set meanwhile.
        while let Ok(left) = at.duration_since(SystemTime::now()) {
            tokio::time::sleep(left.min(Duration::from_secs(60))).await;
        }
    }

    /// What the caller's lists are the same for: callers with equal views see equal lists.
    pub fn view(&self) -> View {
        let Some(known) = &self.0 else { return View::ALL };
        match &known.view {
            Some(view) => view.clone(),
            None if known.scopes.is_empty() => View::ALL,
            None => View::new(known.scopes.iter().collect::<Vec<_>>().join(" ")),
        }
    }

    /// The caller of a call that began as `self` and is taken up by the same principal now: with
    /// the scopes that it had then and has still. None if the principals differ.
    pub(crate) fn taken_up_by(&self, now: &Self) -> Option<Self> {
        if self.principal() != now.principal() {
            return None;
        }
        let scopes = self.scopes().and(now.scopes());
        Some(now.clone().granted(scopes))
    }

    /// Who the extensions of a message say is calling.
    pub(crate) fn of(extensions: &http::Extensions) -> Self {
        if let Some(caller) = extensions.get::<Self>() {
            return caller.clone();
        }
        extensions.get::<Principal>().map_or(Self::ANONYMOUS, |known| Self::new(known.clone()))
    }
}

/// A caller as stores hold it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct StoredCaller {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    principal: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<String>,
    /// Seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

impl StoredCaller {
    pub(crate) fn is_anonymous(&self) -> bool {
        self.principal.is_empty() && self.scopes.is_empty() && self.expires.is_none()
    }

    /// None if it cannot be read: nobody must pass for anonymous by mistake.
    pub(crate) fn read(&self) -> Option<Caller> {
        let principal = Principal::from_key(&self.principal)?;
        let scopes = Scopes::new(&self.scopes);
        let expires = match self.expires {
            None => None,
            Some(at) => Some(UNIX_EPOCH.checked_add(Duration::from_secs(at))?),
        };
        let known = Known { principal, scopes, expires, view: None };
        Some(Caller((known != Known::default()).then(|| Arc::new(known))))
    }
}

impl From<&Caller> for StoredCaller {
    fn from(caller: &Caller) -> Self {
        let since = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            principal: caller.principal().key().to_owned(),
            scopes: caller.scopes().iter().map(str::to_owned).collect(),
            expires: caller.expires().map(since),
        }
    }
}

/// What a caller may see, as a key: lists are made once for a view, and a cursor of one view is
/// refused in another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct View(Option<Arc<str>>);

impl View {
    /// Everything: the view of all callers while nobody restricts what they see.
    pub const ALL: Self = Self(None);

    /// A view of a name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(Some(name.into()))
    }

    /// Its name; none for [`ALL`](Self::ALL).
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_are_told_apart_by_issuer_and_subject() {
        let all = [
            Principal::ANONYMOUS,
            Principal::new(""),
            Principal::new("ann"),
            Principal::issued_by("https://a.example", "nn"),
            Principal::issued_by("https://a.example.n", "n"),
            Principal::issued_by("ann", ""),
            Principal::new("3:ann"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(Principal::from_key(one.key()).as_ref(), Some(one));
            for other in &all[at + 1..] {
                assert_ne!(one, other);
                assert_ne!(one.key(), other.key());
            }
        }
        assert_eq!(all[3].issuer(), "https://a.example");
        assert_eq!(all[3].subject(), "nn");
        assert_eq!(Principal::from_key("ann"), None);
        assert_eq!(Principal::from_key("9:ann"), None);
    }

    #[test]
    fn a_stored_caller_is_the_caller_it_was() {
        let expires = UNIX_EPOCH + Duration::from_secs(4_000_000_000);
        let caller = Caller::new(Principal::issued_by("https://a.example", "ann"))
            .granted(Scopes::new(["read", "write"]))
            .until(expires);
        for caller in [caller, Caller::ANONYMOUS, Caller::new(Principal::new(""))] {
            let text = serde_json::to_string(&StoredCaller::from(&caller)).unwrap();
            let stored: StoredCaller = serde_json::from_str(&text).unwrap();
            assert_eq!(stored.read(), Some(caller));
        }
        let damaged: StoredCaller = serde_json::from_str(r#"{"principal":"ann"}"#).unwrap();
        assert_eq!(damaged.read(), None);
    }

    #[test]
    fn a_taken_over_caller_has_no_more_than_both() {
        let ann = Caller::new(Principal::new("ann"));
        let then = ann.clone().granted(Scopes::new(["read", "write"]));
        let now = ann.clone().granted(Scopes::new(["read", "admin"]));
        let both = then.taken_up_by(&now).unwrap();
        assert_eq!(both.scopes(), &Scopes::new(["read"]));
        assert_eq!(then.taken_up_by(&Caller::new(Principal::new("bob"))), None);
        assert_eq!(Caller::ANONYMOUS.taken_up_by(&ann), None);
    }
}
