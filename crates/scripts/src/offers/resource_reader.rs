//! Reads resources: files, programs and what providers have.

use crate::{
    call::{
        arguments,
        program::{Given, Program},
    },
    content,
    host::Host,
    manifest::Form,
    project::Project,
    providers,
};
use serde_json::{Map, Value};
use std::{path::PathBuf, sync::Arc};
use zcp::{CallError, Contents, FromCall, Input, Resource, Result, Signature, Uri};

/// What a resource's content comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    File(PathBuf),
    /// One of the project, as long as it is in there.
    Inside(PathBuf),
    Program(Arc<Program>),
    Provider(String),
}

/// Reads one resource.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) mime: Option<String>,
    pub(super) project: Arc<Project>,
    pub(super) host: Arc<Host>,
}

impl Reader {
    pub(super) async fn read(&self, input: &Input) -> Result<Contents> {
        let Uri(uri) = Uri::from_call(input).await?;
        let mut known = None;
        let (bytes, path) = match &self.source {
            Source::File(path) => {
                let places = places(&self.project, &self.host);
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let read = providers::read_file(path.clone(), &name, places, &self.host);
                (read.await?, Some(path.as_path()))
            }
            Source::Inside(path) => {
                let places = vec![self.project.root.clone()];
                let read = providers::read_file(path.clone(), &uri, places, &self.host);
                (read.await?, Some(path.as_path()))
            }
            Source::Program(program) => {
                let variables: Map<String, Value> = input.args()?;
                let given = arguments::give(&Form::Both, &variables).map_err(CallError::Invalid)?;
                let mut env = given.env;
                env.push(("ZCP_URI".into(), uri.clone().into()));
                let given = Given { env, stdin: given.stdin, argv: vec![] };
                (program.output(given, Some(&input.ctx)).await?, None)
            }
            Source::Provider(name) => {
                let got =
                    providers::read(name, &uri, &self.project, &self.host, &input.ctx).await?;
                known = got.mime;
                (got.bytes, None)
            }
        };
        let named = url::Url::parse(&uri).ok().map(|uri| PathBuf::from(uri.path()));
        let path = path.or(named.as_deref());
        let mime = self.mime.clone().or(known);
        let mime = mime.unwrap_or_else(|| content::mime_of(path, &bytes));
        Ok(Contents::Parts(vec![content::contents(bytes, mime, &uri)]))
    }
}

/// A resource in no list, for everything of a scheme.
pub(crate) fn by_scheme(scheme: &str, project: &Arc<Project>, host: &Arc<Host>) -> Resource {
    let reader = Arc::new(Reader {
        source: Source::Provider(scheme.to_owned()),
        mime: None,
        project: project.clone(),
        host: host.clone(),
    });
    let scheme = if scheme == "git" { "git+https" } else { scheme };
    Resource::from_parts(format!("{scheme}://{{+rest}}"), Signature::default(), move |input| {
        let reader = reader.clone();
        Box::pin(async move { reader.read(&input).await })
    })
    .allow_any_path()
    .unlisted()
}

/// Where files of resources may be, wherever links lead.
pub(super) fn places(project: &Project, host: &Host) -> Vec<PathBuf> {
    let mut all = project.places("resources");
    all.extend(providers::roots(project, host));
    all
}
