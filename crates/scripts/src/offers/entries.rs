//! Entries `[tools.NAME]` of `zcp.toml`, and what scripts may say beside them.

use super::{FoundTool, Gathering};
use crate::manifest::Manifest;
use std::collections::HashMap;

impl Gathering {
    /// What a script says of itself, as far as its project lets it: what the project's defaults forbid,
    /// only the project itself allows.
    pub(super) fn restricted(&self, file: &str, said: Manifest) -> Manifest {
        let said = said.within(&self.project.defaults);
        match self.project.tools.get(file).and_then(|entry| entry.sandbox.as_ref()) {
            Some(_) => said.without_outside_secrets(),
            None => said,
        }
    }

    /// How many scripts have a file of each name. A setting for a name that several files share does
    /// not say which of them it means.
    pub(super) fn files_by_name(&mut self, scripts: &[FoundTool]) -> HashMap<String, usize> {
        let mut files = HashMap::new();
        for (found, _) in scripts {
            *files.entry(found.name.clone()).or_insert(0) += 1;
        }
        for name in self.project.tools.keys().filter(|&name| files.get(name) > Some(&1)) {
            self.mistakes.push(format!(
                "zcp.toml: [tools.{name}] could be for several files called `{name}`: it restricts \
                 all of them, and gives none of them variables or permissions. Rename the others"
            ));
        }
        files
    }
}
