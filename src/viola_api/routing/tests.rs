use std::time::Duration;

use super::*;
use crate::settings::values::ListenAddress;

fn settings() -> Settings {
    Settings {
        address: ListenAddress::any(8080),
        routing_file: None,
        namespace: "multinic-system".to_owned(),
        timeout: Duration::from_secs(30),
        kubectl_path: "kubectl".to_owned(),
        server: None,
    }
}

fn parse(text: &str) -> Result<Routing, Vec<String>> {
    Routing::parse(text, &settings())
}

#[test]
fn every_field_is_read() {
    let routing = parse(
        "
strict: false
default: green
targets:
  - providerId: green
    mode: local
    namespace: biz
    kubeApiServer: https://192.0.2.1:6443/
    kubeToken: token
    kubeCaPath: /etc/viola-router/ca.crt
  - providerId: blue
    kubeconfigPath: /etc/viola-router/blue
  - providerId: own
  - providerId: red
    mode: ssh
    sshHost: 192.0.2.9
    sshUser: root
    sshPort: \"2222\"
    sshPass: secret
    sshKeyPath: /etc/viola-router/key
    sshOptions: [StrictHostKeyChecking=no]
    kubectlPath: /usr/local/bin/kubectl
",
    )
    .unwrap();
    let target =
        |id: &str| routing.targets.iter().find(|target| target.provider_id.as_deref() == Some(id)).unwrap();
    let server = ServerSettings {
        url: "https://192.0.2.1:6443".to_owned(),
        token: Some(Secret::new("token")),
        ca_file: Some(PathBuf::from("/etc/viola-router/ca.crt")),
    };
    let green = Target {
        provider_id: Some("green".to_owned()),
        namespace: "biz".to_owned(),
        mode: Mode::Local(Cluster::Server(server)),
    };
    assert_eq!(*target("green"), green);
    assert_eq!(routing.default.as_ref(), Some(&green));
    let blue = vec![PathBuf::from("/etc/viola-router/blue")];
    assert_eq!(target("blue").mode, Mode::Local(Cluster::Kubeconfig(blue.clone())));
    assert_eq!(target("blue").namespace, "multinic-system");
    assert_eq!(target("own").mode, Mode::Local(Cluster::Kubeconfig(Vec::new())));
    let Mode::Ssh(red) = &target("red").mode else { panic!("{:?}", target("red")) };
    assert_eq!((red.host.as_str(), red.port, red.user.as_str()), ("192.0.2.9", 2222, "root"));
    assert_eq!(red.kubectl, "/usr/local/bin/kubectl");
    assert!(red.password.is_some() && red.key.is_some());
    assert_eq!(routing.files(), blue);
    assert!(!format!("{routing:?}").contains("secret"));
}

#[test]
fn the_previous_ones_example_is_taken() {
    let text = "
strict: true
targets:
  - providerId: \"f5861c22-b252-42b5-a0c5-cfb1d245c819\"
    mode: ssh
    namespace: \"multinic-system\"
    sshHost: \"192.0.2.170\"
    sshUser: \"root\"
    sshPort: 22
    sshPass: \"password\"
    kubectlPath: \"kubectl\"
";
    assert!(parse(text).is_ok());
}

#[test]
fn strict_leaves_no_default() {
    let text = "default: {kubeApiServer: 'http://a'}\ntargets: []";
    assert!(parse(text).unwrap().default.is_some());
    assert!(parse(&format!("strict: true\n{text}")).unwrap().default.is_none());
}

#[test]
fn everything_wrong_is_named_and_no_value_shown() {
    for (text, parts) in [
        ("[]", &["must be a mapping"][..]),
        ("a: [", &["no YAML"]),
        ("kubeToken: \"hunter2", &["no YAML"]),
        ("targets: 7", &["targets: must be a list"]),
        ("target: []", &["target: there is no such field; known are default, strict, targets"]),
        ("strict: hunter2", &["strict: must be true or false"]),
        ("default: hunter2", &["default: must be a target, or the providerId of one"]),
        ("targets: [{mode: local}]", &["targets[0].providerId: is missing"]),
        ("targets: [{providerId: a}, {providerId: a}]", &["two have the providerId \"a\""]),
        ("targets: [{providerId: a, mode: hunter2}]", &["targets[0].mode: must be local or ssh"]),
        ("targets: [{providerId: a, sshpass: hunter2}]", &["targets[0].sshpass: there is no such field"]),
        ("targets: [{providerId: a, sshPass: hunter2}]", &["mode: must be ssh where"]),
        (
            "targets: [{providerId: a, mode: ssh, sshPort: hunter2}]",
            &[
                "sshPort: must be a port",
                "sshHost: is missing",
                "sshUser: is missing",
                "sshPass: is missing; or give sshKeyPath",
            ],
        ),
        ("targets: [{providerId: a, kubeToken: hunter2}]", &["kubeApiServer: is missing"]),
        ("targets: [{providerId: a, kubeApiServer: hunter2}]", &["kubeApiServer: must be a URL"]),
        ("targets: [{providerId: a, kubeApiServer: 'http://a', kubeconfigPath: b}]", &["does not go with"]),
        ("targets: [{providerId: a, namespace: A.b}]", &["is not the name of a namespace"]),
        (
            "targets: [{providerId: a, mode: ssh, sshHost: b, sshUser: c, sshPass: hunter2, sshOptions: [ProxyJump=d]}]",
            &["sshOptions: there is no option \"ProxyJump\" here; known are BatchMode, ConnectTimeout"],
        ),
    ] {
        let problems = parse(text).expect_err(text).join("; ");
        for part in parts {
            assert!(problems.contains(part), "{text}\n{problems}");
        }
        assert!(!problems.contains("hunter2"), "{problems}");
    }
}
