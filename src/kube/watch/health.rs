//! How the watches are: for readiness, and one log line when that changes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Scope;

/// Longer than any watch may last in silence, with what comes between two of them.
const MAX_SILENCE: Duration = Duration::from_secs(5 * 60);

/// How the watches are.
pub struct WatchHealth {
    scopes: Mutex<BTreeMap<Scope, ScopeHealth>>,
}

struct ScopeHealth {
    is_listed: bool,
    trouble: Option<String>,
    heard_at: Instant,
}

/// What readiness is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchCheck {
    /// Every object that was there at the start is known.
    pub is_listed: bool,
    /// What is wrong now.
    pub problem: Option<String>,
}

impl WatchHealth {
    pub(super) fn new(scopes: impl Iterator<Item = Scope>) -> Self {
        let unlisted = || ScopeHealth { is_listed: false, trouble: None, heard_at: Instant::now() };
        Self { scopes: Mutex::new(scopes.map(|scope| (scope, unlisted())).collect()) }
    }

    fn scopes(&self) -> MutexGuard<'_, BTreeMap<Scope, ScopeHealth>> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, scope: &Scope, update: impl FnOnce(&mut ScopeHealth)) {
        if let Some(health) = self.scopes().get_mut(scope) {
            update(health);
        }
    }

    pub(super) fn listed(&self, scope: &Scope) {
        self.update(scope, |health| (health.is_listed, health.heard_at) = (true, Instant::now()));
    }

    pub(super) fn heard(&self, scope: &Scope) {
        self.update(scope, |health| health.heard_at = Instant::now());
    }

    /// Something keeps the watch from working. `problem` is stable, `detail` goes to the log only.
    pub(super) fn troubled(&self, scope: &Scope, problem: &str, detail: &str) {
        self.update(scope, |health| {
            if health.trouble.as_deref() != Some(problem) {
                tracing::warn!("watching the OpenstackConfigs of {scope}: {detail}; trying again");
                health.trouble = Some(problem.to_owned());
            }
        });
    }

    pub(super) fn well(&self, scope: &Scope) {
        self.update(scope, |health| {
            if health.trouble.take().is_some() {
                tracing::info!("watching the OpenstackConfigs of {scope}: in order again");
            }
        });
    }

    /// How they are now.
    pub fn check(&self) -> WatchCheck {
        self.check_at(Instant::now())
    }

    fn check_at(&self, now: Instant) -> WatchCheck {
        let scopes = self.scopes();
        let problem = |(scope, health): (&Scope, &ScopeHealth)| {
            let problem = match &health.trouble {
                Some(trouble) => trouble.as_str(),
                None if !health.is_listed => "the first list is under way",
                // Also when its task has died: nothing else would tell.
                None if now.saturating_duration_since(health.heard_at) > MAX_SILENCE => {
                    "nothing was heard for more than five minutes"
                }
                None => return None,
            };
            Some(format!("{scope}: {problem}"))
        };
        let problems: Vec<String> = scopes.iter().filter_map(problem).collect();
        WatchCheck {
            is_listed: scopes.values().all(|health| health.is_listed),
            problem: (!problems.is_empty()).then(|| problems.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(health: &WatchHealth, after: Duration) -> Option<String> {
        health.check_at(Instant::now() + after).problem
    }

    #[test]
    fn it_is_listed_when_every_scope_is() {
        let scopes = ["a", "b"].map(|name| Scope(Some(name.to_owned())));
        let health = WatchHealth::new(scopes.iter().cloned());
        health.listed(&scopes[0]);
        let expect = Some("namespace b: the first list is under way".to_owned());
        assert_eq!(health.check(), WatchCheck { is_listed: false, problem: expect });
        health.troubled(&scopes[1], "no", "no, and why");
        assert_eq!(health.check().problem.as_deref(), Some("namespace b: no"));
        health.listed(&scopes[1]);
        health.well(&scopes[1]);
        assert_eq!(health.check(), WatchCheck { is_listed: true, problem: None });
    }

    #[test]
    fn a_long_silence_is_a_problem() {
        let scope = Scope(None);
        let health = WatchHealth::new([scope.clone()].into_iter());
        health.listed(&scope);
        assert_eq!(problem(&health, Duration::from_secs(200)), None);
        let silent = "all namespaces: nothing was heard for more than five minutes";
        assert_eq!(problem(&health, Duration::from_secs(400)).as_deref(), Some(silent));
    }
}
