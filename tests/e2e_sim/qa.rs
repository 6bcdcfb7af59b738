//! Lines of the QA checklist (`docs/qa.md`) that no other test proves to the letter: the operator from the cloud to
//! the objects of the workload cluster, through the Viola test API.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::e2e_support::{Nic, Spec, delivered, nics, until};
use crate::server::{Server, local};
use crate::world::{BIZ, DATA, STORAGE, World, message, says, skips, verdicts};

/// A world whose operator posts to a Viola test API, which writes the objects of a workload cluster.
struct Site {
    world: World,
    viola_api: Server,
    cluster: Cluster,
}

impl Site {
    async fn new() -> Self {
        let cluster = Cluster::start().await;
        let viola_api = Server::start(&format!("strict: true\ntargets: [{}]", local(BIZ, &cluster))).await;
        Self { world: World::new(), viola_api, cluster }
    }

    fn bare_vms(&self, names: &[&str]) -> Vec<String> {
        names.iter().map(|name| self.world.bare_vm(name)).collect()
    }

    fn spec(&self, vms: &[String]) -> Spec {
        Spec { viola: self.viola_api.url.clone(), ..self.world.spec("a", vms) }
    }

    /// [`Site::spec`] that is polled when it is told to, so that several changes count as one.
    fn quiet_spec(&self, vms: &[String]) -> Spec {
        Spec { viola: self.viola_api.url.clone(), ..self.world.quiet_spec("a", vms) }
    }

    /// The NICs of every object.
    fn objects(&self) -> BTreeMap<String, BTreeSet<Nic>> {
        let name = |key: &str| key.split_once('/').unwrap().1.to_owned();
        self.cluster.objects().iter().map(|(key, object)| (name(key), nics(&object["spec"]))).collect()
    }

    /// Names of a node's interfaces in their order.
    fn names(&self, node: &str) -> Vec<String> {
        let object = self.cluster.objects().remove(&format!("biz/{node}")).unwrap_or_default();
        let interfaces = object["spec"]["interfaces"].as_array().cloned().unwrap_or_default();
        interfaces.iter().map(|interface| interface["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the objects are what the cloud has.
    async fn until_true(&self, spec: &Spec) {
        let is_right = || self.objects() == self.world.expected(spec);
        let state = || format!("{:#?}\nnot {:#?}", self.objects(), self.world.expected(spec));
        until("the objects are what the cloud has", is_right, state).await;
    }
}

/// The first poll has ended.
fn is_looked_at(config: &Value) -> bool {
    config["lastPollAt"].is_string() && config["nextPollAt"].is_string()
}

fn counted(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("multinic{n}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn three_ports_on_each_of_three_nodes_at_once() {
    let mut site = Site::new().await;
    let vms = site.bare_vms(&["node-0", "node-1", "node-2"]);
    let spec = site.quiet_spec(&vms);
    site.world.operator.declare(&spec);
    site.world.operator.start().await;
    site.world.operator.until_config("a", "looked at", is_looked_at).await;
    assert_eq!(site.objects(), BTreeMap::new());
    vms.iter().for_each(|vm| (0..3).for_each(|_| drop(site.world.port(vm, DATA))));
    site.world.operator.declare(&spec.clone().annotation("force-reconcile", "1"));
    site.until_true(&spec).await;
    for node in ["node-0", "node-1", "node-2"] {
        assert_eq!(site.names(node), counted(3), "{node}");
    }
    assert_eq!(site.cluster.patches(), 3, "each node is sent once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_port_leaves_its_object() {
    let mut site = Site::new().await;
    let vms = site.bare_vms(&["node-0", "node-1"]);
    let ports: Vec<String> = (0..3).map(|_| site.world.port(&vms[0], DATA)).collect();
    site.world.port(&vms[1], DATA);
    let spec = site.spec(&vms);
    site.world.operator.declare(&spec);
    site.world.operator.start().await;
    site.until_true(&spec).await;
    site.world.cloud.delete_port(&ports[1]);
    site.until_true(&spec).await;
    assert_eq!((site.objects()["node-0"].len(), site.objects()["node-1"].len()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn masters_and_workers_at_once() {
    let mut site = Site::new().await;
    let nodes = ["master-0", "master-1", "master-2", "worker-0", "worker-1", "worker-2"];
    let vms = site.bare_vms(&nodes);
    vms.iter().for_each(|vm| drop((site.world.port(vm, DATA), site.world.port(vm, STORAGE))));
    let spec = site.spec(&vms);
    site.world.operator.declare(&spec);
    site.world.operator.start().await;
    site.until_true(&spec).await;
    assert_eq!(site.objects().into_keys().collect::<Vec<_>>(), nodes);
    let config = site.world.operator.until_polled("a").await;
    assert_eq!(config["nodes"], json!({"desired": 6, "delivered": 6, "skipped": 0}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vm_taken_out_of_the_list_keeps_its_record_and_its_object() {
    let mut site = Site::new().await;
    let vms = site.bare_vms(&["node-0", "node-1"]);
    vms.iter().for_each(|vm| drop(site.world.port(vm, DATA)));
    let spec = site.spec(&vms);
    site.world.operator.declare(&spec);
    site.world.operator.start().await;
    site.until_true(&spec).await;
    let config = site.world.operator.until_polled("a").await;
    assert_eq!(config["nodes"]["delivered"], 2);
    let before = (site.cluster.objects(), records(&site.world).await);
    site.world.operator.declare(&site.spec(&vms[..1]));
    let has_one = |config: &Value| config["vms"].as_array().map(Vec::len) == Some(1);
    site.world.operator.until_config("a", "it has one VM", has_one).await;
    site.world.operator.until_polled("a").await;
    assert_eq!((site.cluster.objects(), records(&site.world).await), before);
    site.world.operator.restart().await;
    site.world.operator.until_polled("a").await;
    assert_eq!((site.cluster.objects(), records(&site.world).await), before);
}

async fn records(world: &World) -> Value {
    world.delivered_state().await.1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_down_port_is_left_out_where_only_active_ones_are_allowed_and_sent_once_it_is_active() {
    let mut world = World::new();
    let vm = world.vm("node-0");
    let down = world.cloud.add_port(world.port_spec(&vm, DATA).status("DOWN"));
    let spec = world.spec("a", &[vm]).setting("openstackPortAllowedStatuses: [ACTIVE]");
    world.operator.declare(&spec);
    world.operator.start().await;
    let config = world.operator.until_config("a", "delivered", |c| c["nodes"]["delivered"] == 1).await;
    assert_eq!(verdicts(&config)[&down], "StatusNotAllowed");
    world.operator.until_polled("a").await;
    assert_eq!((world.nic_count("node-0"), world.viola.posts().len()), (1, 1));
    assert!(
        world.operator.config("a").await["downPortRetry"].is_null(),
        "what is left out is not sent again"
    );

    world.cloud.set_port_status(&down, "ACTIVE");
    world.until_delivered(&spec).await;
    assert_eq!((world.nic_count("node-0"), world.viola.posts().len()), (2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contrabass_endpoint_there_is_a_config_error_until_it_is_set() {
    let mut world = World::new();
    let spec = world.run_with(1).await;
    let before = world.delivered_state().await;
    let without = Spec { contrabass: String::new(), ..spec.clone() };
    world.operator.declare(&without);
    let config = world.operator.until_reason("a", &["ConfigError"]).await;
    says(&message(&config), &["spec.settings.contrabassEndpoint"]);
    assert_eq!((&config["ready"], &config["degraded"]), (&json!(false), &json!("Error")));
    assert_eq!(world.delivered_state().await, before, "nothing is taken away");
    world.operator.declare(&spec);
    let config = world.operator.until_reason("a", &["Synced", "NoChange"]).await;
    assert_eq!((&config["ready"], &config["degraded"]), (&json!(true), &json!("Healthy")));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_not_changed_is_not_sent_again() {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    let posts = world.viola.posts().len();
    for _ in 0..4 {
        world.operator.until_polled("a").await;
    }
    world.operator.declare(&spec.annotation("force-reconcile", "1"));
    world.operator.until_polled("a").await;
    let config = world.operator.until_polled("a").await;
    assert_eq!((&config["reason"], &config["ready"]), (&json!("NoChange"), &json!(true)));
    assert_eq!(world.viola.posts().len(), posts);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_subnets_at_once_on_one_node() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    let spec = world.quiet_spec("a", std::slice::from_ref(&vm));
    world.operator.declare(&spec);
    world.operator.start().await;
    world.operator.until_config("a", "looked at", is_looked_at).await;
    world.port(&vm, DATA);
    world.port(&vm, STORAGE);
    world.operator.declare(&spec.clone().annotation("force-reconcile", "1"));
    world.until_delivered(&spec).await;
    assert_eq!(world.viola.posts().len(), 1, "both with one POST");
    let of: BTreeSet<_> = nics(&world.viola.node(BIZ, "node-0").unwrap());
    let of: BTreeSet<_> = of.iter().map(|(_, _, cidr, mtu)| (cidr.as_str(), *mtu)).collect();
    assert_eq!(of, [("192.168.0.0/16", 1450), ("10.20.0.0/16", 9000)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_ports_created_after_the_object_are_sent() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    let created = Timestamp::now() - SignedDuration::from_mins(10);
    let at = |seconds: i64| (created + SignedDuration::from_secs(seconds)).strftime("%FT%TZ").to_string();
    let port = |seconds: i64| world.cloud.add_port(world.port_spec(&vm, DATA).created_at(at(seconds)));
    let (before, same, after) = ([port(-86_400), port(-1)], port(0), port(1));
    let spec = Spec { created: at(0), ..world.spec("a", std::slice::from_ref(&vm)) };
    world.operator.declare(&spec);
    world.operator.start().await;
    let config = world.operator.until_config("a", "delivered", |c| c["nodes"]["delivered"] == 1).await;
    let verdict = |port: &str| verdicts(&config)[port].clone();
    assert_eq!(before.map(|port| verdict(&port)), ["BeforeBaseline"; 2]);
    assert_eq!([same, after].map(|port| verdict(&port)), ["Selected"; 2]);
    // One that is made now.
    world.port(&vm, DATA);
    until("the new one is sent", || world.nic_count("node-0") == 3, String::new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twelve_ports_ten_are_sent_as_multinic0_to_multinic9() {
    let mut world = World::new();
    let vm = world.bare_vm("node-0");
    (0..12).for_each(|_| drop(world.port(&vm, DATA)));
    world.operator.declare(&world.spec("a", &[vm]));
    world.operator.start().await;
    let config = world.operator.until_config("a", "delivered", |c| c["nodes"]["delivered"] == 1).await;
    assert_eq!((&config["ports"]["Selected"], &config["ports"]["OverLimit"]), (&json!(10), &json!(2)));
    let node = world.viola.node(BIZ, "node-0").unwrap();
    let interfaces = node["interfaces"].as_array().unwrap();
    let names: Vec<_> = interfaces.iter().map(|i| i["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, counted(10));
    let ids: Vec<_> = interfaces.iter().map(|i| i["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..10).collect::<Vec<_>>());
}

/// Two NICs: the one in the subnet `storage` has the lower MAC.
fn storage_has_the_lower_mac(world: &World) -> String {
    let vm = world.bare_vm("node-0");
    world.cloud.add_port(world.port_spec(&vm, DATA).mac("fa:16:3e:00:00:02"));
    world.cloud.add_port(world.port_spec(&vm, STORAGE).mac("fa:16:3e:00:00:01"));
    vm
}

/// `multinic0` and `multinic1`, each by the subnet that it is in.
fn in_order(world: &World) -> Vec<usize> {
    let node = world.viola.node(BIZ, "node-0").unwrap();
    let interfaces = node["interfaces"].as_array().unwrap();
    let names: Vec<_> = interfaces.iter().map(|i| i["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(names, counted(2));
    let subnet = |i: &Value| if i["subnetId"] == world.subnets[DATA].as_str() { DATA } else { STORAGE };
    interfaces.iter().map(subnet).collect()
}

fn reversed(spec: &Spec) -> Spec {
    Spec { subnets: spec.subnets.iter().rev().cloned().collect(), ..spec.clone() }
}

#[tokio::test(flavor = "multi_thread")]
async fn interfaces_follow_the_order_of_subnet_ids_where_that_is_asked_for() {
    let mut world = World::new();
    let vm = storage_has_the_lower_mac(&world);
    let spec = world.spec("a", &[vm]).setting("interfaceOrder: Subnet");
    world.run(&spec).await;
    assert_eq!(in_order(&world), [DATA, STORAGE], "not by MAC");
    world.operator.declare(&reversed(&spec));
    let is_reversed = || in_order(&world) == [STORAGE, DATA];
    until("the order is the other one", is_reversed, || format!("{:?}", in_order(&world))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_order_of_subnet_ids_renames_nothing() {
    for order in ["Sticky", "MAC"] {
        let mut world = World::new();
        let vm = storage_has_the_lower_mac(&world);
        let spec = world.spec("a", &[vm]).setting(&format!("interfaceOrder: {order}"));
        world.run(&spec).await;
        assert_eq!(in_order(&world), [STORAGE, DATA], "{order}: by MAC");
        let before = world.viola.node(BIZ, "node-0");
        world.operator.declare(&reversed(&spec).annotation("force-reconcile", "1"));
        for _ in 0..3 {
            world.operator.until_polled("a").await;
        }
        assert_eq!((world.viola.node(BIZ, "node-0"), world.viola.posts().len()), (before, 1), "{order}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_viola_endpoint_shows_in_ready_and_degraded() {
    let mut world = World::new();
    let vms = world.vms(2);
    // Nobody listens there any more.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let wrong = Spec { viola: format!("http://{closed}"), ..world.spec("a", &vms) };
    world.operator.declare(&wrong);
    world.operator.start().await;
    let config = world.operator.until_reason("a", &["ViolaPostError"]).await;
    assert_eq!((&config["ready"], &config["degraded"]), (&json!(false), &json!("Error")));
    assert_eq!(config["lastError"], config["message"]);
    says(&message(&config), &["viola"]);

    let right = world.spec("a", &vms);
    world.operator.declare(&right);
    world.until_delivered(&right).await;
    let config = world.operator.until_polled("a").await;
    assert_eq!((&config["degraded"], &config["lastError"]), (&json!("Healthy"), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_object_over_the_same_vms_sends_no_port_from_before_it() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    world.viola.forget_posts();
    let before = world.viola.nodes(BIZ);
    let now = (Timestamp::now() + SignedDuration::from_secs(1)).strftime("%FT%TZ").to_string();
    // Over the same cluster, and over another one.
    let twin = Spec { name: "twin".to_owned(), created: now.clone(), ..spec.clone() };
    let other =
        Spec { name: "other".to_owned(), k8s_provider: "other".to_owned(), created: now, ..spec.clone() };
    for object in [&twin, &other] {
        world.operator.declare(object);
        world.operator.until_tried(&object.name).await;
    }
    let config = world.operator.until_tried("other").await;
    let all: BTreeSet<_> = verdicts(&config).into_values().collect();
    assert_eq!(all, ["BeforeBaseline".to_owned()].into(), "{config:#}");
    // What its nodes have is theirs whatever its age, but they are the first object's.
    let config = world.operator.until_tried("twin").await;
    let conflicts: Vec<_> = skips(&config).into_values().collect();
    assert_eq!(conflicts, ["NodeConflict"; 2], "{config:#}");
    assert_eq!(world.viola.posts(), []);
    assert_eq!((world.viola.nodes(BIZ), world.viola.nodes("other")), (before, BTreeMap::new()));

    // A new port: the first object sends it to its cluster, the other object to its own; the twin nothing.
    let is_over = |at: &str| at.parse::<Timestamp>().unwrap() < Timestamp::now();
    until("the objects are older than the port", || is_over(&other.created), String::new).await;
    world.port(&spec.vms[0], STORAGE);
    let count = |provider: &str| delivered(&world.viola, provider).get("node-0").map_or(0, BTreeSet::len);
    let is_sent = || (count(BIZ), count("other")) == (2, 1);
    until("the new port is sent", is_sent, || format!("{:#?}", world.sent())).await;
    let config = world.operator.until_tried("twin").await;
    assert_eq!(skips(&config).into_values().collect::<Vec<_>>(), ["NodeConflict"; 2], "{config:#}");
    assert_eq!(world.sent(), BTreeMap::from([("node-0".to_owned(), 2)]), "once to each cluster");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_the_inventory_is_there_and_follows_what_changed_meanwhile() {
    let mut world = World::new();
    let spec = world.run_with(3).await;
    let before = records(&world).await;
    world.operator.restart().await;
    assert_eq!(records(&world).await, before, "before anything is polled anew");
    world.operator.stop().await;
    world.port(&spec.vms[1], STORAGE);
    world.viola.forget_posts();
    world.operator.start().await;
    world.until_delivered(&spec).await;
    assert_eq!(world.sent(), BTreeMap::from([("node-1".to_owned(), 1)]));
    let has_both = |records: &Value| records[1]["config"]["interfaces"].as_array().map(Vec::len) == Some(2);
    let after = records(&world).await;
    assert!(has_both(&after), "{after:#}");
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]));
}
