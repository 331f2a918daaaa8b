//! Folders of a project as skills: a text for a model, and the files that go with it.

use crate::{
    call_files,
    content::LARGEST,
    project::{Project, scan},
};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use zcp::Skill;

/// The text every skill has.
const TEXT: &str = "SKILL.md";

/// The skills of a project, and what is wrong with them.
pub(crate) fn skills(project: &Project) -> (Vec<Skill>, Vec<String>) {
    let root = project.folder("skills");
    let (mut all, mut mistakes, places) = (vec![], vec![], project.places("skills"));
    let texts = scan::files(&root).into_iter().filter(|path| path.ends_with(TEXT));
    for folder in texts.filter_map(|text| text.parent().map(Path::to_path_buf)) {
        match skill(&folder, &root, &places) {
            Ok(skill) => all.push(skill),
            Err(why) => mistakes.push(format!("{}: {why}", folder.display())),
        }
    }
    (all, mistakes)
}

fn skill(folder: &Path, root: &Path, places: &[PathBuf]) -> Result<Skill, String> {
    let text = call_files::text_inside(&folder.join(TEXT), LARGEST, places);
    let text = text.map_err(|error| error.to_string())?;
    let path = relative(folder, root);
    let mut skill = Skill::new(path, frontmatter(&text)?);
    for file in scan::files(folder) {
        let bytes = call_files::read_inside(&file, LARGEST, places)
            .map_err(|error| format!("{}: {error}", file.display()))?;
        skill = skill.file(relative(&file, folder), bytes);
    }
    Ok(skill)
}

/// What a text says of itself at its top, between two lines of `---`.
fn frontmatter(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let front = text.strip_prefix("---\n").and_then(|rest| rest.split_once("\n---"));
    let (front, _) = front.ok_or("its text begins with no `---`, name and description")?;
    serde_saphyr::from_str(front).map_err(|error| error.to_string())
}

fn relative(path: &Path, root: &Path) -> String {
    let path: PathBuf = path.strip_prefix(root).unwrap_or(path).to_path_buf();
    let parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
    parts.collect::<Vec<_>>().join("/")
}
