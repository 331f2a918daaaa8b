//! `zcp login` and `zcp logout`: a user's token for a server.

use crate::{
    errors::usage,
    home, print,
    target::{self, Target, Way},
};
use serde_json::json;
use std::error::Error;
use zcp_client::{OAuth, Vault, oauth::Registration};

#[derive(Debug, clap::Args)]
#[command(after_help = "The token is kept in a file only you can read, and renewed when it ends.
Use --client-id for a client that is registered already. Its secret, if it has one, is the
environment variable ZCP_CLIENT_SECRET.

Examples:
  zcp login https://example.com/mcp
  zcp login https://example.com/mcp --no-browser")]
pub(crate) struct Login {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Show the page's address, and open no browser.
    #[arg(long)]
    pub(crate) no_browser: bool,

    /// Ask for this scope, and not for those the server names. Repeat for more.
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,

    /// OAuth client ID.
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  zcp logout https://example.com/mcp")]
pub(crate) struct Logout {
    #[command(flatten)]
    pub(crate) target: Target,
}

pub(crate) async fn run(login: Login, json: bool) -> Result<(), Box<dyn Error>> {
    let (way, url) = remote(&login.target)?;
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
    let way = way.oauth(oauth.clone());
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

fn remote(target: &Target) -> Result<(Way, String), Box<dyn Error>> {
    match target::way(target).map_err(usage)? {
        Way::Http(http, url) => Ok((Way::Http(http, url.clone()), url)),
        Way::Ws(ws) => Ok((Way::Ws(ws), target.server.clone())),
        _ => {
            let why = "only servers at http, https, ws and wss addresses are logged in to";
            Err(usage(format!("`{}`: {why}", target.server).into()))
        }
    }
}

/// Opens a page in the user's browser; false if there is none. No shell is involved, and the
/// address is one of http or https.
fn open(page: &zcp_client::oauth::Url) -> bool {
    webbrowser::open(page.as_str()).is_ok()
}
