//! The sources of the last commit in a folder of their own, in which one protection at a time is
//! taken out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use asm_tests::protections::{Protection, marks};

use crate::Result;

/// The sources, and the folder of what is built from them.
pub struct Tree {
    /// The root of the sources.
    pub root: PathBuf,
    /// Where everything is that does not belong to the sources.
    pub dir: PathBuf,
}

/// The text of each file before it was changed. Dropping it puts that back.
pub struct ChangedFiles(Vec<(PathBuf, String)>);

impl Tree {
    /// Checks out the last commit. What is the same as the last time is left alone, so that builds
    /// stay fresh.
    pub fn check_out(dir: Option<PathBuf>) -> Result<Self> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let dir = std::path::absolute(dir.unwrap_or_else(|| repository.join("target/protections")))?;
        let root = dir.join("tree");
        fs::create_dir_all(&root)?;
        be_alone(&dir)?;
        let git = |words: &[&str]| -> Result<String> {
            let mut git = Command::new("git");
            git.current_dir(&repository).args(words);
            // An index of its own: the repository's is about another folder.
            git.env("GIT_WORK_TREE", &root)
                .env("GIT_INDEX_FILE", dir.join("index"));
            let done = git.output()?;
            match done.status.success() {
                true => Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
                false => Err(format!("git {words:?}: {}", String::from_utf8_lossy(&done.stderr)).into()),
            }
        };
        let git_dir = git(&["rev-parse", "--absolute-git-dir"])?;
        let git_dir = format!("--git-dir={git_dir}");
        git(&[&git_dir, "read-tree", "--reset", "-u", "HEAD"])?;
        println!("{}", git(&[&git_dir, "log", "-1", "--format=%h %s"])?);
        Ok(Self { root, dir })
    }

    /// Takes a protection out, as long as the result lives.
    pub fn take_out(&self, one: &Protection) -> Result<ChangedFiles> {
        let mut taken = ChangedFiles(Vec::new());
        let marks = marks(&self.root)?;
        for edit in &one.edits {
            let path = marks.get(&edit.mark);
            let path = path
                .ok_or_else(|| format!("nothing is marked as {}", edit.mark))?
                .clone();
            let before = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let after = edit.apply(&before)?;
            fs::write(&path, after)?;
            taken.0.push((path, before));
        }
        Ok(taken)
    }
}

impl Drop for ChangedFiles {
    fn drop(&mut self) {
        for (path, before) in self.0.iter().rev() {
            if let Err(error) = fs::write(path, before) {
                println!("{}: {error}", path.display());
            }
        }
    }
}

/// Refuses to work in a folder in which another process does.
fn be_alone(dir: &Path) -> Result<()> {
    let mark = dir.join("process");
    if let Ok(other) = fs::read_to_string(&mark) {
        if Path::new("/proc").join(other.trim()).join("exe").exists() {
            return Err(format!(
                "process {other} is at it in {}: wait, or give --dir",
                dir.display()
            )
            .into());
        }
    }
    Ok(fs::write(mark, std::process::id().to_string())?)
}
