//! How often an account may be refused before we stop trying: clouds lock accounts, and many configs
//! share one administrator.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::fingerprint::Fingerprint;

/// Refused logins per account within [`WINDOW`], over all configs. Keystone's own lockout, where it is
/// used, is usually 5 or more.
const MOST: usize = 4;
/// Of these, how many are left to projects that the password was not tried with: Keystone refuses a
/// project that does not exist as it refuses a password, and the mended object must get its chance.
const LEFT_TO_OTHERS: usize = 1;
/// For how long a refusal counts.
const WINDOW: Duration = Duration::from_secs(600);
/// Below this number of accounts none is forgotten.
const SMALL: usize = 64;

/// One attempt, by fingerprints only.
#[derive(Clone, Copy, Debug)]
pub(super) struct Try {
    /// Keystone, domain and user.
    pub(super) account: Fingerprint,
    pub(super) password: Fingerprint,
    pub(super) project: Fingerprint,
    /// The same password opened the same project before.
    pub(super) is_renewal: bool,
}

/// The budgets of all accounts.
#[derive(Debug, Default)]
pub(super) struct Budgets {
    accounts: Mutex<HashMap<Fingerprint, Arc<Ledger>>>,
}

/// No attempt for now: until an old refusal stops to count, or the password is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Budgets {
    /// Leave for one attempt. Waits while others' attempts could still use up the budget.
    pub(super) async fn admit(&self, attempt: Try) -> Result<Attempt, Exhausted> {
        let ledger = self.ledger(attempt.account);
        loop {
            let landed = ledger.landed.notified();
            tokio::pin!(landed);
            landed.as_mut().enable();
            match ledger.lock().judge(&attempt) {
                Judgement::Go => break,
                Judgement::Stop => return Err(Exhausted),
                Judgement::Wait => {}
            }
            landed.await;
        }
        Ok(Attempt { ledger, attempt })
    }

    fn ledger(&self, account: Fingerprint) -> Arc<Ledger> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if accounts.len() >= SMALL {
            accounts.retain(|_, ledger| Arc::strong_count(ledger) > 1 || !ledger.lock().is_forgettable());
        }
        Arc::clone(accounts.entry(account).or_default())
    }
}

#[derive(Debug, Default)]
struct Ledger {
    entries: Mutex<Entries>,
    landed: Notify,
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Entries {
    refusals: Vec<Refusal>,
    /// Passwords of attempts under way.
    flying: Vec<Fingerprint>,
    /// The password that was accepted last.
    good: Option<Fingerprint>,
}

#[derive(Clone, Copy, Debug)]
struct Refusal {
    at: Instant,
    password: Fingerprint,
    project: Fingerprint,
    /// The password is good, so the project or the role in it is not.
    is_of_project: bool,
}

impl Refusal {
    fn is_like(&self, attempt: &Try) -> bool {
        self.password == attempt.password && self.project == attempt.project
    }
}

enum Judgement {
    Go,
    Wait,
    Stop,
}

impl Entries {
    fn judge(&mut self, attempt: &Try) -> Judgement {
        self.refusals.retain(|refusal| refusal.at.elapsed() < WINDOW);
        let is_good = self.good == Some(attempt.password);
        let counted: Vec<Refusal> = self
            .refusals
            .iter()
            .filter(|refusal| if refusal.is_of_project { refusal.is_like(attempt) } else { !is_good })
            .copied()
            .collect();
        let is_new = !counted.iter().any(|refusal| refusal.password == attempt.password)
            && !self.flying.contains(&attempt.password);
        // A changed password gets its chance also when the old one used everything up.
        let was_tried = !is_good && counted.iter().any(|refusal| refusal.is_like(attempt));
        let most = if was_tried { MOST - LEFT_TO_OTHERS } else { MOST };
        let may_go = is_new || counted.len() + if is_good { 0 } else { self.flying.len() } < most;
        if may_go {
            self.flying.push(attempt.password);
            return Judgement::Go;
        }
        if counted.len() < most || !self.flying.is_empty() {
            return Judgement::Wait;
        }
        Judgement::Stop
    }

    fn is_forgettable(&self) -> bool {
        self.flying.is_empty() && self.refusals.iter().all(|refusal| refusal.at.elapsed() >= WINDOW)
    }
}

/// An attempt under way. Dropped without a verdict (no answer came), it counts as nothing.
#[derive(Debug)]
pub(super) struct Attempt {
    ledger: Arc<Ledger>,
    attempt: Try,
}

impl Attempt {
    /// Keystone gave a token.
    pub(super) fn accepted(self) {
        let mut entries = self.ledger.lock();
        let password = self.attempt.password;
        entries.good = Some(password);
        let project = self.attempt.project;
        entries.refusals.retain(|refusal| {
            refusal.password != password || (refusal.is_of_project && refusal.project != project)
        });
    }

    /// Keystone answered 401.
    pub(super) fn refused(self) {
        let mut entries = self.ledger.lock();
        let Try { password, project, is_renewal, .. } = self.attempt;
        let was_good = entries.good == Some(password);
        if was_good && is_renewal {
            // What worked works no more: the password was changed, or the user was disabled.
            entries.good = None;
        }
        entries.refusals.push(Refusal {
            at: Instant::now(),
            password,
            project,
            is_of_project: was_good && !is_renewal,
        });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut entries = self.ledger.lock();
        if let Some(place) = entries.flying.iter().position(|password| *password == self.attempt.password) {
            entries.flying.swap_remove(place);
        }
        drop(entries);
        self.ledger.landed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(password: &str, project: &str) -> Try {
        Try {
            account: Fingerprint::of(&["http://k", "default", "admin"]),
            password: Fingerprint::of(&[password]),
            project: Fingerprint::of(&[project]),
            is_renewal: false,
        }
    }

    async fn refused(budgets: &Budgets, password: &str, project: &str) -> bool {
        match budgets.admit(attempt(password, project)).await {
            Ok(attempt) => {
                attempt.refused();
                true
            }
            Err(_) => false,
        }
    }

    async fn exhaust(budgets: &Budgets) {
        for project in 0..MOST {
            assert!(refused(budgets, "wrong", &project.to_string()).await);
        }
        assert!(!refused(budgets, "wrong", "p").await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_handful_of_refusals_per_account_whatever_the_project() {
        exhaust(&Budgets::default()).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_project_that_does_not_exist_leaves_an_attempt_to_the_right_one() {
        let budgets = Budgets::default();
        while refused(&budgets, "right", "no-such-project").await {}
        budgets.admit(attempt("right", "good")).await.unwrap().accepted();
        budgets.admit(attempt("right", "another")).await.unwrap().accepted();
    }

    #[tokio::test(start_paused = true)]
    async fn it_reopens_after_a_while() {
        let budgets = Budgets::default();
        exhaust(&budgets).await;
        tokio::time::sleep(WINDOW).await;
        assert!(refused(&budgets, "wrong", "p").await);
    }

    #[tokio::test(start_paused = true)]
    async fn it_reopens_for_another_password() {
        let budgets = Budgets::default();
        exhaust(&budgets).await;
        budgets.admit(attempt("right", "p")).await.unwrap().accepted();
        assert!(!refused(&budgets, "wrong", "p").await, "the old one stays shut");
        for _ in 0..10 {
            budgets.admit(attempt("right", "p")).await.unwrap().accepted();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_at_the_same_time_share_the_budget() {
        let budgets = Budgets::default();
        let mut flying = Vec::new();
        for project in 0..MOST {
            flying.push(budgets.admit(attempt("wrong", &project.to_string())).await.unwrap());
        }
        let last = attempt("wrong", "last");
        let mut waits = Box::pin(budgets.admit(last));
        assert!(futures::poll!(&mut waits).is_pending());
        flying.drain(..).for_each(Attempt::refused);
        assert!(waits.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_without_an_answer_costs_nothing() {
        let budgets = Budgets::default();
        for _ in 0..20 {
            drop(budgets.admit(attempt("wrong", "p")).await.unwrap());
        }
        exhaust(&budgets).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_project_without_a_role_does_not_shut_out_the_others() {
        let budgets = Budgets::default();
        budgets.admit(attempt("right", "good")).await.unwrap().accepted();
        for _ in 0..MOST {
            assert!(refused(&budgets, "right", "forbidden").await);
        }
        assert!(!refused(&budgets, "right", "forbidden").await);
        budgets.admit(attempt("right", "another")).await.unwrap().accepted();
    }

    #[tokio::test(start_paused = true)]
    async fn a_password_that_stops_to_work_counts_against_the_account() {
        let budgets = Budgets::default();
        budgets.admit(attempt("right", "p")).await.unwrap().accepted();
        let renewal = Try { is_renewal: true, ..attempt("right", "p") };
        budgets.admit(renewal).await.unwrap().refused();
        for project in 1..MOST {
            assert!(refused(&budgets, "right", &project.to_string()).await);
        }
        assert!(!refused(&budgets, "right", "p").await);
    }
}
