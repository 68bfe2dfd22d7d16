//! Pictures of what was measured: of the JSON that the pages `latency` and `scale` write.

mod curves;
mod stages;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The pictures, and where they go.
pub struct Pictures {
    /// What `latency --json` wrote.
    pub latency: PathBuf,
    /// What `scale --json` wrote.
    pub scale: PathBuf,
    /// When, and on what machine: shown in each picture.
    pub caption: String,
    /// The folder of `latency.svg` and `scale.svg`.
    pub folder: PathBuf,
}

impl Pictures {
    /// Draws them.
    ///
    /// # Errors
    /// A file cannot be read or written, or is not what those pages write.
    pub fn draw(&self) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(&self.folder)?;
        let latency = read(&self.latency)?;
        stages::draw(&self.folder.join("latency.svg"), &latency, &self.caption)?;
        let scale = read(&self.scale)?;
        curves::draw(&self.folder.join("scale.svg"), &scale, &self.caption)
    }
}

fn read(path: &Path) -> Result<Vec<Value>, Box<dyn Error>> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    match serde_json::from_str(&text)? {
        Value::Array(list) => Ok(list),
        _ => Err(format!("{}: not a list", path.display()).into()),
    }
}

/// A text of an entry.
fn text<'v>(entry: &'v Value, name: &str) -> Result<&'v str, String> {
    entry[name]
        .as_str()
        .ok_or_else(|| format!("no {name} in {entry}"))
}

/// A number of an entry.
fn number(entry: &Value, name: &str) -> Result<f64, String> {
    entry[name]
        .as_f64()
        .ok_or_else(|| format!("no {name} in {entry}"))
}
