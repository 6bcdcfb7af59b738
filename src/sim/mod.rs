//! A simulated cloud on loopback, for `demo` and for the tests: Contrabass,
//! Keystone, Neutron and Nova that answer as recorded from real ones, and a Viola
//! in memory.
//!
//! - Every service has a port of its own (any free one, or a given one).
//! - The handles, [`SimCloud`] and [`SimViola`], are plain synchronous methods over
//!   one lock: what a method changed, the next request sees.
//! - The servers live on threads of their own, so the handles work from any
//!   runtime, a paused or blocked one too.
//! - Ids, MACs and the dice of the faults come from a seed; clouds with different
//!   seeds have different ids.
//! - Faults ([`FaultRule`]) hit by service, operation, text, turn, page or chance.
//! - [`Counters`] say how many requests and TCP connections there were.

mod catalog;
mod cloud;
mod contrabass;
mod control;
mod counters;
mod exchange;
mod faults;
mod front_end;
mod identity;
mod ids;
mod keystone;
mod keystone_login;
mod neutron;
mod neutron_json;
mod neutron_list;
mod nova;
mod nova_json;
mod objects;
mod pipeline;
mod server;
mod service;
mod truth;
mod viola;
mod world;

pub use catalog::{Catalog, CatalogService, Endpoint};
pub use cloud::{Ports, Settings, SimCloud, serve};
pub use contrabass::encrypt;
pub use counters::Counters;
pub use faults::{Fault, FaultId, FaultRule, When};
pub use front_end::FrontEnd;
pub use identity::AppCredentialSecret;
pub use objects::{CreatedAt, FixedIp, Network, Port, PortSpec, Project, Server, Subnet};
pub use server::Reachability;
pub use service::{Operation, Service};
pub use truth::{ExpectedNic, ExpectedNodes, Truth};
pub use viola::{Post, Refusal, SimViola, ViolaAnswer};
pub use world::PageLinks;
