//! What the servers saw: requests, connections, how much at once.

use std::collections::BTreeMap;

use super::service::{Operation, Service};

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests by service and operation, faulty ones included.
    pub requests: BTreeMap<(Service, Operation), u64>,
    /// TCP connections accepted, by service.
    pub connections: BTreeMap<Service, u64>,
    /// The most requests that were in flight at once, by service.
    pub max_in_flight: BTreeMap<Service, u64>,
    pub(crate) in_flight: BTreeMap<Service, u64>,
}

impl Counters {
    /// Requests of one operation.
    pub fn requests(&self, service: Service, operation: Operation) -> u64 {
        self.requests.get(&(service, operation)).copied().unwrap_or(0)
    }

    /// Requests of one service.
    pub fn requests_to(&self, service: Service) -> u64 {
        self.requests.iter().filter(|((to, _), _)| *to == service).map(|(_, count)| count).sum()
    }

    /// Requests of all services.
    pub fn total_requests(&self) -> u64 {
        self.requests.values().sum()
    }

    /// Connections accepted by one service.
    pub fn connections(&self, service: Service) -> u64 {
        self.connections.get(&service).copied().unwrap_or(0)
    }

    /// Connections accepted by all services.
    pub fn total_connections(&self) -> u64 {
        self.connections.values().sum()
    }

    /// The most requests that were in flight at once at one service.
    pub fn max_in_flight(&self, service: Service) -> u64 {
        self.max_in_flight.get(&service).copied().unwrap_or(0)
    }

    /// Requests being answered now.
    pub fn in_flight(&self, service: Service) -> u64 {
        self.in_flight.get(&service).copied().unwrap_or(0)
    }

    pub(crate) fn began(&mut self, service: Service, operation: Operation) {
        *self.requests.entry((service, operation)).or_default() += 1;
        let now = self.in_flight.entry(service).or_default();
        *now += 1;
        let max = self.max_in_flight.entry(service).or_default();
        *max = (*max).max(*now);
    }

    pub(crate) fn ended(&mut self, service: Service) {
        if let Some(now) = self.in_flight.get_mut(&service) {
            *now = now.saturating_sub(1);
        }
    }

    pub(crate) fn connected(&mut self, service: Service) {
        *self.connections.entry(service).or_default() += 1;
    }

    /// Starts anew; what is in flight stays counted as such.
    pub(crate) fn reset(&mut self) {
        self.requests.clear();
        self.connections.clear();
        self.max_in_flight = self.in_flight.clone();
    }
}
