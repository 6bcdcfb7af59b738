//! What the binary can do, one command a file.

mod demo;
mod plan;
mod shutdown;

use std::ffi::OsString;
use std::process::ExitCode;

use clap_complete::generate;

use crate::app::{self, Options};
use crate::settings::{Command, Settings, SettingsError};
use crate::{cli, telemetry};

/// Reads the arguments and the environment and does what they say.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (command, settings, warnings) = match Settings::parse(args, |name| std::env::var(name).ok()) {
        Ok(parsed) => parsed,
        Err(SettingsError::Help(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let is_quiet = matches!(command, Command::Demo { .. } | Command::Plan(_));
    if let Err(error) = init_logs(&settings, is_quiet) {
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    for warning in warnings {
        tracing::warn!("{}", warning.0);
    }
    match command {
        Command::Run => on_runtime(run(settings)),
        Command::Demo { duration } => on_runtime(demo::demo(settings, duration)),
        Command::Plan(plan) => on_runtime(plan::plan(settings, plan)),
        Command::Crd => print_crd(),
        Command::Completions(shell) => {
            generate(shell, &mut cli::command(), "multinic-operator", &mut std::io::stdout());
            ExitCode::SUCCESS
        }
    }
}

fn print_crd() -> ExitCode {
    match crate::kube::openstack_config::crd_yaml() {
        Ok(yaml) => {
            print!("{yaml}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("the CustomResourceDefinition cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A demo or a plan speaks for itself: only what is wrong is logged beside it.
fn init_logs(settings: &Settings, is_quiet: bool) -> Result<(), telemetry::LogSetupError> {
    let is_default = settings.log.level == "info";
    let level = if is_quiet && is_default { "error".to_owned() } else { settings.log.level.clone() };
    telemetry::init_logs(&telemetry::LogSettings { format: settings.log.format, level })
}

fn on_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => {
            eprintln!("the runtime cannot be started: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: Settings) -> ExitCode {
    match app::run(&settings, Options::default(), shutdown::token()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
