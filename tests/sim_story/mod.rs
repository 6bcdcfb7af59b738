//! A small cloud to tell stories about.

#![allow(dead_code)] // Each test binary uses its own part of it.

use multinic_operator::sim::{Fault, FaultRule, Operation, PortSpec, Service, Settings, SimCloud};
use serde_json::json;

use crate::sim_client::{Reply, get, request};

/// A project with a user, a network, a subnet, a server, and ports on it.
pub struct Story {
    pub cloud: SimCloud,
    pub project: String,
    pub network: String,
    pub subnet: String,
    pub server: String,
    pub user: String,
}

impl Story {
    pub fn new() -> Self {
        let cloud = SimCloud::start_with(Settings::default()).unwrap();
        let project = cloud.add_project("p");
        let user = cloud.add_user("u", "pw");
        cloud.grant(&user, &project, "member");
        let network = cloud.add_network(&project, "net", 1450);
        let subnet = cloud.add_subnet(&network, "sub", "10.0.0.0/24");
        let server = cloud.add_server(&project, "Node-1", &[]);
        Self { cloud, project, network, subnet, server, user }
    }

    pub fn with_ports(count: usize) -> Self {
        let story = Self::new();
        (0..count).for_each(|_| drop(story.add_port()));
        story
    }

    pub fn add_port(&self) -> String {
        self.cloud.add_port(PortSpec::new(&self.network).server(&self.server).subnet(&self.subnet))
    }

    pub fn neutron(&self) -> String {
        self.cloud.url(Service::Neutron)
    }

    pub fn log_in(&self) -> Reply {
        let user = json!({"name": "u", "domain": {"name": "default"}, "password": "pw"});
        let identity = json!({"methods": ["password"], "password": {"user": user}});
        let body = json!({"auth": {"identity": identity, "scope": {"project": {"id": self.project}}}});
        request(&self.cloud.url(Service::Keystone), "POST", "/v3/auth/tokens", &[], &body.to_string())
            .unwrap()
    }

    pub fn token(&self) -> String {
        self.log_in().header("x-subject-token").unwrap().to_owned()
    }

    pub fn ports(&self, token: &str) -> std::io::Result<Reply> {
        get(&self.neutron(), "/v2.0/ports", token)
    }

    pub fn fault(&self, operation: Operation, fault: Fault) {
        self.cloud.add_fault(FaultRule::new(fault).operation(operation));
    }
}
