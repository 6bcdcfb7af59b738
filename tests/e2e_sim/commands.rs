//! What the commands print, and how they end.

use serde_json::{Value, json};

use crate::e2e_support::Spec;
use crate::process::{run, stderr, stdout};
use crate::world::{World, says, text};

#[tokio::test(flavor = "multi_thread")]
async fn bad_settings_end_the_start_with_one_message_that_lists_all() {
    let output =
        run(&["--viola-timeout=soon", "--interface-order=Random", "--cloud-rate=-1", "--log-level=", "run"])
            .await;
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    says(
        &said,
        &["bad settings:", "--viola-timeout", "--interface-order", "Sticky", "--cloud-rate", "--log-level"],
    );
    assert_eq!(said.matches("bad settings:").count(), 1);
    assert_eq!(stdout(&output), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_flags_are_told_with_the_one_that_may_be_meant() {
    let output = run(&["--viola-endpont=http://v", "--no-such-thing"]).await;
    assert_eq!(output.status.code(), Some(2));
    says(
        &stderr(&output),
        &["--viola-endpont", "did you mean --viola-endpoint?", "--no-such-thing: there is no such flag"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_of_the_previous_operator_are_accepted() {
    let output =
        run(&["crd", "-metrics-secure=false", "--zap-log-level=debug", "--webhook-cert-path=/x"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    says(&stderr(&output), &["webhook-cert-path"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn help_and_version_go_to_the_standard_output() {
    for (flag, words) in [("--help", "--config-dir"), ("--version", env!("CARGO_PKG_VERSION"))] {
        let output = run(&[flag]).await;
        assert_eq!(output.status.code(), Some(0));
        says(&stdout(&output), &[words]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crd_is_printed_as_it_is_checked_in() {
    let output = run(&["crd"]).await;
    assert_eq!(output.status.code(), Some(0));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/multinic-operator/crds/openstackconfigs.yaml");
    assert_eq!(stdout(&output), std::fs::read_to_string(golden).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_is_taken_ends_the_start_with_its_flag() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("--inventory-addr={}", taken.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let output = run(&[&address, &format!("--config-dir={}", folder.path().display())]).await;
    assert_eq!(output.status.code(), Some(1));
    says(&stderr(&output), &["--inventory-addr", "give another address"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_what_it_should_hold_ends_the_start_with_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nothing.pem");
    std::fs::write(&file, "nothing").unwrap();
    let file = file.display().to_string();
    let common = [
        format!("--config-dir={}", folder.path().display()),
        format!("--inventory-db-path={}", folder.path().join("inventory.json").display()),
        "--inventory-addr=127.0.0.1:0".to_owned(),
        "--metrics-bind-address=0".to_owned(),
        "--health-probe-bind-address=0".to_owned(),
    ];
    for (flags, words) in [
        (vec![format!("--ca-bundle={file}")], format!("--ca-bundle {file}: no usable PEM certificate in it")),
        (
            vec![format!("--api-tls-cert={file}"), format!("--api-tls-key={file}")],
            format!("--api-tls-cert, --api-tls-key: {file}: there is no PEM certificate in it"),
        ),
    ] {
        let args: Vec<&str> = common.iter().chain(&flags).map(String::as_str).collect();
        let output = run(&args).await;
        assert_eq!(output.status.code(), Some(1), "{flags:?}");
        says(&stderr(&output), &["cannot start", &words]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_ends_by_itself_and_well() {
    let output = run(&["demo", "--for", "8s"]).await;
    assert_eq!(output.status.code(), Some(0), "{}\n{}", stdout(&output), stderr(&output));
    let said = stdout(&output);
    says(&said, &["/v1/configs", "everything that was delivered equals what the cloud has"]);
    assert!(!said.contains("WRONG"), "{said}");
}

/// A config file that is in nobody's folder; its path.
fn file_of(world: &World, text: &str) -> String {
    let path = world.operator.dir().join("plan.txt");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_a_table_for_people_and_sends_nothing() {
    let world = World::new();
    let spec = world.spec("a", &world.vms(2));
    let file = file_of(&world, &spec.yaml());
    let output = run(&["plan", "-f", &file]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    says(
        &stdout(&output),
        &["test/a", "VERDICT", "Selected", "multinic0", "node-1", "1 config: 2 nodes would be sent"],
    );
    assert_eq!(world.viola.counters().total_requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_what_is_delivered_has_nothing_to_send() {
    let mut world = World::new();
    let spec = world.run_with(2).await;
    world.operator.stop().await;
    let file = file_of(&world, &spec.yaml());
    let inventory = world.operator.inventory_file().display().to_string();
    let output = run(&["plan", "-f", &file, "--inventory", &inventory, "--output=json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let plans: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let vms = plans[0]["vms"].as_array().unwrap();
    assert!(vms.iter().all(|vm| vm["difference"] == json!({"kind": "same"})), "{plans:#}");

    let folder = format!("--config-dir={}", world.operator.dir().display());
    world.port(&spec.vms[0], 1);
    let output = run(&["plan", "--all", &folder, "--inventory", &inventory]).await;
    says(&stdout(&output), &["would be sent additions: add ", "1 node would be sent, 1 already delivered"]);
}

/// The older of two configs over one node has it, whatever their files are called and in whatever order they come.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_all_goes_by_age_and_shows_who_owns_a_node() {
    let world = World::new();
    let vms = world.vms(2);
    let older = Spec { created: "2020-01-01T00:00:00Z".to_owned(), ..world.spec("z-older", &vms[..1]) };
    let younger = Spec { created: "2021-01-01T00:00:00Z".to_owned(), ..world.spec("a-younger", &vms) };
    world.operator.declare(&younger);
    world.operator.declare(&older);
    let folder = format!("--config-dir={}", world.operator.dir().display());
    let output = run(&["plan", "--all", &folder, "--output=json"]).await;
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let plans: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<_> = plans.as_array().unwrap().iter().map(|plan| text(&plan["name"])).collect();
    assert_eq!(names, ["z-older", "a-younger"]);
    let vm = |plan: usize, id: &str| {
        let vms = plans[plan]["vms"].as_array().unwrap();
        vms.iter().find(|vm| vm["vm"] == id).unwrap().clone()
    };
    assert_eq!(vm(0, &vms[0])["difference"], json!({"kind": "new"}));
    let refused = vm(1, &vms[0]);
    assert_eq!(refused["skipped"]["reason"], "NodeConflict", "{refused:#}");
    says(&text(&refused["skipped"]["message"]), &["test/z-older"]);
    assert_eq!(refused["send"], Value::Null);
    assert_eq!(vm(1, &vms[1])["difference"], json!({"kind": "new"}), "what nobody else has is not held up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_cannot_be_made_says_why_and_fails() {
    let world = World::new();
    let spec = world.spec("a", &world.vms(1)).setting("openstackEndpointRegion: Mars");
    let file = file_of(&world, &spec.yaml());
    let output = run(&["plan", "-f", &file, "-ojson"]).await;
    assert_eq!(output.status.code(), Some(1));
    let plans: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(plans[0]["error"]["reason"], "NeutronEndpointError");
    says(&text(&plans[0]["error"]["message"]), &["Mars", "RegionOne"]);

    let output = run(&["plan", "-f", "/no/such/file"]).await;
    assert_eq!(output.status.code(), Some(1));
    says(&stderr(&output), &["plan: /no/such/file"]);
}
