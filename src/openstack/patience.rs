//! When a 401 from a service is worth a login. A token that worked before is: it was revoked or has ended.
//! One that was got because of a 401 and is refused as well is not, until some time has passed: access
//! rules, or a service that cannot verify tokens, refuse every one.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::keystone::Token;
use super::service::Service;

/// How old a refused token gets before the next login, doubled with every one in a row.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// What each service thought of our tokens.
#[derive(Debug, Default)]
pub(super) struct Patience {
    services: Mutex<[Refusals; Service::ALL.len()]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Refusals {
    /// Tokens refused in a row.
    tokens: u32,
    /// The last of them.
    last: Option<u64>,
}

impl Patience {
    /// The service took a token.
    pub(super) fn accepted(&self, service: Service) {
        self.entries()[service.index()] = Refusals::default();
    }

    /// The service refused the current token: is a new one worth a login?
    pub(super) fn may_renew(&self, service: Service, token: &Token) -> bool {
        self.judge(service, token.serial, token.age())
    }

    fn judge(&self, service: Service, serial: u64, age: Duration) -> bool {
        let refusals = &mut self.entries()[service.index()];
        // Two requests that were under way with the same token make one refusal.
        if refusals.last == Some(serial) {
            return true;
        }
        let wait = match refusals.tokens {
            0 => Duration::ZERO,
            n => FIRST.saturating_mul(1 << (n - 1).min(10)).min(LONGEST),
        };
        if age < wait {
            return false;
        }
        refusals.tokens += 1;
        refusals.last = Some(serial);
        true
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, [Refusals; Service::ALL.len()]> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn a_refused_token_is_replaced_at_once_and_a_fresh_one_is_not() {
        let patience = Patience::default();
        assert!(patience.judge(Service::Neutron, 1, NOW));
        assert!(patience.judge(Service::Neutron, 1, NOW), "a second request with the same token");
        assert!(!patience.judge(Service::Neutron, 2, NOW));
        assert!(patience.judge(Service::Nova, 2, NOW), "another service judges for itself");
    }

    #[test]
    fn a_service_that_refuses_everything_costs_fewer_and_fewer_logins() {
        let patience = Patience::default();
        assert!(patience.judge(Service::Neutron, 1, NOW));
        assert!(patience.judge(Service::Neutron, 2, FIRST));
        assert!(!patience.judge(Service::Neutron, 3, FIRST));
        assert!(patience.judge(Service::Neutron, 3, 2 * FIRST));
        for serial in 4..60 {
            assert!(patience.judge(Service::Neutron, serial, LONGEST));
        }
    }

    #[test]
    fn an_accepted_token_clears_the_account() {
        let patience = Patience::default();
        assert!(patience.judge(Service::Neutron, 1, NOW));
        patience.accepted(Service::Neutron);
        assert!(patience.judge(Service::Neutron, 2, NOW));
    }
}
