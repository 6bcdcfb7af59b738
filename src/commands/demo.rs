//! `demo`: the whole job on loopback in one process, told in plain words.

mod narrator;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{say, shutdown};
use crate::app::{self, Options, Running};
use crate::settings::values::ListenAddress;
use crate::settings::{InventorySettings, Settings};
use crate::source_dir::FolderOptions;
use narrator::Narrator;
use world::{Life, World};

/// How often the demo looks whether there is something to tell.
const GLANCE: Duration = Duration::from_millis(100);
/// How long before its end the demo leaves the cloud alone, so that everything can be delivered.
const CALM: Duration = Duration::from_secs(6);
/// How long at most it waits at its end for the last delivery.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn demo(settings: Settings, duration: Option<Duration>) -> ExitCode {
    match run(settings, duration).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("demo: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether what was delivered equals what the simulated cloud has.
async fn run(settings: Settings, duration: Option<Duration>) -> Result<bool, String> {
    let folder =
        tempfile::tempdir().map_err(|error| format!("a temporary folder cannot be made: {error}"))?;
    let world = World::start().map_err(|error| format!("the simulated cloud cannot start: {error}"))?;
    world.write_configs(folder.path()).map_err(|error| format!("{}: {error}", folder.path().display()))?;
    let settings = demo_settings(settings, folder.path().to_owned()).await;
    let options = Options {
        folder: FolderOptions { debounce: Duration::from_millis(50), ..FolderOptions::default() },
        ..Options::default()
    };
    let running = app::start(&settings, options).await.map_err(|error| error.to_string())?;
    introduce(&running, folder.path().join("configs.yaml"), duration);
    let is_right = watch(&running, &world, duration, shutdown::token()).await;
    running.stop().await;
    say(format_args!("stopped; every delivery is in the inventory"));
    Ok(is_right)
}

/// Everything on loopback, the inventory in the temporary folder; the usual port if it is free.
async fn demo_settings(settings: Settings, folder: PathBuf) -> Settings {
    let usual = settings.inventory.address.port;
    let port = match TcpListener::bind(("127.0.0.1", usual)).await {
        Ok(_) => usual,
        Err(_) => 0,
    };
    let local = |port| ListenAddress { host: Some("127.0.0.1".to_owned()), port };
    Settings {
        inventory: InventorySettings {
            enabled: true,
            address: local(port),
            db_path: folder.join("inventory").join("inventory.json"),
            ..settings.inventory
        },
        metrics_address: Some(local(0)),
        health_address: Some(local(0)),
        config_dir: Some(folder),
        ..settings
    }
}

fn introduce(running: &Running, configs: PathBuf, duration: Option<Duration>) {
    let api = format!("http://{}", running.api);
    say(format_args!("multinic-operator demo: a simulated OpenStack, a Viola in memory, two configs"));
    say(format_args!(""));
    say(format_args!("  the configs       {}", configs.display()));
    say(format_args!("  their state       {api}/v1/configs"));
    say(format_args!("  the actor tree    {api}/v1/actors"));
    say(format_args!("  delivered nodes   {api}/v1/interfaces/providers"));
    if let Some(metrics) = running.metrics {
        say(format_args!("  metrics           http://{metrics}/metrics"));
    }
    say(format_args!(""));
    match duration {
        Some(duration) => say(format_args!("ends by itself after {duration:?}; Ctrl-C ends it before")),
        None => say(format_args!("Ctrl-C ends it")),
    }
    say(format_args!(""));
}

async fn watch(
    running: &Running,
    world: &World,
    duration: Option<Duration>,
    stop: CancellationToken,
) -> bool {
    let start = Instant::now();
    let mut narrator = Narrator::new(start);
    let mut life = Life::new();
    let end = duration.map(|duration| start + duration);
    let calm_from = end.map(|end| end.checked_sub(CALM).unwrap_or(start));
    loop {
        let now = Instant::now();
        narrator.tell(running, world);
        let is_over = stop.is_cancelled() || end.is_some_and(|end| now >= end);
        if is_over {
            break;
        }
        if calm_from.is_none_or(|calm| now < calm)
            && let Some(what) = life.go_on(world, now - start)
        {
            narrator.say(&format!("cloud: {what}"));
        }
        tokio::select! {
            () = tokio::time::sleep(GLANCE) => {}
            () = stop.cancelled() => {}
        }
    }
    conclude(&mut narrator, running, world).await
}

async fn conclude(narrator: &mut Narrator, running: &Running, world: &World) -> bool {
    narrator.say("comparing what was delivered with what the cloud has");
    let deadline = Instant::now() + PATIENCE;
    loop {
        narrator.tell(running, world);
        let differences = world.differences();
        if differences.is_empty() {
            narrator.say("everything that was delivered equals what the cloud has");
            return true;
        }
        if Instant::now() >= deadline {
            for difference in differences {
                narrator.say(&format!("WRONG: {difference}"));
            }
            return false;
        }
        tokio::time::sleep(GLANCE).await;
    }
}
