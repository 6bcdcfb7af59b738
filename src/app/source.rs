//! What the source of objects has told so far: kept, so that a root that was started anew hears it again.

use std::collections::BTreeMap;

use multinic_actors::domain::config::Declared;
use multinic_actors::domain::ids::ConfigId;
use multinic_actors::root::{RootMsg, RootRef};

use crate::policy::PolicyHandle;

/// Every object that exists, as it was told last.
#[derive(Default)]
pub(super) struct Told {
    objects: BTreeMap<ConfigId, Declared>,
    is_synced: bool,
}

impl Told {
    pub(super) fn declare(&mut self, declared: Declared, root: &RootRef, policy: &PolicyHandle) {
        self.objects.insert(declared.id().clone(), declared.clone());
        tell(root, RootMsg::Declare(policy.judge(declared)));
    }

    pub(super) fn remove(&mut self, id: ConfigId, root: &RootRef) {
        self.objects.remove(&id);
        tell(root, RootMsg::Remove(id));
    }

    pub(super) fn let_go(&mut self, id: ConfigId, root: &RootRef) {
        self.objects.remove(&id);
        tell(root, RootMsg::LetGo(id));
    }

    pub(super) fn synced(&mut self, root: &RootRef) {
        self.is_synced = true;
        tell(root, RootMsg::SourceSynced);
    }

    /// To a root that is new, or under a policy that is.
    pub(super) fn tell_again(&self, root: &RootRef, policy: &PolicyHandle) {
        for declared in self.objects.values() {
            tell(root, RootMsg::Declare(policy.judge(declared.clone())));
        }
        if self.is_synced {
            tell(root, RootMsg::SourceSynced);
        }
    }
}

/// A root that has just ended is told by its successor's start.
fn tell(root: &RootRef, message: RootMsg) {
    let _ = root.send_message(message);
}
