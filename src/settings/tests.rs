use super::*;

type Parsed = Result<(Command, Settings, Vec<Warning>), SettingsError>;

fn parse_with(args: &[&str], env: &[(&str, &str)]) -> Parsed {
    Settings::parse(args.iter().map(OsString::from), |name| {
        let found = env.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

fn settings(args: &[&str], env: &[(&str, &str)]) -> Settings {
    match parse_with(args, env) {
        Ok((_, settings, _)) => settings,
        Err(error) => panic!("{args:?} {env:?}: {error}"),
    }
}

fn warnings(args: &[&str]) -> Vec<String> {
    let (_, _, warnings) = parse_with(args, &[]).unwrap();
    warnings.into_iter().map(|warning| warning.0).collect()
}

fn problems(args: &[&str], env: &[(&str, &str)]) -> Vec<String> {
    match parse_with(args, env) {
        Err(SettingsError::Bad(problems)) => problems,
        other => panic!("{args:?} {env:?}: {other:?}"),
    }
}

fn command(args: &[&str]) -> Command {
    parse_with(args, &[]).unwrap().0
}

#[test]
fn without_anything_said_it_runs_with_the_documented_defaults() {
    let (command, settings, warnings) = parse_with(&[], &[]).unwrap();
    assert_eq!((command, warnings), (Command::Run, vec![]));
    let expect = Settings {
        config_dir: None,
        kube: KubeSettings::default(),
        inventory: InventorySettings {
            enabled: true,
            address: ListenAddress::any(18081),
            db_path: "/var/lib/multinic-operator/inventory.json".into(),
            token_file: None,
            tls: None,
        },
        viola: DeliverySettings { timeout: Duration::from_secs(30), insecure_tls: false, token_file: None },
        metrics_address: Some(ListenAddress::any(8080)),
        health_address: Some(ListenAddress::any(8081)),
        ca_bundle: None,
        policy_file: None,
        defaults: Defaults::default(),
        cloud: CloudSettings { max_in_flight: 4, rate: 10.0, burst: 20, neutron_request_bytes: 3800 },
        log: LogSettings { format: None, level: "info".into() },
    };
    assert_eq!(settings, expect);
}

#[test]
fn a_flag_goes_before_the_environment_and_an_empty_variable_is_not_set() {
    let env = [
        ("INVENTORY_ENABLED", "0"),
        ("INVENTORY_ADDR", "127.0.0.1:1"),
        ("INVENTORY_DB_PATH", "/data/i.json"),
        ("VIOLA_ENDPOINT", "http://viola/"),
        ("VIOLA_TIMEOUT", "1m"),
        ("VIOLA_INSECURE_TLS", "True"),
        ("VIOLA_TOKEN_FILE", "/token"),
    ];
    let from_env = settings(&[], &env);
    assert!(!from_env.inventory.enabled);
    assert_eq!(from_env.inventory.address.to_string(), "127.0.0.1:1");
    assert_eq!(from_env.inventory.db_path, PathBuf::from("/data/i.json"));
    assert_eq!(from_env.defaults.viola_endpoint.as_deref(), Some("http://viola"));
    let expect = DeliverySettings {
        timeout: Duration::from_secs(60),
        insecure_tls: true,
        token_file: Some("/token".into()),
    };
    assert_eq!(from_env.viola, expect);

    let args = [
        "--inventory-enabled",
        "--inventory-addr=:2",
        "--inventory-db-path",
        "x",
        "--viola-endpoint=https://v",
        "--viola-timeout=5s",
        "--viola-insecure-tls=false",
    ];
    let from_flags = settings(&args, &env);
    assert!(from_flags.inventory.enabled && !from_flags.viola.insecure_tls);
    assert_eq!(from_flags.inventory.address, ListenAddress::any(2));
    assert_eq!(from_flags.inventory.db_path, PathBuf::from("x"));
    assert_eq!(from_flags.viola.timeout, Duration::from_secs(5));
    assert_eq!(from_flags.defaults.viola_endpoint.as_deref(), Some("https://v"));

    let blank = env.map(|(name, _)| (name, " "));
    assert_eq!(settings(&[], &blank), settings(&[], &[]));
}

#[test]
fn a_timeout_of_zero_is_the_default() {
    assert_eq!(settings(&[], &[("VIOLA_TIMEOUT", "0")]).viola.timeout, Duration::from_secs(30));
}

#[test]
fn booleans_are_written_as_in_go() {
    for (arg, expect) in [
        ("--inventory-enabled", true),
        ("-inventory-enabled", true),
        ("--inventory-enabled=false", false),
        ("-inventory-enabled=F", false),
        ("--inventory-enabled=1", true),
        ("--inventory-enabled=0", false),
    ] {
        assert_eq!(settings(&[arg], &[]).inventory.enabled, expect, "{arg}");
    }
}

#[test]
fn one_dash_is_as_good_as_two() {
    let both = [
        vec!["--metrics-bind-address=:9", "--health-probe-bind-address", ":10", "--log-level", "debug"],
        vec!["-metrics-bind-address=:9", "-health-probe-bind-address", ":10", "-log-level", "debug"],
    ];
    for args in both {
        let settings = settings(&args, &[]);
        assert_eq!(settings.metrics_address, Some(ListenAddress::any(9)));
        assert_eq!(settings.health_address, Some(ListenAddress::any(10)));
        assert_eq!(settings.log.level, "debug");
    }
}

#[test]
fn zero_switches_a_server_off() {
    let settings = settings(&["--metrics-bind-address=0", "--health-probe-bind-address="], &[]);
    assert_eq!((settings.metrics_address, settings.health_address), (None, None));
}

#[test]
fn the_arguments_of_the_previous_chart_start_without_an_error() {
    assert_eq!(warnings(&["--leader-elect", "--health-probe-bind-address=:8081"]), [""; 0]);
    let election = settings(&["--leader-elect"], &[]).kube.election.unwrap();
    assert_eq!(election.id, "9a0428b3.example.com");
}

#[test]
fn a_selector_that_is_none_is_refused_and_a_folder_has_none() {
    let kube = settings(&["--config-selector= shard in (a, b),!old ", "--manage-crds"], &[]).kube;
    assert_eq!(kube.selector.unwrap().to_string(), "shard in (a, b),!old");
    assert!(kube.manages_crds);
    assert_eq!(settings(&["--config-selector="], &[]).kube.selector, None);
    let found = problems(&["--config-selector=a b", "--config-dir=/c"], &[]);
    assert!(found[0].starts_with("--config-selector needs a cluster"), "{found:?}");
    assert!(found[1].starts_with("--config-selector: "), "{found:?}");
}

#[test]
fn an_election_knows_its_lease_and_its_pod() {
    let env = [("POD_NAMESPACE", "ops"), ("POD_NAME", "operator-1"), ("HOSTNAME", "")];
    let election = settings(&["--leader-elect=true", "--leader-election-id=shard-b"], &env).kube.election;
    let expect = ElectionSettings {
        id: "shard-b".to_owned(),
        namespace: Some("ops".to_owned()),
        pod: Some("operator-1".to_owned()),
        host: None,
    };
    assert_eq!(election, Some(expect));
    assert_eq!(settings(&["--leader-election-id=x"], &env).kube.election, None);
    let found = problems(&["--leader-elect", "--leader-election-id=A b", "--config-dir=/c"], &[]);
    assert!(found[0].starts_with("--leader-election-id: must be a name"), "{found:?}");
    assert!(found[1].starts_with("--leader-elect needs a cluster"), "{found:?}");
}

#[test]
fn every_flag_of_the_previous_operator_is_taken() {
    let flags = [
        "metrics-bind-address=:8443",
        "metrics-secure=false",
        "metrics-cert-path=/c",
        "metrics-cert-name=tls.crt",
        "metrics-cert-key=tls.key",
        "health-probe-bind-address=:8081",
        "leader-elect=false",
        "webhook-cert-path=/c",
        "webhook-cert-name=tls.crt",
        "webhook-cert-key=tls.key",
        "enable-http2",
        "kubeconfig=/k",
        "zap-devel=true",
        "zap-encoder=json",
        "zap-log-level=debug",
        "zap-stacktrace-level=error",
        "zap-time-encoding=iso8601",
    ];
    for dashes in ["-", "--"] {
        let args: Vec<String> = flags.iter().map(|flag| format!("{dashes}{flag}")).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let warned = warnings(&args);
        for name in ["metrics-cert-path", "webhook-cert-key", "zap-time-encoding"] {
            assert!(warned.iter().any(|line| line.starts_with(&format!("--{name} "))), "{name}: {warned:?}");
        }
        for name in ["metrics-secure", "leader-elect", "metrics-bind-address"] {
            assert!(!warned.iter().any(|line| line.contains(name)), "{name}: {warned:?}");
        }
    }
    assert!(warnings(&["--metrics-secure"])[0].contains("plain HTTP"));
}

#[test]
fn zaps_level_and_encoder_still_count_unless_ours_are_given() {
    let log = |args: &[&str]| settings(args, &[]).log;
    let check = |args: &[&str], format: Option<LogFormat>, level: &str| {
        assert_eq!(log(args), LogSettings { format, level: level.into() }, "{args:?}");
    };
    check(&["--zap-log-level=error", "--zap-encoder=json"], Some(LogFormat::Json), "error");
    check(&["--zap-log-level", "1", "--zap-encoder=console"], Some(LogFormat::Human), "debug");
    check(&["--zap-log-level=5"], None, "trace");
    check(
        &["--zap-log-level=5", "--log-level=warn", "--zap-encoder=json", "--log-format=human"],
        Some(LogFormat::Human),
        "warn",
    );
}

#[test]
fn what_is_not_there_yet_is_warned_of_by_name() {
    for flag in ["--cluster-namespaces=a", "--magnum-namespace=m", "--audit-log=a"] {
        let name = flag.split('=').next().unwrap();
        assert_eq!(
            warnings(&[flag]),
            [format!("{name} is not supported yet by this version and is ignored")]
        );
    }
    assert_eq!(settings(&["--policy-file=p"], &[]).policy_file, Some("p".into()));
    assert_eq!(settings(&["--policy-file="], &[]).policy_file, None);
    assert_eq!(warnings(&["--manage-crds=0", "--policy-file="]), [""; 0]);
}

#[test]
fn states_are_kept_beside_objects_and_not_beside_files() {
    let is_on = |args: &[&str]| {
        let parsed = Settings::parse(args.iter().map(Into::into), |_| None);
        parsed.unwrap().1.kube.state_configmap
    };
    assert!(is_on(&["--state-configmap"]) && !is_on(&[]) && !is_on(&["--state-configmap=false"]));
    assert!(!is_on(&["--state-configmap", "--config-dir=/d"]));
    assert_eq!(
        warnings(&["--state-configmap", "--config-dir=/d"]),
        ["--state-configmap has no effect with --config-dir: there is no object to keep it beside"]
    );
}

#[test]
fn all_bad_settings_stand_in_one_message() {
    let found = problems(
        &[
            "--inventory-adr=:1",
            "--nonsense",
            "--metrics-bind-address=x",
            "--interface-order=Name",
            "--cloud-rate=0",
            "--leader-elect=maybe",
            "--api-tls-cert=c",
        ],
        &[("VIOLA_ENDPOINT", "http://u:pa55@viola"), ("VIOLA_TIMEOUT", "soon"), ("INVENTORY_ENABLED", "yes")],
    );
    for expect in [
        "--inventory-adr: there is no such flag; did you mean --inventory-addr?",
        "--nonsense: there is no such flag",
        "--metrics-bind-address: must be an address such as :8080 or 127.0.0.1:8080, or 0",
        "--interface-order: must be one of Sticky, MAC, Subnet",
        "--cloud-rate: must be a number from 0.01 to 10000",
        "--leader-elect: must be true or false",
        "--api-tls-cert and --api-tls-key need each other",
        "VIOLA_ENDPOINT: must not contain a user name or password",
        "VIOLA_TIMEOUT: must be a duration such as 30s, 2m or 1m30s",
        "INVENTORY_ENABLED: must be true or false",
    ] {
        assert!(found.iter().any(|problem| problem == expect), "{expect:?} is not in {found:#?}");
    }
    assert_eq!(found.len(), 10, "{found:#?}");
    let message = SettingsError::Bad(found).to_string();
    assert!(message.starts_with("bad settings:\n  ") && !message.contains("pa55"), "{message}");
}

#[test]
fn each_setting_refuses_its_bad_values() {
    for (flag, values) in [
        ("inventory-enabled", vec!["yes", "2"]),
        ("inventory-addr", vec!["18081", "x:y"]),
        ("viola-endpoint", vec!["viola", "ftp://v", "http://v?x"]),
        ("viola-timeout", vec!["30", "-1s", "1ms"]),
        ("viola-insecure-tls", vec!["maybe"]),
        ("metrics-bind-address", vec!["8080"]),
        ("health-probe-bind-address", vec!["8081"]),
        ("interface-order", vec!["", "Random"]),
        ("change-policy", vec!["", "None"]),
        ("cloud-max-in-flight", vec!["0", "-1", "x", "1.5"]),
        ("cloud-rate", vec!["0", "-1", "NaN", "inf"]),
        ("cloud-burst", vec!["0", "x"]),
        ("neutron-request-bytes", vec!["0", "100", "x"]),
        ("log-format", vec!["xml"]),
        ("log-level", vec!["", "a=b=c"]),
        ("zap-log-level", vec!["loud"]),
        ("zap-encoder", vec!["xml"]),
        ("metrics-secure", vec!["perhaps"]),
    ] {
        for value in values {
            let found = problems(&[&format!("--{flag}={value}")], &[]);
            let expect = if flag.is_empty() { String::new() } else { format!("--{flag}: must") };
            assert!(found.len() == 1 && found[0].starts_with(&expect), "{flag}={value}: {found:?}");
        }
    }
}

#[test]
fn settings_that_have_no_variable_are_read_from_flags() {
    let settings = settings(
        &[
            "--config-dir=/configs",
            "--api-token-file=/t",
            "--api-tls-cert=/c",
            "--api-tls-key=/k",
            "--ca-bundle=/ca",
            "--interface-order=mac",
            "--change-policy=AddOnly",
            "--cloud-max-in-flight=8",
            "--cloud-rate=2.5",
            "--cloud-burst=5",
            "--neutron-request-bytes=15000",
            "--log-level=info,multinic_operator=debug",
        ],
        &[],
    );
    assert_eq!(settings.config_dir, Some("/configs".into()));
    assert_eq!(settings.inventory.token_file, Some("/t".into()));
    let tls = TlsFiles { cert: "/c".into(), key: "/k".into() };
    assert_eq!(settings.inventory.tls, Some(tls));
    assert_eq!(settings.ca_bundle, Some("/ca".into()));
    assert_eq!(settings.defaults.interface_order, InterfaceOrder::Mac);
    assert_eq!(settings.defaults.change_policy, ChangePolicy::AddOnly);
    let limits = CloudSettings { max_in_flight: 8, rate: 2.5, burst: 5, neutron_request_bytes: 15000 };
    assert_eq!(settings.cloud, limits);
    assert_eq!(settings.log.level, "info,multinic_operator=debug");
}

#[test]
fn commands_are_read_and_flags_may_stand_on_either_side() {
    assert_eq!(command(&["run"]), Command::Run);
    assert_eq!(command(&["crd"]), Command::Crd(CrdKind::OpenstackConfig));
    assert_eq!(command(&["crd", "MultiNicNodeConfig"]), Command::Crd(CrdKind::MultiNicNodeConfig));
    assert_eq!(command(&["demo"]), Command::Demo { duration: None });
    let duration = Some(Duration::from_secs(60));
    assert_eq!(command(&["demo", "--for", "1m"]), Command::Demo { duration });
    assert_eq!(command(&["completions", "bash"]), Command::Completions(clap_complete::Shell::Bash));
    for args in [["--config-dir=/c", "run"], ["run", "--config-dir=/c"], ["run", "-config-dir=/c"]] {
        assert_eq!(settings(&args, &[]).config_dir, Some("/c".into()));
    }
}

#[test]
fn a_plan_is_for_a_file_or_for_all() {
    let plan = |args: &[&str]| match command(args) {
        Command::Plan(plan) => plan,
        other => panic!("{other:?}"),
    };
    let file = Plan {
        target: PlanTarget::File("c.yaml".into()),
        created: Some("2026-01-10T00:00:00Z".parse().unwrap()),
        inventory: Some("i.json".into()),
        output: Output::Json,
    };
    let rest = ["--created=2026-01-10T00:00:00Z", "--inventory=i.json", "-o", "json"];
    for start in [vec!["plan", "-f", "c.yaml"], vec!["plan", "-fc.yaml"], vec!["plan", "--file=c.yaml"]] {
        assert_eq!(plan(&[start.as_slice(), &rest].concat()), file);
    }
    assert_eq!(plan(&["plan", "--all", "-ojson"]).target, PlanTarget::All);
    assert_eq!(plan(&["plan", "-f", "-"]).target, PlanTarget::File("-".into()));
    assert_eq!(problems(&["plan"], &[]), ["plan: needs -f FILE or --all"]);
    assert_eq!(problems(&["plan", "--all", "-f", "x"], &[]), ["plan: -f and --all exclude each other"]);
    assert_eq!(
        problems(&["plan", "--all", "--created=now", "--output=xml"], &[]),
        ["--created: must be a time such as 2026-01-10T00:00:00Z", "--output: must be one of table, json"]
    );
}

#[test]
fn help_is_no_error_and_a_missing_value_or_wrong_command_is() {
    for args in [vec!["--help"], vec!["-h"], vec!["--version"], vec!["plan", "--help"]] {
        assert!(matches!(parse_with(&args, &[]), Err(SettingsError::Help(_))), "{args:?}");
    }
    for args in [vec!["start"], vec!["--viola-endpoint"], vec!["completions", "tcsh"], vec!["run", "x"]] {
        assert_eq!(problems(&args, &[]).len(), 1, "{args:?}");
    }
}

#[test]
fn the_command_line_is_consistent() {
    crate::cli::command().debug_assert();
}

#[test]
fn the_kubeconfig_comes_from_the_flag_then_the_variable() {
    let files = |args: &[&str], env: &[(&str, &str)]| settings(args, env).kube.kubeconfig;
    let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
    let variable = [("KUBECONFIG", "/a:/b:")];
    assert_eq!(files(&[], &[]), paths(&[]));
    assert_eq!(files(&[], &variable), paths(&["/a", "/b"]));
    assert_eq!(files(&["-kubeconfig", "/c"], &variable), paths(&["/c"]));
    assert_eq!(files(&["--kubeconfig="], &variable), paths(&["/a", "/b"]));
}

#[test]
fn namespaces_to_watch_are_names() {
    let namespaces = |text: &str| settings(&["--watch-namespaces", text], &[]).kube.namespaces;
    assert_eq!(Vec::from_iter(namespaces("b, a,,b ")), ["a", "b"]);
    assert_eq!(Vec::from_iter(namespaces("")), Vec::<String>::new());
    let problem = Settings::parse(["--watch-namespaces=a,B.c".into()], |_| None).unwrap_err().to_string();
    assert!(problem.contains("--watch-namespaces: \"B.c\" is not the name of a namespace"), "{problem}");
}

#[test]
fn a_viola_timeout_beyond_the_trees_own_deadline_is_refused() {
    let longest = settings(&["--viola-timeout=5m"], &[]);
    assert_eq!(longest.viola.timeout, Duration::from_secs(300));
    for (args, env, named) in [
        (&["--viola-timeout=5m1s"][..], &[][..], "--viola-timeout"),
        (&[], &[("VIOLA_TIMEOUT", "1h")], "VIOLA_TIMEOUT"),
    ] {
        let [problem] = &problems(args, env)[..] else { panic!("one problem") };
        assert!(problem.contains(named) && problem.contains("at most 5m"), "{problem}");
    }
}
