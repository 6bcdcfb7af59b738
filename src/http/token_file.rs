//! A bearer token in a file, as a mounted Secret gives it: it may change while the process runs.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;
use zeroize::Zeroizing;

/// How long a token outlives its file: as long as it takes to put a new one there, however clumsily.
const ROTATION_GAP: Duration = Duration::from_secs(3);

/// A file that holds one token.
#[derive(Clone)]
pub struct TokenFile {
    path: Arc<PathBuf>,
    /// The last token and when it was read.
    last: Arc<Mutex<Option<(SecretString, Instant)>>>,
}

/// There is no token to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("token file {path}: {problem}")]
pub struct TokenFileError {
    path: String,
    problem: String,
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TokenFile").field(&self.path).finish()
    }
}

impl TokenFile {
    /// The token in the file `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: Arc::new(path.into()), last: Arc::default() }
    }

    /// The token that the file holds now, without the white space round it. It is small and read each time,
    /// so that a new one counts at once. While it cannot be read (it is being replaced) the last one serves
    /// for some seconds more; who removes the file takes the token back.
    ///
    /// # Errors
    /// When the file cannot be read or is empty, and held no token a moment ago.
    pub async fn token(&self) -> Result<SecretString, TokenFileError> {
        let read = tokio::fs::read_to_string(&*self.path).await.map(Zeroizing::new);
        let problem = match read {
            Ok(text) if text.trim().is_empty() => "it is empty".to_owned(),
            Ok(text) => {
                let token = SecretString::from(text.trim());
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((token.clone(), Instant::now()));
                return Ok(token);
            }
            Err(error) => error.to_string(),
        };
        self.recent().ok_or_else(|| TokenFileError { path: self.path.display().to_string(), problem })
    }

    /// The last token, if it was there a moment ago.
    fn recent(&self) -> Option<SecretString> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|(_, read_at)| read_at.elapsed() >= ROTATION_GAP);
        last.as_ref().map(|(token, _)| token.clone())
    }
}

/// Whether two texts are the same, in a time that does not tell how much of them is.
pub(super) fn is_same_secret(given: &str, expected: &SecretString) -> bool {
    use sha2::{Digest, Sha256};
    use subtle::ConstantTimeEq;
    // Digests have one length, so the length of the token does not show either.
    let digest = |text: &str| Sha256::digest(text.as_bytes());
    digest(given).as_slice().ct_eq(digest(expected.expose_secret()).as_slice()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_new_token_counts_at_once_and_a_lost_file_revokes_it_after_a_short_gap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let file = TokenFile::new(&path);
        assert!(file.token().await.is_err(), "never read");
        for token in ["one", "two"] {
            std::fs::write(&path, format!(" {token}\n")).unwrap();
            assert_eq!(file.token().await.unwrap().expose_secret(), token);
        }
        std::fs::write(&path, "\n").unwrap();
        assert_eq!(file.token().await.unwrap().expose_secret(), "two");
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.token().await.unwrap().expose_secret(), "two");
        assert!(!format!("{file:?}").contains("two"));
        tokio::time::advance(ROTATION_GAP).await;
        let error = file.token().await.unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
        std::fs::write(&path, "three").unwrap();
        assert_eq!(file.token().await.unwrap().expose_secret(), "three");
        tokio::time::advance(ROTATION_GAP * 100).await;
        std::fs::remove_file(&path).unwrap();
        assert!(file.token().await.is_err(), "it was not asked for in between, and may be gone for long");
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let expected = SecretString::from("secret-token");
        for (given, is_same) in
            [("secret-token", true), ("secret-toke", false), ("secret-tokenx", false), ("", false)]
        {
            assert_eq!(is_same_secret(given, &expected), is_same, "{given}");
        }
    }
}
