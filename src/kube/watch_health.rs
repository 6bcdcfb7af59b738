//! How the watch is, for readiness and the log.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::known::Scope;

/// Why objects cannot be followed for now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Trouble {
    /// The API server does not know the resource.
    #[error("{0}")]
    NoResource(String),
    /// The API server does not let us.
    #[error("{0}")]
    Forbidden(String),
    /// Anything else.
    #[error("{0}")]
    Away(String),
}

#[derive(Default)]
struct State {
    was_listed: bool,
    trouble: Option<Trouble>,
}

/// How the watch of every scope is.
#[derive(Clone)]
pub struct WatchHealth(Arc<Mutex<BTreeMap<Scope, State>>>);

impl WatchHealth {
    pub(super) fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        let states = scopes.into_iter().map(|scope| (scope, State::default())).collect();
        Self(Arc::new(Mutex::new(states)))
    }

    /// Whether all objects were read at least once.
    pub fn is_synced(&self) -> bool {
        self.states().values().all(|state| state.was_listed)
    }

    /// What is wrong now.
    pub fn problem(&self) -> Option<String> {
        let states = self.states();
        let problems: Vec<String> = states
            .iter()
            .filter_map(|(scope, state)| Some((scope, state.trouble.as_ref()?)))
            .map(|(scope, trouble)| match scope {
                Some(namespace) => format!("namespace {namespace}: {trouble}"),
                None => trouble.to_string(),
            })
            .collect();
        (!problems.is_empty()).then(|| problems.join("; "))
    }

    pub(super) fn listed(&self, scope: &Scope) {
        if let Some(state) = self.states().get_mut(scope) {
            state.was_listed = true;
        }
    }

    pub(super) fn good(&self, scope: &Scope) {
        if let Some(state) = self.states().get_mut(scope)
            && state.trouble.take().is_some()
        {
            tracing::info!(namespace = scope.as_deref(), "the objects are followed again");
        }
    }

    /// One line when a kind of trouble begins, not one per try.
    pub(super) fn bad(&self, scope: &Scope, trouble: Trouble) {
        if let Some(state) = self.states().get_mut(scope) {
            let is_new =
                state.trouble.as_ref().is_none_or(|before| discriminant(before) != discriminant(&trouble));
            if is_new {
                tracing::warn!(namespace = scope.as_deref(), "the objects are not followed: {trouble}");
            }
            state.trouble = Some(trouble);
        }
    }

    /// Says that nobody watches any more when it is dropped, however that came about.
    pub(super) fn watch_end(&self, scope: &Scope) -> impl Drop + use<> {
        WatchEnd(self.clone(), scope.clone())
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<Scope, State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct WatchEnd(WatchHealth, Scope);

impl Drop for WatchEnd {
    fn drop(&mut self) {
        if let Some(state) = self.0.states().get_mut(&self.1) {
            state.trouble = Some(Trouble::Away("the watch has ended".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_comes_and_goes_and_a_watch_that_ended_is_trouble() {
        let scope = Some("n".to_owned());
        let health = WatchHealth::new([scope.clone()]);
        assert!(!health.is_synced());
        health.listed(&scope);
        assert!(health.is_synced());
        let end = health.watch_end(&scope);
        health.bad(&scope, Trouble::Away("gone".into()));
        assert_eq!(health.problem().as_deref(), Some("namespace n: gone"));
        health.good(&scope);
        assert_eq!(health.problem(), None);
        drop(end);
        assert_eq!(health.problem().as_deref(), Some("namespace n: the watch has ended"));
    }
}
