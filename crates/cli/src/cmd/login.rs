//! `zcp login` and `zcp logout`: a user's token for a server.

use crate::{
    args::{Login, Logout, Target, usage},
    home, print,
    target::{self, Way},
};
use serde_json::json;
use std::error::Error;
use zcp_client::{Http, OAuth, Vault, oauth::Registration};

pub(crate) async fn run(login: Login, json: bool) -> Result<(), Box<dyn Error>> {
    let (http, url) = remote(&login.target)?;
    let opens = !login.no_browser;
    // Whoever logs in may want to be somebody else.
    let mut oauth = OAuth::browser(move |page| print::login(page.as_str(), opens && open(page)))
        .kept_in(vault()?)
        .anew()
        .name("zcp");
    if let Some(id) = login.client_id {
        oauth = oauth.registered(match home::variable("ZCP_CLIENT_SECRET") {
            Some(secret) => Registration::secret(id, secret),
            None => Registration::public(id),
        });
    }
    if !login.scope.is_empty() {
        oauth = oauth.scopes(login.scope);
    }
    let way = Way::Http(http.oauth(oauth.clone()), url.clone());
    let client = target::connect(target::client(&login.target, json)?, way).await?;
    let reached = client.ping().await;
    client.close().await;
    reached?;
    let is_in = oauth.is_logged_in(&url);
    match (json, is_in) {
        (true, _) => print::json(&json!({ "server": url, "loggedIn": is_in }))?,
        (false, true) => print::words(&format!("You are logged in to {url}."))?,
        (false, false) => print::words(&format!("{url} wants no login."))?,
    }
    Ok(())
}

pub(crate) async fn out(logout: Logout, json: bool) -> Result<(), Box<dyn Error>> {
    let (_, url) = remote(&logout.target)?;
    let oauth = OAuth::logged_in(vault()?, "nobody is logged in");
    let was_in = oauth.log_out(&url).await?;
    match (json, was_in) {
        (true, _) => print::json(&json!({ "server": url, "loggedIn": false, "was": was_in }))?,
        (false, true) => print::words(&format!("You are logged out of {url}."))?,
        (false, false) => print::words(&format!("You were not logged in to {url}."))?,
    }
    Ok(())
}

fn vault() -> Result<Vault, Box<dyn Error>> {
    home::vault().ok_or_else(|| "there is no home to keep a login in: set XDG_DATA_HOME".into())
}

fn remote(target: &Target) -> Result<(Http, String), Box<dyn Error>> {
    match target::way(target).map_err(usage)? {
        Way::Http(http, url) => Ok((http, url)),
        _ => {
            let why = "only servers at http and https addresses are logged in to";
            Err(usage(format!("`{}`: {why}", target.server).into()))
        }
    }
}

/// Opens a page in the user's browser; false if there is none. No shell is involved, and the
/// address is one of http or https.
fn open(page: &zcp_client::oauth::Url) -> bool {
    webbrowser::open(page.as_str()).is_ok()
}
