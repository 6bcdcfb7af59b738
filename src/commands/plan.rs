//! `plan`: one round of one object, or of all, printed and not sent.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use multinic_actors::boundary::{Cloud, ObserveRequest, SystemClock, Urgency};
use multinic_actors::domain::claims::Claims;
use multinic_actors::domain::config::{Config, Declared};
use multinic_actors::domain::inventory::Snapshot;

use crate::app;
use crate::kube::client::connect;
use crate::kube::raw_object::{Life, RawObject};
use crate::kube::secrets::KubeSecrets;
use crate::kube::validate::declare;
use crate::kube::watch::KubeSource;
use crate::openstack::OpenstackCloud;
use crate::plan::{ConfigPlan, table, totals, work_out};
use crate::secrets::SecretSource;
use crate::settings::{Output, Plan, PlanTarget, Settings};
use crate::source::{SourceEvent, SourceEvents};
use crate::source_dir::{FolderOptions, FolderSource, Format, parse};
use crate::store;

/// The objects to plan for, the Secrets they may name, and what keeps both alive.
struct Input {
    declared: Vec<Declared>,
    secrets: Arc<dyn SecretSource>,
    _source: Option<Box<dyn Any + Send>>,
}

/// How long the first complete list from a cluster may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a folder may take until all its files can be read.
const FOLDER_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) async fn plan(settings: Settings, plan: Plan) -> ExitCode {
    match run(&settings, &plan).await {
        Ok(plans) => {
            let text = match plan.output {
                Output::Table => table::render(&plans),
                Output::Json => serde_json::to_string_pretty(&plans).unwrap_or_default() + "\n",
            };
            match totals(&plans).failed {
                0 => super::print_out(&text),
                _ => {
                    super::print_out(&text);
                    ExitCode::FAILURE
                }
            }
        }
        Err(problem) => {
            eprintln!("plan: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: &Settings, plan: &Plan) -> Result<Vec<ConfigPlan>, String> {
    // Whoever started us may have installed it before: then that one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let known = match &plan.inventory {
        Some(path) => store::read(path).map_err(|error| error.to_string())?.snapshot,
        None => Snapshot::default(),
    };
    let input = match &plan.target {
        PlanTarget::File(file) => from_file(settings, plan, file)?,
        PlanTarget::All => match &settings.config_dir {
            Some(folder) => from_folder(settings, folder, &known).await?,
            None => from_cluster(settings).await?,
        },
    };
    let ca_bundle = app::read_ca_bundle(settings.ca_bundle.as_deref()).map_err(|error| error.to_string())?;
    let cloud =
        app::cloud(settings, ca_bundle, Arc::clone(&input.secrets)).map_err(|error| error.to_string())?;
    let mut claims = known_claims(&known, plan, &input.declared);
    let mut plans = Vec::new();
    // The older object is asked first, as it would win.
    let mut declared: Vec<_> = input.declared.iter().collect();
    declared.sort_by_key(|declared| match declared {
        Declared::Valid(config) => (Some(config.created), config.id.name.clone()),
        Declared::Invalid(invalid) => (None, invalid.id.name.clone()),
    });
    for declared in declared {
        plans.push(match declared {
            Declared::Invalid(invalid) => ConfigPlan::invalid(invalid),
            Declared::Valid(config) => plan_one(&cloud, config, &known, &mut claims).await,
        });
    }
    Ok(plans)
}

/// Who owns which node, by the inventory. Where every object is known, those that are gone own nothing.
fn known_claims(known: &Snapshot, plan: &Plan, declared: &[Declared]) -> Claims {
    let mut claims = Claims::default();
    claims.learn(known);
    if matches!(plan.target, PlanTarget::All) {
        claims.retain_configs(&declared.iter().map(|declared| declared.id().name.clone()).collect());
    }
    for declared in declared {
        if let Declared::Valid(config) = declared {
            let listed = config.vms.iter().cloned().collect();
            claims.retain_vms(&config.id.name, &config.provider, &listed);
        }
    }
    claims
}

async fn plan_one(
    cloud: &OpenstackCloud,
    config: &Arc<Config>,
    known: &Snapshot,
    claims: &mut Claims,
) -> ConfigPlan {
    let observation = async {
        let session = cloud.session(Arc::clone(config), false).await?;
        let request = ObserveRequest {
            config: Arc::clone(config),
            vms: config.vms.clone(),
            urgency: Urgency::Event,
            drop_caches: false,
        };
        cloud.observe(session, request).await
    };
    match observation.await {
        Ok(observation) => work_out(config, observation, known, claims),
        Err(error) => ConfigPlan::unread(config, &error),
    }
}

fn from_file(settings: &Settings, plan: &Plan, file: &Path) -> Result<Input, String> {
    let text = read(file)?;
    let format = match file.extension().is_some_and(|extension| extension == "json") {
        true => Format::Json,
        false => Format::Yaml,
    };
    let parsed = parse(&text, format);
    if let Some(problem) = parsed.problem {
        return Err(format!("{}: {problem}", file.display()));
    }
    if parsed.objects.configs.is_empty() {
        return Err(format!("{}: there is no OpenstackConfig in it", file.display()));
    }
    let now = Timestamp::now();
    let is_dated = |raw: &RawObject| plan.created.or(raw.created).is_some();
    if !parsed.objects.configs.iter().all(is_dated) {
        eprintln!(
            "plan: an object without a creation time is planned as if it was created now: older ports are"
        );
        eprintln!("      left out as BeforeBaseline; give the time with --created");
    }
    let life = |raw: &RawObject| Life {
        uid: raw.uid.clone().unwrap_or_else(|| "".into()),
        generation: raw.generation.unwrap_or(1),
        created: plan.created.or(raw.created).unwrap_or(now),
        // A plan sends nothing: it need not know more than this run does.
        is_remembered: true,
    };
    let declared =
        parsed.objects.configs.iter().map(|raw| declare(raw, &life(raw), &settings.defaults)).collect();
    Ok(Input { declared, secrets: Arc::new(parsed.objects), _source: None })
}

fn read(file: &Path) -> Result<String, String> {
    let read = match file == Path::new("-") {
        true => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        false => std::fs::read_to_string(file),
    };
    read.map_err(|error| format!("{}: {error}", file.display()))
}

async fn from_folder(settings: &Settings, folder: &Path, known: &Snapshot) -> Result<Input, String> {
    let first_seen: BTreeMap<_, _> =
        known.configs.iter().filter_map(|(name, state)| Some((name.clone(), state.first_seen?))).collect();
    let (source, events) = FolderSource::start(
        folder,
        FolderOptions::default(),
        settings.defaults.clone(),
        Some(first_seen),
        Arc::new(SystemClock),
    )
    .await
    .map_err(|error| error.to_string())?;
    let all = tokio::time::timeout(FOLDER_TIMEOUT, until_synced(events)).await;
    let declared = all.map_err(|_| format!("{}: not every file can be read", folder.display()))?;
    let secrets = Arc::new(source.secrets());
    Ok(Input { declared, secrets, _source: Some(Box::new(source)) })
}

async fn from_cluster(settings: &Settings) -> Result<Input, String> {
    let client = connect(&settings.kube.kubeconfig).await.map_err(|error| error.to_string())?;
    let (source, events) =
        KubeSource::start(&client, &settings.kube.namespaces, settings.defaults.clone(), rand::random());
    let listed = tokio::time::timeout(LIST_TIMEOUT, until_synced(events)).await;
    let declared = listed.map_err(|_| {
        let problem = source.health().check().problem.unwrap_or_default();
        format!("the OpenstackConfigs could not be listed: {problem}")
    })?;
    let secrets = Arc::new(KubeSecrets::new(client));
    Ok(Input { declared, secrets, _source: Some(Box::new(source)) })
}

/// Every object that there is.
async fn until_synced(mut events: SourceEvents) -> Vec<Declared> {
    let mut declared = BTreeMap::new();
    while let Some(event) = events.recv().await {
        match event {
            SourceEvent::Apply(object) => drop(declared.insert(object.id().name.clone(), object)),
            SourceEvent::Delete(id) => drop(declared.remove(&id.name)),
            SourceEvent::FileProblem { path, problem } => eprintln!("{}: {problem}", path.display()),
            SourceEvent::Synced => break,
            SourceEvent::FirstSeen { .. } | SourceEvent::FileRecovered { .. } => {}
        }
    }
    declared.into_values().collect()
}
