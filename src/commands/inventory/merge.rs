//! An inventory that is taken into another one. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::{ConfigState, Event, Record, Snapshot, apply};

/// Takes over each config of which `newer` knows more than `into`.
pub(super) fn take_newer(into: &mut Snapshot, newer: &Snapshot) {
    for state in newer.configs.values() {
        let records = newer.records.of_owner(&state.name).cloned().collect();
        apply(into, &Event::Restored { state: Arc::clone(state), records });
    }
}

/// What `has` knows better than `import`, each a line.
pub(super) fn refusals(has: &Snapshot, import: &Snapshot) -> Vec<String> {
    let older = |state: &Arc<ConfigState>| {
        let known = has.configs.get(&state.name).filter(|known| known.revision > state.revision)?;
        Some(format!(
            "{}: revision {} is there, {} in the import",
            state.name, known.revision, state.revision
        ))
    };
    let configs = import.configs.values().filter_map(older);
    let late = |(key, record): (_, &Arc<Record>)| {
        let known = has.records.get(key).filter(|known| known.updated_at > record.updated_at)?;
        // Of a config with a state the revision decides.
        let is_counted =
            record.owner.as_ref().is_some_and(|owner| import.configs.contains_key(&owner.id.name));
        let (node, at, import_at) = (&record.node_name, known.updated_at, record.updated_at);
        (!is_counted).then(|| format!("node {node}: delivered at {at}, in the import at {import_at}"))
    };
    configs.chain(import.records.iter().filter_map(late)).collect()
}

/// Puts `import` over `has`. What is put in counts as newer than any copy of it elsewhere that is known here.
pub(super) fn put_over(has: &mut Snapshot, import: &Snapshot) {
    for state in import.configs.values() {
        let known = has.configs.get(&state.name).map_or(0, |known| known.revision);
        let mut state = ConfigState::clone(state);
        state.revision = state.revision.max(known) + 1;
        has.records.remove_of_owner(&state.name, |_| false);
        has.configs.insert(state.name.clone(), Arc::new(state));
    }
    let mut touched: BTreeSet<ConfigName> = BTreeSet::new();
    for (key, record) in &import.records {
        let mut record = Record::clone(record);
        if record.owner.is_none() {
            // The previous operator knew no owners: whose node it is stays as it is.
            record.owner = has.records.get(key).and_then(|known| known.owner.clone());
            touched.extend(record.owner.iter().map(|owner| owner.id.name.clone()));
        }
        has.records.insert(key.clone(), Arc::new(record));
    }
    for name in touched {
        if let Some(state) = has.configs.get_mut(&name) {
            Arc::make_mut(state).revision += 1;
        }
    }
    if has.foreign.records.is_empty() && has.foreign.configs.is_empty() {
        has.foreign = Arc::clone(&import.foreign);
    }
}

/// Of one config only.
pub(super) fn only(snapshot: &Snapshot, name: &ConfigName) -> Snapshot {
    let mut own = Snapshot::default();
    own.configs.extend(snapshot.configs.get_key_value(name).map(|(k, v)| (k.clone(), Arc::clone(v))));
    for record in snapshot.records.of_owner(name) {
        own.records.insert(record.key(), Arc::clone(record));
    }
    own
}
