//! No key, password or token in logs, REST answers or metrics, whatever goes wrong.

use std::net::{SocketAddr, TcpListener};

use multinic_operator::sim::{Fault, FaultRule, Operation, Service, ViolaAnswer};
use serde_json::{Value, json};

use crate::e2e_support::{KEY, Operator, PROVIDER, Spec, until};
use crate::process::{Process, run, stderr, stdout};
use crate::world::{DATA, PASSWORD, World, text};

const VIOLA_TOKEN: &str = "a-very-secret-viola-token";
const OLD_PASSWORD: &str = "the-0ld-passw0rd";
const WRONG_KEY: &str = "a-wrong-key-16by";

/// An address that nobody listens on now.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// All that must not be seen; the beginning of every Keystone token too.
async fn secrets(world: &World) -> Vec<String> {
    let url = format!("{}/v1/contrabass/admin/infra/provider/{PROVIDER}", world.cloud.contrabass_url());
    let answer: Value = serde_json::from_str(&world.operator.get_text(&url).await.1).unwrap();
    let sealed = text(&answer["data"]["attributes"]["adminPw"]);
    assert!(!sealed.is_empty(), "{answer}");
    let known = [KEY, WRONG_KEY, PASSWORD, OLD_PASSWORD, VIOLA_TOKEN, "gAAAA"];
    known.map(str::to_owned).into_iter().chain([sealed]).collect()
}

async fn says_like(world: &World, process: &Process, words: &str) {
    let url = format!("http://{}/v1/configs", process.api);
    let deadline = std::time::Instant::now() + crate::e2e_support::PATIENCE;
    loop {
        let (_, text) = world.operator.get_text(&url).await;
        if text.contains(words) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "never {words}: {text}\n{}", process.log_end());
        tokio::time::sleep(crate::e2e_support::GLANCE).await;
    }
}

/// The inventory, the generation before, and whatever lies beside them.
fn inventory_files(world: &World) -> String {
    let folder = world.operator.inventory_file();
    let files = std::fs::read_dir(folder.parent().unwrap()).unwrap();
    let texts: Vec<_> = files
        .map(|file| String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).into_owned())
        .collect();
    assert!(texts.len() > 1, "the generation before is there");
    texts.concat()
}

/// Both streams of the commands that look at the same objects and files.
async fn what_commands_print(world: &World) -> String {
    let folder = format!("--config-dir={}", world.operator.dir().display());
    let inventory = world.operator.inventory_file().display().to_string();
    // A file that cannot be read has a password in it.
    let refused = stderr(&run(&["plan", "--all", &folder, "--inventory", &inventory]).await);
    assert!(refused.contains("broken.yaml"), "{refused}");
    std::fs::remove_file(world.operator.dir().join("broken.yaml")).unwrap();
    let mut seen = refused;
    for args in [
        &["plan", "--all", &folder, "--inventory", &inventory][..],
        &["plan", "--all", &folder, "--inventory", &inventory, "--output=json"],
        &["inventory", "export", "--inventory-db-path", &inventory],
    ] {
        let output = run(args).await;
        let text = stdout(&output) + &stderr(&output);
        assert!(text.contains("node-0"), "{args:?}: {text}");
        seen += &text;
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_ever_shown() {
    let mut world = World::new();
    let metrics = free_address();
    world.operator = Operator::new().flag(&format!("--metrics-bind-address={metrics}"));
    let token = world.operator.dir().join("viola-token");
    std::fs::write(&token, VIOLA_TOKEN).unwrap();
    let vms = world.vms(2);
    let good = world.spec("good", &vms[..1]);
    let bad = Spec { encrypt_key: WRONG_KEY.to_owned(), ..world.spec("bad", &vms[1..]) };
    world.operator.declare(&good);
    world.operator.declare(&bad);
    world.operator.write("broken.yaml", &format!("kind: Secret\nstringData: {{key: {PASSWORD}\n"));
    let token = format!("--viola-token-file={}", token.display());
    let process = Process::start(&world.operator, &[&token, "--log-level=trace"]).await;
    says_like(&world, &process, "\"delivered\":1").await;

    // Everything fails once, with the services' words in the errors.
    world.viola.set_answer(ViolaAnswer::Status(
        403,
        json!({"message": format!("Bearer {VIOLA_TOKEN} may not do this")}),
    ));
    world.port(&vms[0], DATA);
    // It repeats the token to us; what remains of its words shows that they were looked at.
    says_like(&world, &process, "may not do this").await;
    says_like(&world, &process, "ViolaPostError").await;
    world.viola.set_answer(ViolaAnswer::Accept);
    says_like(&world, &process, "\"NoChange\"").await;
    world.cloud.set_provider_password(PROVIDER, OLD_PASSWORD);
    world.cloud.revoke_tokens();
    says_like(&world, &process, "KeystoneError").await;
    world.cloud.set_provider_password(PROVIDER, PASSWORD);
    says_like(&world, &process, "\"NoChange\"").await;
    for fault in [Fault::Reset, Fault::TruncatedJson, Fault::HtmlStatus(502), Fault::Unauthorized] {
        world.cloud.add_fault(FaultRule::new(fault).operation(Operation::ListPorts));
        says_like(&world, &process, "NeutronPortError").await;
        world.cloud.clear_faults();
        until("it goes on", || world.cloud.counters().in_flight(Service::Neutron) == 0, String::new).await;
    }
    let mut seen = process.log_text();
    for path in [
        "/v1/configs",
        "/v1/configs/test/good",
        "/v1/configs/test/bad",
        "/v1/actors",
        "/v1/interfaces/providers",
        "/v1/interfaces/node-configs?providerId=biz",
        "/openapi.yaml",
        "/readyz",
        "/healthz",
    ] {
        seen += &world.operator.get_text(&format!("http://{}{path}", process.api)).await.1;
    }
    let (status, text) = world.operator.get_text(&format!("http://{metrics}/metrics")).await;
    assert_eq!(status, 200);
    seen += &text;
    seen += &inventory_files(&world);
    seen += &what_commands_print(&world).await;
    for secret in secrets(&world).await {
        let place =
            seen.find(&secret).map(|at| seen[at.saturating_sub(300)..].chars().take(700).collect::<String>());
        assert_eq!(place, None, "{secret} is shown");
    }
    assert!(process.log_lines().len() > 5, "there is a log to look at");
}
