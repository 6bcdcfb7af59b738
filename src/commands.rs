//! What the binary can do, one command a file.

/// Writes a line to the standard error, if somebody is there to read it (`eprintln!` panics if not).
macro_rules! complain {
    ($($text:tt)*) => {
        drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($text)*))))
    };
}

mod demo;
mod inventory;
mod objects;
mod plan;
mod shutdown;
mod viola_test_api;

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use clap_complete::generate;

use crate::app::{self, Options};
use crate::settings::{Command, CrdKind, Settings, SettingsError};
use crate::telemetry::Traces;
use crate::{cli, telemetry};

/// The name by which the binary is the Viola test API, as the previous image's was.
const VIOLA_TEST_API: &str = "viola-test-api";

/// Reads the arguments (the program's name first) and the environment and does what they say.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = with_command_of_name(args);
    let (command, settings, warnings) = match Settings::parse(args, |name| std::env::var(name).ok()) {
        Ok(parsed) => parsed,
        Err(SettingsError::Help(text)) => {
            return print_out(&text);
        }
        Err(error) => {
            complain!("{error}");
            return ExitCode::from(2);
        }
    };
    let is_quiet = matches!(command, Command::Demo { .. } | Command::Plan(_) | Command::Inventory { .. });
    let traces = match start_traces(&settings).and_then(|traces| {
        init_logs(&settings, is_quiet, traces.as_ref()).map_err(|error| error.to_string())?;
        Ok(traces)
    }) {
        Ok(traces) => traces,
        Err(problem) => {
            complain!("{problem}");
            return ExitCode::from(2);
        }
    };
    for warning in warnings {
        tracing::warn!("{}", warning.0);
    }
    let code = match command {
        Command::Run => on_runtime(run(settings)),
        Command::Demo { duration } => on_runtime(demo::demo(settings, duration)),
        Command::Plan(plan) => on_runtime(plan::plan(settings, plan)),
        Command::ViolaTestApi(own) => on_runtime(viola_test_api::run(settings, *own)),
        Command::Crd(kind) => print_crd(kind),
        Command::Inventory { stores, action } => on_runtime(inventory::inventory(settings, stores, action)),
        Command::Completions(shell) => {
            let mut script = Vec::new();
            generate(shell, &mut cli::command(), "multinic-operator", &mut script);
            print_out(&String::from_utf8_lossy(&script))
        }
    };
    if let Some(traces) = traces {
        traces.stop();
    }
    code
}

/// The arguments without the program's name; a name that is a command's comes first as that command.
fn with_command_of_name(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.into_iter();
    let name = args.next().unwrap_or_default();
    let is_command = std::path::Path::new(&name).file_name().is_some_and(|name| name == VIOLA_TEST_API);
    is_command.then(|| VIOLA_TEST_API.into()).into_iter().chain(args).collect()
}

fn print_crd(kind: CrdKind) -> ExitCode {
    let yaml = match kind {
        CrdKind::OpenstackConfig => crate::kube::openstack_config::crd_yaml(),
        CrdKind::MultiNicNodeConfig => crate::kube::node_config::crd_yaml(),
    };
    match yaml {
        Ok(yaml) => print_out(&yaml),
        Err(error) => {
            complain!("the CustomResourceDefinition cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line; a reader that went away does not end the demo.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a command's result. A reader that went away early (`| head`) is no failure.
fn print_out(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain!("the output cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// A file that is named on the command line; `-` is standard input.
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

/// A demo or a plan speaks for itself: only what is wrong is logged beside it.
fn init_logs(
    settings: &Settings,
    is_quiet: bool,
    traces: Option<&Traces>,
) -> Result<(), telemetry::LogSetupError> {
    let is_default = settings.log.level == "info";
    let level = if is_quiet && is_default { "error".to_owned() } else { settings.log.level.clone() };
    telemetry::init_logs(&telemetry::LogSettings { format: settings.log.format, level }, traces)
}

/// Only where the environment names a collector.
fn start_traces(settings: &Settings) -> Result<Option<Traces>, String> {
    let Some(endpoint) = &settings.traces else { return Ok(None) };
    let ca_bundle = app::read_ca_bundle(settings.ca_bundle.as_deref()).map_err(|error| error.to_string())?;
    // Whoever started us may have installed it before: then that one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Traces::start(endpoint, ca_bundle.as_deref()).map(Some).map_err(|error| error.to_string())
}

fn on_runtime(work: impl Future<Output = ExitCode>) -> ExitCode {
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(work),
        Err(error) => {
            complain!("the runtime cannot be started: {error}");
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
