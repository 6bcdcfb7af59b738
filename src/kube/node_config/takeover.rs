//! Whose field it is: which conflicts of a server-side apply are ours to settle.
//!
//! `kubectl apply`, `create`, `edit` and programs that update an object are recorded with operation `Update`:
//! they wrote it once, and nobody comes back for it. Whoever applies server-side (operation `Apply`: GitOps, a
//! person) owns the field on purpose, and would write it again.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::Status;

/// What to do about a conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every other manager only ever updated: force it.
    TakeOver,
    /// These managers apply.
    Respect(FieldConflict),
}

/// Fields that another applier owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// Who owns them.
    pub managers: BTreeSet<String>,
    /// Which fields, as the API server writes them: `.spec.interfaces`.
    pub fields: BTreeSet<String>,
}

impl std::fmt::Display for FieldConflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let join = |set: &BTreeSet<String>| set.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        write!(
            f,
            "{} applies {} of this object and is left its fields; take them out of what it applies",
            join(&self.managers),
            join(&self.fields)
        )
    }
}

/// Judges the answer to an apply without force, with the managers that the object has.
pub(super) fn judge(conflict: &Status, managers: &[ManagedFieldsEntry]) -> Verdict {
    let causes = conflict.details.iter().flat_map(|details| &details.causes);
    let conflicts = causes.filter(|cause| cause.reason == "FieldManagerConflict");
    let mut respected = FieldConflict { managers: BTreeSet::new(), fields: BTreeSet::new() };
    for cause in conflicts {
        // A name that cannot be read could be anyone's.
        let manager = quoted(&cause.message).unwrap_or_else(|| cause.message.clone());
        if applies(&manager, managers) {
            respected.managers.insert(manager);
            respected.fields.insert(cause.field.clone());
        }
    }
    match respected.managers.is_empty() {
        true => Verdict::TakeOver,
        false => Verdict::Respect(respected),
    }
}

/// Whether a manager is anything but an updater; one that is not there any more has nothing to lose.
fn applies(manager: &str, managers: &[ManagedFieldsEntry]) -> bool {
    let mut entries = managers.iter().filter(|entry| entry.manager.as_deref() == Some(manager));
    entries.any(|entry| entry.operation.as_deref() != Some("Update"))
}

/// The manager's name in `conflict with "kubectl-client-side-apply" using multinic.io/v1alpha1`: Go quotes it,
/// which for names is how JSON does it.
fn quoted(message: &str) -> Option<String> {
    let start = message.find('"')?;
    let mut values = serde_json::Deserializer::from_str(message.get(start..)?).into_iter::<String>();
    values.next()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conflict(managers: &[(&str, &str)]) -> Status {
        let causes: Vec<_> = managers
            .iter()
            .map(|(manager, field)| {
                json!({"reason": "FieldManagerConflict", "field": field,
                    "message": format!("conflict with {manager:?} using multinic.io/v1alpha1")})
            })
            .collect();
        serde_json::from_value(json!({"status": "Failure", "code": 409, "reason": "Conflict",
            "message": "Apply failed", "details": {"causes": causes}}))
        .unwrap()
    }

    fn entry(manager: &str, operation: &str) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn what_was_only_updated_is_taken_over() {
        let conflict = conflict(&[
            ("kubectl-client-side-apply", ".spec.interfaces"),
            ("kubectl-edit", ".spec.interfaces"),
        ]);
        let managers = [
            entry("kubectl-client-side-apply", "Update"),
            entry("kubectl-edit", "Update"),
            // Not in conflict: what it applies is something else.
            entry("argocd", "Apply"),
        ];
        assert_eq!(judge(&conflict, &managers), Verdict::TakeOver);
    }

    #[test]
    fn what_another_one_applies_is_left_alone() {
        let conflict =
            conflict(&[("kubectl-client-side-apply", ".spec.nodeName"), ("argo \"cd\"", ".spec.interfaces")]);
        let managers = [entry("kubectl-client-side-apply", "Update"), entry("argo \"cd\"", "Apply")];
        let Verdict::Respect(found) = judge(&conflict, &managers) else { panic!("taken over") };
        assert_eq!(found.managers, BTreeSet::from(["argo \"cd\"".to_owned()]));
        assert_eq!(found.fields, BTreeSet::from([".spec.interfaces".to_owned()]));
        assert!(found.to_string().starts_with("argo \"cd\" applies .spec.interfaces of this object"));
    }

    #[test]
    fn a_manager_that_both_updates_and_applies_is_an_applier() {
        let conflict = conflict(&[("kubectl", ".spec.interfaces")]);
        let managers = [entry("kubectl", "Update"), entry("kubectl", "Apply")];
        assert!(matches!(judge(&conflict, &managers), Verdict::Respect(_)));
    }
}
