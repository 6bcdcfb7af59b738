//! Looks at the folder: which files there are, and what stands in them now or stood there when it was last good.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::document::{self, Format, Objects};
use crate::secrets::SecretData;

/// No list of VMs is that long; a larger file is there by mistake.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Reads the folder and remembers what it read.
pub(super) struct FolderReader {
    dir: PathBuf,
    grace: Duration,
    files: BTreeMap<PathBuf, File>,
}

/// What is known of a file.
struct File {
    /// Of the text that was last read; the text itself may hold secrets.
    digest: Option<[u8; 32]>,
    objects: Arc<Objects>,
    /// Whether `objects` come from a text without a problem.
    is_good: bool,
    problem: Option<String>,
    /// Since when it is gone.
    missing_since: Option<Instant>,
}

/// The folder at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Scan {
    /// By path, and so by name.
    pub(super) files: BTreeMap<PathBuf, Seen>,
    /// A file has gone and must be looked for once more: editors take a file away and put another in its place.
    pub(super) needs_second_look: bool,
}

impl Scan {
    /// The Secret of that name, the first if there are several.
    pub(super) fn secret(&self, namespace: &str, name: &str) -> Option<&SecretData> {
        self.files.values().find_map(|seen| seen.objects.secret(namespace, name))
    }
}

/// What a file holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The objects that count.
    pub(super) objects: Arc<Objects>,
    /// What is wrong with the file now.
    pub(super) problem: Option<String>,
}

impl FolderReader {
    /// A file counts as deleted when it has been gone for `grace`.
    pub(super) fn new(dir: PathBuf, grace: Duration) -> Self {
        Self { dir, grace, files: BTreeMap::new() }
    }

    /// Looks at everything. Blocks.
    ///
    /// # Errors
    /// When the folder itself cannot be read, with the reason.
    pub(super) fn scan(&mut self) -> Result<Scan, String> {
        let paths = list(&self.dir)?;
        for (path, format) in &paths {
            match read(path) {
                Ok(text) => self.file(path).take(&text, *format),
                Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
                    self.file(path).is_unreadable(&"it is a link to nothing");
                }
                // Gone since it was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    if let Some(file) = self.files.get_mut(path) {
                        file.missing_since.get_or_insert_with(Instant::now);
                    }
                }
                Err(error) => self.file(path).is_unreadable(&error),
            }
        }
        let grace = self.grace;
        for (path, file) in &mut self.files {
            if !paths.contains_key(path) {
                file.missing_since.get_or_insert_with(Instant::now);
            }
        }
        self.files.retain(|_, file| file.missing_since.is_none_or(|since| since.elapsed() < grace));
        Ok(self.last())
    }

    fn file(&mut self, path: &Path) -> &mut File {
        self.files.entry(path.to_owned()).or_insert_with(File::unread)
    }

    fn last(&self) -> Scan {
        let seen = |file: &File| Seen { objects: file.objects.clone(), problem: file.problem.clone() };
        Scan {
            files: self.files.iter().map(|(path, file)| (path.clone(), seen(file))).collect(),
            needs_second_look: self.files.values().any(|file| file.missing_since.is_some()),
        }
    }
}

impl File {
    fn unread() -> Self {
        Self { digest: None, objects: Arc::default(), is_good: false, problem: None, missing_since: None }
    }

    fn take(&mut self, text: &str, format: Format) {
        self.missing_since = None;
        let digest: [u8; 32] = Sha256::digest(text).into();
        if self.digest == Some(digest) {
            return;
        }
        self.digest = Some(digest);
        let parsed = document::parse(text, format);
        let is_good = parsed.problem.is_none();
        // What is not readable could be any of the objects that stood there before, so all of them stay.
        if is_good || !self.is_good {
            let objects = match is_good {
                true => parsed.objects,
                false => parsed.objects.and_others_of(&self.objects),
            };
            self.objects = Arc::new(objects);
            self.is_good = is_good;
        }
        self.problem = parsed.problem.map(|problem| match self.is_good {
            true => format!("{problem}; the last good version goes on"),
            false => problem,
        });
    }

    fn is_unreadable(&mut self, error: &dyn Display) {
        self.missing_since = None;
        self.digest = None;
        self.problem = Some(format!("cannot be read: {error}"));
    }
}

/// The files that count, sorted by name. What begins with a dot does not: Kubernetes keeps the real files of a
/// mounted ConfigMap behind such names, and editors their drafts.
fn list(dir: &Path) -> Result<BTreeMap<PathBuf, Format>, String> {
    let describe = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => "does not exist".to_owned(),
        ErrorKind::NotADirectory => "is not a folder".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).map_err(describe)? {
        let path = entry.map_err(describe)?.path();
        let is_hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let extension = path.extension().and_then(|extension| extension.to_str());
        let format = match extension.map(str::to_ascii_lowercase).as_deref() {
            Some("yaml" | "yml") => Format::Yaml,
            Some("json") => Format::Json,
            _ => continue,
        };
        if !is_hidden && !path.is_dir() {
            found.insert(path, format);
        }
    }
    Ok(found)
}

fn read(path: &Path) -> std::io::Result<String> {
    // Looked at before it is opened: to open a pipe waits for a writer, for ever.
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(std::io::Error::other("it is larger than 4 MiB"));
    }
    Ok(text)
}
