//! `plan`: one round of one object, or of all, printed and not sent.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use jiff::Timestamp;
use multinic_actors::boundary::{Cloud, ObserveRequest, Urgency};
use multinic_actors::domain::claims::Claims;
use multinic_actors::domain::config::{Config, Declared};
use multinic_actors::domain::inventory::Snapshot;

use super::objects::{self, Objects};
use crate::app;
use crate::kube::raw_object::{Life, RawObject};
use crate::kube::validate::declare;
use crate::openstack::OpenstackCloud;
use crate::plan::{ConfigPlan, table, totals, work_out};
use crate::settings::{Output, Plan, PlanTarget, Settings};
use crate::source_dir::{Format, parse};
use crate::store;

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
            complain!("plan: {problem}");
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
    let mut input = match &plan.target {
        PlanTarget::File(file) => from_file(settings, plan, file)?,
        PlanTarget::All => objects::all(settings, &known).await?,
    };
    let ca_bundle = app::read_ca_bundle(settings.ca_bundle.as_deref()).map_err(|error| error.to_string())?;
    let policy_file = app::open_policy(settings).await.map_err(|error| error.to_string())?;
    let policy = policy_file.map(|file| file.handle()).unwrap_or_default();
    input.declared = input.declared.into_iter().map(|declared| policy.judge(declared)).collect();
    let cloud = app::cloud(settings, ca_bundle, &policy, Arc::clone(&input.secrets))
        .map_err(|error| error.to_string())?;
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

fn from_file(settings: &Settings, plan: &Plan, file: &Path) -> Result<Objects, String> {
    let text = super::read(file)?;
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
        complain!(
            "plan: an object without a creation time is planned as if it was created now: older ports are"
        );
        complain!("      left out as BeforeBaseline; give the time with --created");
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
    Ok(Objects { declared, secrets: Arc::new(parsed.objects), _source: None })
}
