//! What all runs of a server share.

pub(crate) mod environment;
pub(crate) mod kept_folders;
pub(crate) mod neighbours;
pub(crate) mod outputs;
pub(crate) mod reserved;
pub(crate) mod secrets;

use crate::{
    call_files::{self, CallFolder},
    manifest::Sandbox,
    run::{
        self, Nursery,
        concurrency::{Bounds, Concurrency},
        sandbox::spots,
    },
};
pub(crate) use environment::Environment;
use kept_folders::KeptFolders;
use neighbours::Neighbours;
use outputs::Outputs;
use reserved::Reserved;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
use zcp::Ctx;

/// The files scripts may use, one for each language.
const SDK: [(&str, &str); 9] = [
    ("zcp.sh", include_str!("../../sdk/zcp.sh")),
    ("zcp.py", include_str!("../../sdk/zcp.py")),
    ("zcp.js", include_str!("../../sdk/zcp.js")),
    ("package.json", "{ \"type\": \"commonjs\" }\n"),
    ("zcp.rb", include_str!("../../sdk/zcp.rb")),
    ("zcp.psm1", include_str!("../../sdk/zcp.psm1")),
    ("tool-sdk.sh", include_str!("../../sdk/tool-sdk.sh")),
    ("ui-sdk.sh", include_str!("../../sdk/ui-sdk.sh")),
    ("hooks.sh", include_str!("../../sdk/hooks.sh")),
];

/// What all runs share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) environment: Environment,
    pub(crate) nursery: Nursery,
    pub(crate) concurrency: Concurrency,
    pub(crate) outputs: Outputs,
    /// Repositories that were fetched a moment ago.
    pub(crate) repositories: KeptFolders,
    /// What sandboxes may write and may not, in all folders of the process.
    neighbours: Arc<Neighbours>,
    temporary: Temporary,
}

/// The folder of everything temporary: made when something runs, and gone with the host.
#[derive(Debug)]
struct Temporary {
    path: PathBuf,
    made: OnceLock<()>,
}

impl Host {
    /// `command` is the `zcp` command, `set` are variables the project sets itself.
    pub(crate) fn new(
        command: Option<&Path>,
        env: BTreeMap<String, String>,
        set: BTreeMap<String, String>,
        bounds: Bounds,
        temporary: &Path,
        neighbours: Arc<Neighbours>,
    ) -> io::Result<Self> {
        let name = format!("zcp-{}", zcp::random_name());
        let path = temporary.join(&name);
        Ok(Self {
            environment: Environment::new(command, env, set, &path.join("bin"))?,
            nursery: Nursery::default(),
            concurrency: Concurrency::new(bounds),
            outputs: Outputs::new(format!("output://{name}/")),
            repositories: KeptFolders::default(),
            neighbours,
            temporary: Temporary { path, made: OnceLock::new() },
        })
    }

    /// The folder of everything temporary, which is there from now on.
    fn folder(&self) -> &Path {
        let Temporary { path, made } = &self.temporary;
        made.get_or_init(|| {
            if let Err(error) = self.make(path) {
                tracing::error!("{}: {error}", path.display());
            }
        });
        path
    }

    fn make(&self, folder: &Path) -> io::Result<()> {
        let mut private = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
        private.create(folder)?;
        self.nursery.guard(folder);
        for name in ["sdk", "bin", "outputs", "calls"] {
            private.create(folder.join(name))?;
        }
        for (name, text) in SDK {
            fs::write(folder.join("sdk").join(name), text)?;
        }
        let Environment { command, jq, .. } = &self.environment;
        if let (Some(command), true) = (command, jq.starts_with(folder)) {
            #[cfg(unix)]
            std::os::unix::fs::symlink(command, jq)?;
            #[cfg(not(unix))]
            fs::copy(command, jq).map(drop)?;
        }
        Ok(())
    }

    /// Removes everything temporary.
    pub(crate) fn remove(&self) {
        if self.temporary.made.get().is_some() {
            let _ = call_files::remove(&self.temporary.path);
        }
    }

    /// The folder of the files scripts may use.
    pub(crate) fn sdk(&self) -> PathBuf {
        self.folder().join("sdk")
    }

    /// The variables every script sees, and those this one is allowed to.
    pub(crate) fn script_env(&self, allowed: &[String]) -> Vec<(OsString, OsString)> {
        self.environment.for_script(allowed, self.sdk())
    }

    /// The folder of everything temporary, which need not be there yet.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary.path
    }

    /// What the folders of the process know of each other.
    pub(crate) fn neighbours(&self) -> Arc<Neighbours> {
        self.neighbours.clone()
    }

    /// Notes what a sandbox lets a script of a project write: where that really is.
    pub(crate) fn note_writable(&self, sandbox: &Sandbox, project: &Path) {
        let paths = sandbox.write.iter().flatten().map(|path| spots::resolved(&project.join(path)));
        self.neighbours.note_writable(self.temporary(), paths);
    }

    /// All that is noted so, also by the folders beside this one.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        self.neighbours.writable()
    }

    /// Whether a script in a sandbox may have written a file, or a link on the way to it, so that it
    /// must not be run outside.
    pub(crate) fn may_be_written(&self, file: &Path) -> bool {
        let writable = self.writable();
        !writable.is_empty() && spots::leads_into(file, &writable)
    }

    /// What the process keeps for itself: no script in a sandbox writes or reads it.
    pub(crate) fn private(&self) -> Vec<PathBuf> {
        self.neighbours.private()
    }

    /// Notes what is reserved for this folder.
    pub(crate) fn note_reserved(&self, reserved: Arc<Reserved>) {
        self.neighbours.note_reserved(self.temporary(), reserved);
    }

    /// What is reserved for the folders beside this one.
    pub(crate) fn reserved_beside(&self) -> Vec<Arc<Reserved>> {
        self.neighbours.reserved(self.temporary()).1
    }

    /// Why a sandbox must not be used as it is: it writes what another folder needs, which may have
    /// come after it, or reads what the process keeps for itself.
    pub(crate) fn refuses(&self, sandbox: &Sandbox) -> Option<String> {
        let (own, others) = self.neighbours.reserved(self.temporary());
        let own = own?;
        own.exposes(sandbox).or_else(|| own.refuses_beside(sandbox, &others))
    }

    /// A file nobody has used for an output yet.
    pub(crate) fn output_file(&self) -> PathBuf {
        self.folder().join("outputs").join(self.outputs.next_name())
    }

    /// A private folder for one call.
    pub(crate) fn call_folder(&self) -> io::Result<CallFolder> {
        CallFolder::new(&self.folder().join("calls"))
    }

    /// Keeps an output too long to be shown for its caller. Returns its URI.
    pub(crate) fn keep_output(
        &self,
        output: &run::Output,
        mime: &str,
        ctx: &Ctx,
        secrets: &[String],
    ) -> String {
        self.outputs.keep(self.output_file(), output, mime, ctx, secrets)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.neighbours.forget(self.temporary());
        self.remove();
    }
}
