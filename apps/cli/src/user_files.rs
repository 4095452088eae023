//! Reads and replaces files that a user names, with errors in plain words that begin with the file's name.

use std::io::{self, ErrorKind, Read, Write as _};
use std::path::Path;
use std::time::SystemTime;

use triad_workflow::load::{LoadError, NamedText};

use crate::output::Usage;

/// The folder beside workflow files that has the descriptions of services.
pub const AGENTS: &str = "agents";
/// Most files of that folder that are looked at for a change, inclusive.
const MAX_DESCRIPTIONS: usize = 1_000;

/// The name of a file for people.
pub fn display_path(file: &Path) -> String {
    match file.as_os_str() == "-" {
        true => "standard input".to_owned(),
        false => file.display().to_string(),
    }
}

/// The text of a file; of standard input for `-`.
///
/// # Errors
/// [`Usage`] with the file's name and why it cannot be read.
pub fn text(file: &Path) -> Result<String, Usage> {
    text_or_why(file).map_err(|why| Usage(format!("{}: {why}", display_path(file))))
}

/// The text of a file, as [`text`] reads it, but with the reason alone as error.
///
/// # Errors
/// Why the file cannot be read, without its name.
pub fn text_or_why(file: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = match file.as_os_str() == "-" {
        true => io::stdin().lock().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(file).map(|read| bytes = read),
    };
    read.map_err(|e| why(file, &e))?;
    String::from_utf8(bytes).map_err(|e| {
        let good = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("is not UTF-8 in line {line}: save it as plain text in UTF-8")
    })
}

/// Name and text of the description of an agent's service: the file `agents/NAME.yaml` beside the workflow file, or
/// `agents/NAME.yml`. `None` if there is neither, or the workflow came from standard input.
///
/// # Errors
/// Why the file cannot be read.
pub fn description(workflow: &Path, agent: &str) -> Result<Option<NamedText>, LoadError> {
    if workflow.as_os_str() == "-" {
        return Ok(None);
    }
    let folder = workflow.parent().unwrap_or(Path::new("")).join(AGENTS);
    for ending in ["yaml", "yml"] {
        let file = folder.join(format!("{agent}.{ending}"));
        if file.is_file() {
            let shown = file.display().to_string();
            let text = text_or_why(&file).map_err(|why| LoadError::whole_file(&shown, why))?;
            return Ok(Some((shown, text)));
        }
    }
    Ok(None)
}

/// The latest change of a file, or of files that belong together, and their bytes. `None`: there is no file.
pub type FileStamp = Option<(SystemTime, u64)>;

/// The stamp of a file.
pub fn stamp(file: &Path) -> FileStamp {
    let about = std::fs::metadata(file).ok()?;
    Some((about.modified().ok()?, about.len()))
}

/// The stamp of a workflow file and of the descriptions of services beside it: a change of one of them makes another
/// version.
pub fn stamp_with_descriptions(workflow: &Path) -> FileStamp {
    let own = stamp(workflow)?;
    let agents = workflow.parent().unwrap_or(Path::new("")).join(AGENTS);
    let beside = std::fs::read_dir(agents).into_iter().flatten();
    let beside = beside.filter_map(|entry| stamp(&entry.ok()?.path()));
    Some(beside.take(MAX_DESCRIPTIONS).fold(own, |all, one| {
        (all.0.max(one.0), all.1.wrapping_add(one.1))
    }))
}

/// Replaces the whole text of a file, or makes the file. If that fails, the old file stays as it was.
///
/// # Errors
/// The system's error.
pub fn replace(file: &Path, text: &str) -> io::Result<()> {
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut new = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    new.write_all(text.as_bytes())?;
    new.persist(file)?;
    Ok(())
}

/// Why a file cannot be read, in plain words, with the next step.
pub fn why(file: &Path, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound if file.is_relative() => {
            let here = std::env::current_dir().unwrap_or_default();
            format!("there is no such file in {}", here.display())
        }
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::PermissionDenied => {
            "you may not read it: look at its permissions (ls -l)".to_owned()
        }
        ErrorKind::IsADirectory => "is a directory: name a file in it".to_owned(),
        _ => format!("cannot be read: {}", plain(error)),
    }
}

/// The system's text for a fault, without its number.
pub fn plain(error: &io::Error) -> String {
    let said = error.to_string();
    match said.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_in_plain_words() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |name: &str| text(&dir.path().join(name)).expect_err(name).to_string();
        std::fs::write(dir.path().join("latin"), b"a\nb\nMagdal\xe9na\n").expect("a file");
        let said = of("latin");
        assert!(
            said.ends_with("latin: is not UTF-8 in line 3: save it as plain text in UTF-8"),
            "{said}"
        );
        assert!(of("none").ends_with("none: there is no such file"));
        assert!(of("").ends_with(": is a directory: name a file in it"));
        let said = text(Path::new("no-such-file")).expect_err("it is not there");
        let here = std::env::current_dir().expect("a directory");
        let expected = format!("no-such-file: there is no such file in {}", here.display());
        assert_eq!(said.to_string(), expected);
    }
}
