//! What people are told of the workload cluster and its agents.

use super::{DeliveryReport, WorkloadReport, cut};
use crate::domain::config::{Config, DeliveryMode};
use crate::domain::status::{
    Configured, ConfiguredReason, FailedNode, MAX_LISTED, NodeCounts, WorkloadStatus,
};

pub(super) fn counts(report: Option<&WorkloadReport>) -> NodeCounts {
    NodeCounts {
        configured: report.map(|report| report.configured),
        in_progress: report.map(|report| report.in_progress),
        failed: report.map(|report| report.failed.len() as u32),
        ..NodeCounts::default()
    }
}

pub(super) fn failed(report: Option<&WorkloadReport>) -> Vec<FailedNode> {
    let failed = report.into_iter().flat_map(|report| &report.failed).take(MAX_LISTED);
    failed.map(|(node, words)| FailedNode { node: node.clone(), reason: cut(words) }).collect()
}

pub(super) fn workload(config: &Config, delivery: &DeliveryReport) -> Option<WorkloadStatus> {
    let mode = match config.delivery {
        DeliveryMode::Viola => return None,
        DeliveryMode::Verify(_) => "Verify",
        DeliveryMode::Apply(_) => "Apply",
    };
    let report = delivery.workload.as_ref()?;
    Some(WorkloadStatus { mode, reach: report.reach.clone(), configured: configured(report, delivery) })
}

/// What is wrong there, where nothing else is: it is the last error as long as it lasts.
pub(super) fn problem(workload: Option<&WorkloadStatus>) -> Option<String> {
    let configured = &workload?.configured;
    (configured.status == Some(false)).then(|| configured.message.clone())
}

/// The condition `Configured`. What somebody has to do something about comes first.
fn configured(report: &WorkloadReport, delivery: &DeliveryReport) -> Configured {
    let said = |status, reason, message: String| Configured { status, reason, message: cut(&message) };
    if let [(node, words), ..] = report.conflicts.as_slice() {
        let message = format!("{}, first node {node}: {words}", nodes(report.conflicts.len()));
        return said(Some(false), ConfiguredReason::FieldConflict, message);
    }
    if let [(node, words), ..] = report.failed.as_slice() {
        let message =
            format!("the agents of {} failed, first node {node}: {words}", nodes(report.failed.len()));
        return said(Some(false), ConfiguredReason::AgentFailed, message);
    }
    if report.reach.is_reachable != Some(true) {
        let problem = report.reach.problem.as_deref().unwrap_or("it is being looked at");
        let message = format!("the workload cluster is not known as it is: {problem}");
        return said(None, ConfiguredReason::ClusterUnknown, message);
    }
    if let [node, ..] = report.drifted.as_slice() {
        let message = format!(
            "in the workload cluster {} have something else than what was delivered, first node {node}",
            nodes(report.drifted.len())
        );
        return said(Some(false), ConfiguredReason::Drifted, message);
    }
    let all = report.configured + report.in_progress;
    match report.in_progress > 0 || delivery.outstanding > 0 {
        true => {
            let message = format!("{} of {all} nodes are configured", report.configured);
            said(None, ConfiguredReason::InProgress, message)
        }
        false => {
            said(Some(true), ConfiguredReason::Configured, format!("{} are configured", nodes(all as usize)))
        }
    }
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
