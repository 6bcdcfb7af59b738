//! Several replicas: one works, and what becomes of its lease when it does not any more.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::{Cluster, in_cluster};
use crate::e2e_support::{GLANCE, PATIENCE, until};
use crate::process::Process;
use crate::proxy::Proxy;
use crate::world::{BIZ, DATA, World};

const LEASE: &str = "9a0428b3.example.com";

/// How long a lease lasts.
const LASTS: Duration = Duration::from_secs(15);

/// A cluster without the lease, with a pod for each replica.
async fn cluster() -> Cluster {
    let cluster = Cluster::new().await;
    cluster.kubectl(&["-n", "test", "delete", "lease", LEASE, "--ignore-not-found"]);
    cluster.kubectl(&["-n", "test", "delete", "pod", "--all", "--force", "--grace-period=0"]);
    for name in ["a", "b"] {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "test"},
            "spec": {"containers": [{"name": "c", "image": "none.example.com/none"}]}});
        cluster.apply(&pod.to_string());
    }
    cluster
}

/// A replica of this name. All share the inventory file, as on a volume for many.
async fn replica(world: &World, name: &str, flags: &[&str]) -> Process {
    let flags = [&["--leader-elect"], flags].concat();
    let variables = [("POD_NAME", name), ("POD_NAMESPACE", "test")];
    Process::start_as(&world.operator, &flags, &variables).await
}

/// Status and body of a replica's `/v1/configs`.
async fn configs(world: &World, replica: &Process) -> (u16, Value) {
    let (status, text) = world.operator.get_text(&format!("http://{}/v1/configs", replica.api)).await;
    (status, serde_json::from_str(&text).unwrap_or_default())
}

async fn until_leading(world: &World, replica: &Process) {
    let deadline = Instant::now() + PATIENCE;
    while configs(world, replica).await.0 != 200 {
        assert!(Instant::now() < deadline, "it does not lead\n{}", replica.log_end());
        tokio::time::sleep(GLANCE).await;
    }
}

/// Waits until a replica stands by; what it says.
async fn until_standing_by(world: &World, replica: &Process, leader: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (status, body) = configs(world, replica).await;
        let text = body["error"]["message"].as_str().unwrap_or_default().to_owned();
        if status == 503 && text == format!("this replica stands by; ask the leader, {leader}") {
            return;
        }
        assert!(Instant::now() < deadline, "{status} {body}\n{}", replica.log_end());
        tokio::time::sleep(GLANCE).await;
    }
}

fn lease(cluster: &Cluster) -> Value {
    let json = cluster.kubectl(&["-n", "test", "get", "lease", LEASE, "-o", "json"]);
    serde_json::from_str::<Value>(&json).unwrap()["spec"].take()
}

fn acquired(lease: &Value) -> Timestamp {
    lease["acquireTime"].as_str().unwrap().parse().unwrap()
}

/// Waits until of both pods this one has the label.
async fn until_labelled(cluster: &Cluster, pod: &str) {
    let labelled = || {
        let selector = "multinic.example.com/leader=true";
        cluster.kubectl(&["-n", "test", "get", "pods", "-l", selector, "-o", "name"]).trim().to_owned()
    };
    until("the leader's pod alone has the label", || labelled() == format!("pod/{pod}"), labelled).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_leader_that_is_killed_is_followed_and_one_that_ends_hands_over() {
    let cluster = cluster().await;
    let world = cluster.world();
    let mut spec = in_cluster(world.spec("a", &world.vms(2)));
    cluster.declare(&spec);
    let a = replica(&world, "a", &[]).await;
    until_leading(&world, &a).await;
    let mut b = replica(&world, "b", &[]).await;
    until_standing_by(&world, &b, "a").await;
    cluster.until("a", "2/2", |object| object["status"]["nodes"]["summary"] == "2/2").await;
    until_labelled(&cluster, "a").await;
    assert!(lease(&cluster)["holderIdentity"].as_str().unwrap().starts_with("a_"));

    a.kill().await;
    until_standing_by(&world, &b, "a").await;
    spec.vms.push(world.vm("node-2"));
    cluster.declare(&spec);
    until_leading(&world, &b).await;
    cluster.until("a", "3/3", |object| object["status"]["nodes"]["summary"] == "3/3").await;
    until_labelled(&cluster, "b").await;
    assert_eq!(lease(&cluster)["leaseTransitions"], 1);
    let once = ["node-0", "node-1", "node-2"].map(|node| (node.to_owned(), 1));
    assert_eq!(world.sent(), once.into(), "the new leader knows what the old one delivered");

    let a = replica(&world, "a", &[]).await;
    until_standing_by(&world, &a, "b").await;
    let asked_at = Timestamp::now();
    b.terminate();
    assert_eq!(b.ended().await.code(), Some(0), "{}", b.log_end());
    until_leading(&world, &a).await;
    until_labelled(&cluster, "a").await;
    let waited = acquired(&lease(&cluster)).duration_since(asked_at);
    println!("handed over {waited:.1?} after the signal");
    assert!(waited.unsigned_abs() < LASTS, "it was not waited for the lease to run out");
    let events = cluster.kubectl(&["-n", "test", "get", "events.events.k8s.io", "-o", "json"]);
    let events: Value = serde_json::from_str(&events).unwrap();
    let is_elected =
        |event: &&Value| event["reason"] == "LeaderElected" && event["regarding"]["kind"] == "Lease";
    assert!(events["items"].as_array().unwrap().iter().filter(is_elected).count() >= 3, "{events:#}");
}

/// Who posted and when, as it came.
struct Timeline {
    seen: usize,
    posts: Vec<(String, Timestamp)>,
}

impl Timeline {
    fn look(&mut self, world: &World) {
        let posts = world.viola.posts();
        for post in &posts[self.seen..] {
            let sender = post.headers.get("authorization").cloned().unwrap_or_default();
            self.posts.push((sender.trim_start_matches("Bearer ").to_owned(), Timestamp::now()));
        }
        self.seen = posts.len();
    }

    fn of(&self, sender: &str) -> impl Iterator<Item = Timestamp> {
        self.posts.iter().filter(move |(who, _)| who == sender).map(|(_, at)| *at)
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_leader_that_is_cut_off_stops_before_its_lease_can_be_taken() {
    let cluster = cluster().await;
    let world = cluster.world();
    let Some(proxy) = Proxy::start(world.operator.dir()).await else { return };
    // A DOWN port: its node is posted several times a second, for ever.
    let vm = world.bare_vm("node-0");
    world.cloud.add_port(world.port_spec(&vm, DATA).status("DOWN"));
    let spec = in_cluster(world.spec("a", &[vm])).setting("downPortFastRetryMax: 1000000");
    cluster.declare(&spec);
    let token = |name: &str| {
        let path = world.operator.dir().join(format!("token-{name}"));
        std::fs::write(&path, name).unwrap();
        format!("--viola-token-file={}", path.display())
    };
    let a = replica(&world, "a", &[&token("a"), &proxy.flag()]).await;
    until_leading(&world, &a).await;
    let b = replica(&world, "b", &[&token("b")]).await;
    until_standing_by(&world, &b, "a").await;
    let mut timeline = Timeline { seen: 0, posts: Vec::new() };
    let deadline = Instant::now() + PATIENCE;
    let mut cut_at = None;
    while timeline.of("b").count() < 5 {
        timeline.look(&world);
        if cut_at.is_none() && timeline.of("a").count() >= 5 {
            proxy.cut();
            cut_at = Some(Timestamp::now());
        }
        assert!(Instant::now() < deadline, "b does not post\n{}\n{}", a.log_end(), b.log_end());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let taken_at = acquired(&lease(&cluster));
    let last = timeline.of("a").last().unwrap();
    let cut_at = cut_at.unwrap();
    let (after_cut, before_take) = (last.duration_since(cut_at), taken_at.duration_since(last));
    println!("a posted for {after_cut:.1?} more, and the lease was taken {before_take:.1?} after that");
    assert!(last > cut_at, "a cut alone is no reason to stop");
    assert!(last < taken_at, "a posted until {last}, b took the lease at {taken_at}");
    assert!(timeline.of("b").all(|at| at >= taken_at));
    assert_eq!(configs(&world, &a).await.0, 503, "a says that it leads no longer");
    assert_eq!(world.viola.nodes(BIZ).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn a_leader_that_stood_still_ends_when_it_wakes_up_and_posts_nothing() {
    let cluster = cluster().await;
    let world = cluster.world();
    let vm = world.bare_vm("node-0");
    world.cloud.add_port(world.port_spec(&vm, DATA).status("DOWN"));
    cluster.declare(&in_cluster(world.spec("a", &[vm])).setting("downPortFastRetryMax: 1000000"));
    // A file each: the lock on a common one would keep the other out as long as this process lives.
    let own = |name: &str| {
        let (token, file) =
            (world.operator.dir().join(name), world.operator.dir().join(format!("{name}.json")));
        std::fs::write(&token, name).unwrap();
        let token = format!("--viola-token-file={}", token.display());
        [token, format!("--inventory-db-path={}", file.display())]
    };
    let [own_a, own_b] = ["a", "b"].map(own);
    let mut a = replica(&world, "a", &own_a.each_ref().map(String::as_str)).await;
    until_leading(&world, &a).await;
    let b = replica(&world, "b", &own_b.each_ref().map(String::as_str)).await;
    until_standing_by(&world, &b, "a").await;
    let mut timeline = Timeline { seen: 0, posts: Vec::new() };
    let deadline = Instant::now() + PATIENCE;
    while timeline.of("a").count() < 5 {
        timeline.look(&world);
        assert!(Instant::now() < deadline, "a does not post\n{}", a.log_end());
        tokio::time::sleep(GLANCE).await;
    }
    a.signal("STOP");
    until_leading(&world, &b).await;
    let taken_at = acquired(&lease(&cluster));
    timeline.look(&world);
    let before = timeline.of("a").count();
    a.signal("CONT");
    assert_eq!(a.ended().await.code(), Some(1), "{}", a.log_end());
    assert!(a.log_text().contains("the process ends itself"), "{}", a.log_end());
    while timeline.of("b").count() < 10 {
        timeline.look(&world);
        assert!(Instant::now() < deadline + PATIENCE, "b does not post\n{}", b.log_end());
        tokio::time::sleep(GLANCE).await;
    }
    assert_eq!(timeline.of("a").count(), before, "it posted after it woke up");
    assert!(timeline.of("a").all(|at| at < taken_at));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a cluster: make e2e-kube"]
async fn while_the_previous_operator_holds_its_lease_nothing_is_asked_and_nothing_sent() {
    let cluster = cluster().await;
    let world = cluster.world();
    let spec = in_cluster(world.spec("a", &world.vms(1)));
    cluster.declare(&spec);
    let hold = || {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": LEASE, "namespace": "test"},
            "spec": {"holderIdentity": "old-manager_6f9619ff", "leaseDurationSeconds": 15, "renewTime": now,
                "acquireTime": "2026-01-10T00:00:00.000000Z", "leaseTransitions": 7}});
        cluster.apply(&lease.to_string());
    };
    hold();
    let ours = replica(&world, "a", &[]).await;
    until_standing_by(&world, &ours, "old-manager").await;
    let start = Instant::now();
    while start.elapsed() < LASTS + Duration::from_secs(5) {
        hold();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    until_standing_by(&world, &ours, "old-manager").await;
    assert_eq!(world.requests(), [0; 4]);
    assert_eq!(world.viola.posts(), []);
    assert_eq!(cluster.object("a")["status"], Value::Null);
    // It ended without giving it back.
    until_leading(&world, &ours).await;
    cluster.until_condition("a", "Ready", "True").await;
    assert_eq!(lease(&cluster)["leaseTransitions"], 8);
}
