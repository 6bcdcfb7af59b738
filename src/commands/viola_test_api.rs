//! `viola-test-api`: stands in for Viola.

use std::process::ExitCode;

use super::shutdown;
use crate::settings::Settings;
use crate::viola_api::{self, Surroundings};

pub(super) async fn run(settings: Settings, own: viola_api::Settings) -> ExitCode {
    let surroundings = Surroundings {
        kubeconfig: settings.kube.kubeconfig,
        token_file: settings.inventory.token_file,
        tls: settings.inventory.tls,
    };
    match viola_api::run(own, surroundings, shutdown::token()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
