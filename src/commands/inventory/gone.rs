//! What an inventory remembers of objects and VMs that are gone. Pure.

use std::collections::{BTreeMap, BTreeSet};

use multinic_actors::domain::config::Declared;
use multinic_actors::domain::ids::{ConfigName, VmId};
use multinic_actors::domain::inventory::{Event, Record, Snapshot, apply};

/// One thing that is remembered for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gone {
    /// The config, or `-`: the previous operator knew none.
    pub(super) config: String,
    /// The node; empty: the config's own state.
    pub(super) node: String,
    /// The VM.
    pub(super) vm: String,
    /// Why nobody needs it.
    pub(super) why: &'static str,
}

/// Every object that there is.
pub(super) struct Objects {
    /// The VMs of those that can be read; of the others it is not known.
    vms: BTreeMap<ConfigName, Option<BTreeSet<VmId>>>,
}

impl Objects {
    pub(super) fn new(declared: &[Declared]) -> Self {
        let entry = |declared: &Declared| {
            let vms = match declared {
                Declared::Valid(config) => Some(config.vms.iter().cloned().collect()),
                Declared::Invalid(_) => None,
            };
            (declared.id().name.clone(), vms)
        };
        Self { vms: declared.iter().map(entry).collect() }
    }

    pub(super) fn has(&self, name: &ConfigName) -> bool {
        self.vms.contains_key(name)
    }

    /// Why nobody needs the record, if so.
    fn verdict(&self, record: &Record) -> Option<&'static str> {
        let is_listed = |vms: &BTreeSet<VmId>| vms.contains(&record.instance_id);
        match &record.owner {
            Some(owner) => match self.vms.get(&owner.id.name) {
                None => Some("the object is gone"),
                Some(Some(vms)) if !is_listed(vms) => Some("the object does not list the VM"),
                Some(_) => None,
            },
            // Nobody's: only when every object can be read is it known that none lists the VM.
            None => {
                let is_anybodys = self.vms.values().any(|vms| vms.as_ref().is_none_or(is_listed));
                (!is_anybodys).then_some("no object lists the VM")
            }
        }
    }
}

/// What of the inventory nobody needs.
pub(super) fn find(snapshot: &Snapshot, objects: &Objects) -> Vec<Gone> {
    let states = snapshot.configs.keys().filter(|name| !objects.has(name)).map(|name| Gone {
        config: name.to_string(),
        node: String::new(),
        vm: String::new(),
        why: "the object is gone",
    });
    let records = snapshot.records.values().filter_map(|record| {
        Some(Gone {
            config: record.owner.as_ref().map_or_else(|| "-".to_owned(), |owner| owner.id.name.to_string()),
            node: record.node_name.to_string(),
            vm: record.instance_id.to_string(),
            why: objects.verdict(record)?,
        })
    });
    states.chain(records).collect()
}

/// Forgets what [`find`] finds.
pub(super) fn forget(snapshot: &mut Snapshot, objects: &Objects) {
    let mut names: BTreeSet<ConfigName> = snapshot.configs.keys().cloned().collect();
    names.extend(snapshot.records.values().filter_map(|r| r.owner.as_ref()).map(|o| o.id.name.clone()));
    for name in names {
        match objects.vms.get(&name) {
            None => drop(apply(snapshot, &Event::Pruned { name, keep: BTreeSet::new() })),
            Some(Some(vms)) if !vms.is_empty() => {
                apply(snapshot, &Event::Pruned { name, keep: vms.clone() });
            }
            Some(_) => {}
        }
    }
    let of_nobody = snapshot.records.values().filter(|record| record.owner.is_none());
    let goes: Vec<_> =
        of_nobody.filter(|record| objects.verdict(record).is_some()).map(|r| r.key()).collect();
    for key in goes {
        snapshot.records.remove(&key);
    }
}

/// For eyes.
pub(super) fn table(place: &str, gone: &[Gone]) -> String {
    let width = |text: fn(&Gone) -> &str, head: &str| {
        gone.iter().map(|gone| text(gone).len()).max().unwrap_or(0).max(head.len())
    };
    let (config, node, vm) =
        (width(|g| &g.config, "CONFIG"), width(|g| &g.node, "NODE"), width(|g| &g.vm, "VM"));
    let mut text = format!("{place}\n{:config$}  {:node$}  {:vm$}  WHY\n", "CONFIG", "NODE", "VM");
    for gone in gone {
        text += &format!("{:config$}  {:node$}  {:vm$}  {}\n", gone.config, gone.node, gone.vm, gone.why);
    }
    text
}
