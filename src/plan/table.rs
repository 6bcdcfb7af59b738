//! A plan as a table for people.

use std::fmt::Write as _;

use multinic_actors::domain::port::Verdict;

use super::{ConfigPlan, Difference, VmPlan, totals};

const HEAD: [&str; 6] = ["VM", "NODE", "PORT", "VERDICT", "INTERFACE", "REASON"];

/// All plans, one table a config, and a line with the sums.
pub fn render(plans: &[ConfigPlan]) -> String {
    let mut text = String::new();
    for plan in plans {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", plan.name);
        match &plan.error {
            Some(error) => {
                let _ = writeln!(text, "  {}: {}", error.reason, error.message);
            }
            None => {
                text.push_str(&table(&rows(plan)));
                plan.vms.iter().for_each(|vm| text.push_str(&summary(vm)));
            }
        }
        text.push('\n');
    }
    let totals = totals(plans);
    let _ = writeln!(
        text,
        "{}: {} would be sent, {} already delivered, {} skipped, {} in use would change",
        count(totals.configs, "config"),
        count(totals.send, "node"),
        totals.same,
        count(totals.skipped, "VM"),
        count(totals.changed, "node"),
    );
    text
}

/// `1 node`, `2 nodes`.
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn rows(plan: &ConfigPlan) -> Vec<[String; 6]> {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for vm in &plan.vms {
        let node = vm.node.as_ref().map_or("-".to_owned(), ToString::to_string);
        if vm.ports.is_empty() {
            rows.push([
                vm.vm.to_string(),
                node.clone(),
                "-".into(),
                "-".into(),
                "-".into(),
                "no ports".into(),
            ]);
        }
        for port in &vm.ports {
            let verdict = format!("{:?}", port.verdict);
            let interface = port.interface.clone().filter(|_| port.verdict == Verdict::Selected);
            rows.push([
                vm.vm.to_string(),
                node.clone(),
                port.port.to_string(),
                verdict,
                interface.unwrap_or_else(|| "-".to_owned()),
                port.detail.clone(),
            ]);
        }
    }
    rows
}

fn table(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

fn summary(vm: &VmPlan) -> String {
    let node = vm.node.as_ref().map_or_else(|| vm.vm.to_string(), ToString::to_string);
    let mut text = String::new();
    if let Some(skip) = &vm.skipped {
        let _ = writeln!(text, "  {node}: skipped as {}: {}", skip.reason, skip.message);
    }
    let _ = match (&vm.difference, &vm.send) {
        (Difference::Same, _) => writeln!(text, "  {node}: nothing to send, it has this already"),
        (Difference::New, Some(send)) => {
            writeln!(text, "  {node}: would be sent {} interfaces, it is new", send.interfaces.len())
        }
        (Difference::Additions(what), _) => writeln!(text, "  {node}: would be sent additions: {what}"),
        (Difference::Changes(what), _) => writeln!(text, "  {node}: WOULD CHANGE what is in use: {what}"),
        (Difference::None | Difference::New, _) => Ok(()),
    };
    text
}
