//! Against real services, where there are some: `SEED` names a JSON file that says what there is
//! (`auth_url`, `user_name`, `password`, `project_id`, `subnets`, `servers`, `ports`), as the seeding script
//! of the test cloud prints it.

use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use axum::routing::get;
use multinic_actors::domain::config::{Config, CredentialSource, SubnetSelector};
use multinic_actors::domain::ids::{ProjectId, SubnetId, VmId};
use multinic_actors::domain::port::Server;
use multinic_actors::domain::reason::Reason;
use multinic_operator::openstack::OpenstackSettings;
use serde_json::{Value, json};

use super::bench::{Bench, generous};
use super::fake::{KEY, seal};

struct Real {
    bench: Bench,
    seed: Value,
    config: Config,
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

impl Real {
    async fn start() -> Self {
        Self::on(Bench::start().await).await
    }

    async fn on(bench: Bench) -> Self {
        let path = std::env::var("SEED").unwrap();
        let seed: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let provider = json!({"data": {"url": text(&seed, "auth_url"), "attributes": {
            "adminId": text(&seed, "user_name"), "adminPw": seal(KEY, text(&seed, "password")), "domain": "default",
        }}});
        let path = "/v1/contrabass/admin/infra/provider/{id}";
        let contrabass = Router::new().route(path, get(move || std::future::ready(provider.to_string())));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, contrabass).await.unwrap() });

        let list = |key: &str| seed[key].as_array().unwrap().clone();
        let vms: Vec<String> = list("servers").iter().map(|vm| text(vm, "id").to_uppercase()).collect();
        let mut config = bench.config("real", &vms);
        config.subnets =
            SubnetSelector::Ids(list("subnets").iter().map(|s| SubnetId::from(text(s, "id"))).collect());
        config.cloud.project = ProjectId::from(text(&seed, "project_id"));
        let CredentialSource::Contrabass { endpoint, .. } = &mut config.cloud.source;
        *endpoint = format!("http://{addr}");
        Self { bench, seed, config }
    }

    /// Port ids by server, as they were seeded.
    fn ports(&self) -> BTreeMap<VmId, BTreeSet<String>> {
        let mut ports = BTreeMap::<VmId, BTreeSet<String>>::new();
        for vm in &self.config.vms {
            ports.entry(vm.clone()).or_default();
        }
        for port in self.seed["ports"].as_array().unwrap() {
            if let Some(ids) = ports.get_mut(&VmId::new(text(port, "device_id"))) {
                ids.insert(text(port, "id").to_owned());
            }
        }
        ports
    }

    async fn check(&self, config: &Config) {
        let seen = self.bench.poll(config).await.unwrap();
        let ids = |ports: &Vec<_>| -> BTreeSet<String> {
            ports
                .iter()
                .map(|port: &multinic_actors::domain::port::ListedPort| port.as_ref().unwrap().id.to_string())
                .collect()
        };
        for (vm, expect) in self.ports() {
            assert_eq!(ids(&seen.ports[&vm]), expect, "{vm}");
        }
        for server in self.seed["servers"].as_array().unwrap() {
            let found = &seen.servers[&VmId::new(text(server, "id"))];
            assert!(matches!(found, Server::Found { name, .. } if name == text(server, "name")), "{found:?}");
        }
        for (seeded, subnet) in self.seed["subnets"].as_array().unwrap().iter().zip(&seen.subnets) {
            assert_eq!(
                (subnet.id.as_str(), subnet.cidr.to_string().as_str()),
                (text(seeded, "id"), text(seeded, "cidr"))
            );
            let networks = self.seed["networks"].as_array().unwrap();
            let network = networks.iter().find(|n| text(n, "id") == subnet.network.as_str()).unwrap();
            assert_eq!(json!(subnet.mtu), network["mtu"]);
        }
    }
}

#[tokio::test]
#[ignore = "needs real services: SEED"]
async fn a_real_cloud_is_read_completely() {
    let real = Real::start().await;
    real.check(&real.config).await;
    // Once more, from the caches.
    real.check(&real.config).await;
}

/// The real servers' ports, asked for together with 300 servers that do not exist.
async fn check_among_strangers(real: &Real) {
    let strangers = (0..300).map(|i| VmId::new(format!("00000000-0000-4000-8000-{i:012}")));
    let mut vms: Vec<VmId> = strangers.collect();
    for (i, vm) in real.config.vms.iter().enumerate() {
        vms.insert(i * 37, vm.clone());
    }
    let config = Config { vms, ..real.config.clone() };
    let seen = real.bench.poll(&config).await.unwrap();
    for (vm, expect) in real.ports() {
        assert_eq!(seen.ports[&vm].len(), expect.len(), "{vm}");
    }
    let missing = seen.servers.values().filter(|server| **server == Server::NotFound).count();
    assert_eq!(missing, 300);
}

#[tokio::test]
#[ignore = "needs real services: SEED"]
async fn a_real_front_end_is_asked_for_hundreds_of_servers() {
    check_among_strangers(&Real::start().await).await;
}

#[tokio::test]
#[ignore = "needs real services: SEED"]
async fn a_real_front_end_that_closes_or_loses_the_filter_is_asked_for_less() {
    // uWSGI's default buffer loses the filter of the first length and closes the connection on the second.
    for neutron_request_bytes in [6000, 7500, 20_000] {
        let bench = Bench::with(OpenstackSettings { neutron_request_bytes, ..generous() });
        check_among_strangers(&Real::on(bench.await).await).await;
    }
}

#[tokio::test]
#[ignore = "needs real services: SEED"]
async fn real_refusals_have_their_reasons() {
    let real = Real::start().await;
    let bench = &real.bench;
    let mut config = real.config.clone();
    config.subnets = SubnetSelector::Ids(vec![SubnetId::from("00000000-0000-4000-8000-000000000000")]);
    assert_eq!(bench.poll(&config).await.unwrap_err().reason, Reason::SubnetNotFound);
    config.subnets = SubnetSelector::Name(text(&real.seed["subnets"][0], "name").to_owned());
    assert_eq!(bench.poll(&config).await.unwrap().subnets.len(), 1);
    config.subnets = SubnetSelector::Name("no such subnet".to_owned());
    assert_eq!(bench.poll(&config).await.unwrap_err().reason, Reason::SubnetNotFound);
    config.cloud.region = Some("Nowhere".to_owned());
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(error.reason, Reason::NeutronEndpointError);
    let mut config = real.config.clone();
    config.cloud.project = ProjectId::from("00000000000000000000000000000000");
    let error = bench.poll(&config).await.unwrap_err();
    assert_eq!(error.reason, Reason::KeystoneError);
    assert!(error.message.starts_with("keystone: log in: 401 Unauthorized"), "{error}");
    // The account works all the same.
    real.check(&real.config).await;
}
