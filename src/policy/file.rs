//! The policy's file: read at the start, looked at again and again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use multinic_actors::supervision::AbortOnDrop;
use tokio::sync::watch;

use super::{Policy, PolicyHandle};

/// How often it is looked whether the file has changed. A mounted ConfigMap changes within a minute anyway.
const LOOK: Duration = Duration::from_secs(5);

/// A policy that follows its file.
pub struct PolicyFile {
    handle: PolicyHandle,
    problem: Arc<Mutex<Option<String>>>,
    _follower: AbortOnDrop,
}

impl PolicyFile {
    /// Reads the file and follows it.
    ///
    /// # Errors
    /// When it cannot be read or is no policy: there is no last good one yet.
    pub async fn open(path: &Path, own_viola: Option<&str>) -> Result<Self, String> {
        let text = read(path).await?;
        let policy = parse(path, &text)?;
        let (sender, policy) = watch::channel(Some(Arc::new(policy)));
        let problem = Arc::new(Mutex::new(None));
        let follower = follow(path.to_owned(), text, sender, Arc::clone(&problem));
        let own_viola = own_viola.map(Arc::from);
        let handle = PolicyHandle { policy, own_viola };
        Ok(Self { handle, problem, _follower: AbortOnDrop::spawn(follower) })
    }

    /// The policy as it is now.
    pub fn handle(&self) -> PolicyHandle {
        self.handle.clone()
    }

    /// Why the file as it is now does not count.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn follow(
    path: PathBuf,
    mut last: String,
    sender: watch::Sender<Option<Arc<Policy>>>,
    problem: Arc<Mutex<Option<String>>>,
) {
    let mut told = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let read = read(&path).await;
        let outcome = match &read {
            Ok(text) if *text == last => Ok(None),
            Ok(text) => parse(&path, text).map(Some),
            Err(problem) => Err(problem.clone()),
        };
        let now = match outcome {
            Ok(Some(policy)) => {
                tracing::info!("{}: a new policy counts from now on", path.display());
                last = read.unwrap_or_default();
                sender.send_replace(Some(Arc::new(policy)));
                None
            }
            Ok(None) => None,
            Err(problem) => Some(problem),
        };
        if now != told {
            match &now {
                Some(problem) => tracing::error!("{problem}; the policy read last goes on"),
                None => tracing::info!("{}: in order", path.display()),
            }
            problem.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&now);
            told = now;
        }
    }
}

async fn read(path: &Path) -> Result<String, String> {
    let read = tokio::fs::read_to_string(path).await;
    read.map_err(|error| format!("--policy-file {}: {error}", path.display()))
}

fn parse(path: &Path, text: &str) -> Result<Policy, String> {
    Policy::parse(text).map_err(|problem| format!("--policy-file {}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    fn rule(host: &str) -> String {
        format!("rules: [{{namespaces: [n], endpoints: [{host}]}}]")
    }

    async fn until(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..1000 {
            if is_so() {
                return;
            }
            tokio::time::sleep(LOOK).await;
            // The file is read by a thread that knows no paused time.
            tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1))).await.unwrap();
        }
        panic!("never: {what}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_file_counts_and_a_bad_one_leaves_the_last_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        let error = PolicyFile::open(&path, None).await.err().unwrap();
        assert!(error.starts_with(&format!("--policy-file {}: ", path.display())), "{error}");
        std::fs::write(&path, rule("a")).unwrap();
        let file = PolicyFile::open(&path, None).await.unwrap();
        let handle = file.handle();
        let permits =
            |host: &str| handle.permits("n", &Url::parse(&format!("http://{host}")).unwrap()).is_ok();
        assert!(permits("a") && !permits("b"));
        std::fs::write(&path, rule("b")).unwrap();
        until("b is permitted", || permits("b")).await;
        assert!(!permits("a"));
        std::fs::write(&path, "rules: nonsense").unwrap();
        until("it is reported", || file.problem().is_some()).await;
        assert!(permits("b"));
        std::fs::write(&path, rule("c")).unwrap();
        until("c is permitted", || permits("c") && file.problem().is_none()).await;
    }
}
