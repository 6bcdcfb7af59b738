use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use super::cloud_objects::{FakeVm, SUBNET, VmView, default_subnet};
use super::script::{Script, defect};
use super::watch::{Watch, Watcher};
use super::{ConfigBuilder, TestClock, lock, nic};
use crate::boundary::{BoxFuture, Clock, Cloud, CloudError, ObserveRequest, Session, Urgency};
use crate::domain::config::{Config, SubnetSelector};
use crate::domain::ids::{ConfigName, Mac, SubnetId, VmId};
use crate::domain::port::{ListedPort, Observation, Server, TargetSubnet};
use crate::domain::reason::Reason;

/// A cloud in memory: VMs with ports, and everything that can go wrong. Clones are one cloud.
#[derive(Clone)]
pub struct FakeCloud(Arc<Inner>);

struct Inner {
    clock: TestClock,
    watcher: Watcher,
    world: Mutex<World>,
}

struct World {
    subnets: BTreeMap<SubnetId, TargetSubnet>,
    vms: BTreeMap<VmId, FakeVm>,
    logins: BTreeMap<ConfigName, Script<Trouble>>,
    looks: BTreeMap<ConfigName, Script<Trouble>>,
    token_life: Duration,
    past_logins: Vec<Login>,
    past_looks: Vec<Look>,
}

/// What goes wrong with a call.
#[derive(Clone, Debug)]
enum Trouble {
    Fails(CloudError),
    Hangs,
    Panics,
    Lies(Lie),
}

/// An answer that is whole by the rules and yet not the truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// No VM has a port.
    NoPorts,
    /// The VMs without ports are missing in the answer, and others are in it that nobody asked for.
    Unfiltered,
    /// Nova knows no name.
    NoNames,
}

impl Lie {
    fn distort(self, observation: &mut Observation) {
        match self {
            Self::NoPorts => observation.ports.values_mut().for_each(Vec::clear),
            Self::Unfiltered => {
                let all: Vec<ListedPort> = observation.ports.values().flatten().cloned().collect();
                observation.ports.retain(|_, ports| !ports.is_empty());
                observation.ports.insert(VmId::new("nobody-asked-for-it"), all);
            }
            Self::NoNames => {
                let away = || Server::Unknown("nova: show server: 503 Service Unavailable".to_owned());
                observation.servers.values_mut().for_each(|server| *server = away());
            }
        }
    }
}

/// A login that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// When, since the world began.
    pub at: Duration,
    /// For which config.
    pub config: String,
    /// In place of a session that is half over.
    pub renew: bool,
}

/// A look that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// When, since the world began.
    pub at: Duration,
    /// For which config.
    pub config: String,
    /// At how many VMs.
    pub vms: usize,
    /// Who waited for it.
    pub urgency: Urgency,
    /// Past the caches.
    pub drop_caches: bool,
}

impl FakeCloud {
    /// A cloud with one subnet and no VM.
    pub fn new(clock: TestClock) -> Self {
        let subnet = default_subnet();
        let world = World {
            subnets: BTreeMap::from([(subnet.id.clone(), subnet)]),
            vms: BTreeMap::new(),
            logins: BTreeMap::new(),
            looks: BTreeMap::new(),
            token_life: Duration::from_secs(24 * 3600),
            past_logins: Vec::new(),
            past_looks: Vec::new(),
        };
        Self(Arc::new(Inner { clock, watcher: Watcher::default(), world: Mutex::new(world) }))
    }

    /// Makes the VMs of `config`, each with `nics` NICs: VM `a-1` is node `node-a-1`. The NICs' numbers go
    /// up over all VMs that were made so far, in steps of ten.
    pub fn has(&self, config: &ConfigBuilder, nics: u16) -> &Self {
        for vm in config.vm_ids() {
            let mut world = lock(&self.0.world);
            let base = (world.vms.len() as u16 + 1) * 100;
            let mut made = FakeVm::named(&format!("node-{vm}"));
            made.ports.extend((0..nics).map(|n| Ok(nic(base + n * 10).into_port())));
            world.vms.insert(vm, made);
        }
        self
    }

    /// A VM, made without ports when it is new.
    pub fn vm(&self, vm: &str) -> VmView<'_> {
        VmView { cloud: self, vm: VmId::new(vm) }
    }

    pub(super) fn edit_vm(&self, vm: &VmId, edit: impl FnOnce(&mut FakeVm)) {
        let mut world = lock(&self.0.world);
        edit(world.vms.entry(vm.clone()).or_insert_with(|| FakeVm::named(&format!("node-{vm}"))));
    }

    /// The network's MTU, as Neutron gives it.
    pub fn mtu_is(&self, mtu: i64) {
        if let Some(subnet) = lock(&self.0.world).subnets.get_mut(&SubnetId::new(SUBNET)) {
            subnet.mtu = mtu;
        }
    }

    /// Who sees every login and look from now on.
    pub fn watched_by(&self, watch: Arc<dyn Watch>) {
        self.0.watcher.set(watch);
    }

    /// A VM is exactly this, whatever it was before.
    pub fn put_vm(&self, vm: &VmId, ports: Vec<ListedPort>, server: Server) {
        lock(&self.0.world).vms.insert(vm.clone(), FakeVm { server, ports });
    }

    /// A VM is gone, with its ports.
    pub fn remove_vm(&self, vm: &VmId) {
        lock(&self.0.world).vms.remove(vm);
    }

    /// A subnet is exactly this, whatever it was before.
    pub fn put_subnet(&self, subnet: TargetSubnet) {
        lock(&self.0.world).subnets.insert(subnet.id.clone(), subnet);
    }

    /// What a look at all VMs of `config` would find out now.
    ///
    /// # Errors
    ///
    /// If a subnet does not exist.
    pub fn truth(&self, config: &Arc<Config>) -> Result<Observation, CloudError> {
        self.observe_now(&config.subnets, &config.vms)
    }

    /// Tokens live this long from now on.
    pub fn tokens_live(&self, life: Duration) {
        lock(&self.0.world).token_life = life;
    }

    /// How the cloud treats one config.
    pub fn of(&self, config: &str) -> CloudOf<'_> {
        CloudOf { cloud: self, name: ConfigName::new("default", config) }
    }

    /// Every login that was asked for.
    pub fn logins(&self) -> Vec<Login> {
        lock(&self.0.world).past_logins.clone()
    }

    /// Every look that began.
    pub fn looks(&self) -> Vec<Look> {
        lock(&self.0.world).past_looks.clone()
    }

    /// The NICs that a VM has now, by MAC.
    pub fn macs_of(&self, vm: &VmId) -> Vec<Mac> {
        let world = lock(&self.0.world);
        let ports = world.vms.get(vm).into_iter().flat_map(|vm| vm.ports.iter().flatten());
        let mut macs: Vec<_> = ports.map(|port| port.mac).collect();
        macs.sort();
        macs
    }

    fn observe_now(&self, subnets: &SubnetSelector, vms: &[VmId]) -> Result<Observation, CloudError> {
        let world = lock(&self.0.world);
        let SubnetSelector::Ids(ids) = subnets else {
            return Err(CloudError::new(Reason::SubnetNotFound, "no subnet of that name"));
        };
        let missing = |id: &SubnetId| CloudError::new(Reason::SubnetNotFound, format!("no subnet {id}"));
        let subnets = ids.iter().map(|id| world.subnets.get(id).cloned().ok_or_else(|| missing(id)));
        let mut observation =
            Observation { subnets: subnets.collect::<Result<_, _>>()?, ..Observation::default() };
        for vm in vms {
            let (server, ports) = match world.vms.get(vm) {
                Some(fake) => (fake.server.clone(), fake.ports.clone()),
                None => (Server::NotFound, Vec::new()),
            };
            observation.ports.insert(vm.clone(), ports);
            observation.servers.insert(vm.clone(), server);
        }
        Ok(observation)
    }
}

/// How a cloud treats one config; everything holds for the calls that begin after it.
pub struct CloudOf<'a> {
    cloud: &'a FakeCloud,
    name: ConfigName,
}

impl CloudOf<'_> {
    fn plan(&self, of: fn(&mut World) -> &mut BTreeMap<ConfigName, Script<Trouble>>) -> Plan<'_> {
        Plan { inner: &self.cloud.0, of, name: &self.name }
    }

    fn looks(&self) -> Plan<'_> {
        self.plan(|world| &mut world.looks)
    }

    fn logins(&self) -> Plan<'_> {
        self.plan(|world| &mut world.logins)
    }

    /// Every look takes this long.
    pub fn looks_take(&self, time: Duration) {
        self.looks().edit(|script| script.takes = time);
    }

    /// Every look fails, until [`Self::heals`].
    pub fn looks_fail(&self, error: CloudError) {
        self.looks().edit(|script| script.stand(Trouble::Fails(error)));
    }

    /// The next `times` looks fail.
    pub fn next_looks_fail(&self, times: usize, error: CloudError) {
        self.looks().edit(|script| script.push(times, Trouble::Fails(error)));
    }

    /// The next `times` looks give this instead of the truth.
    pub fn next_looks_lie(&self, times: usize, lie: Lie) {
        self.looks().edit(|script| script.push(times, Trouble::Lies(lie)));
    }

    /// The next look never ends.
    pub fn next_look_hangs(&self) {
        self.looks().edit(|script| script.push(1, Trouble::Hangs));
    }

    /// No look ends, until [`Self::heals`].
    pub fn looks_hang(&self) {
        self.looks().edit(|script| script.stand(Trouble::Hangs));
    }

    /// The next look panics.
    pub fn next_look_panics(&self) {
        self.looks().edit(|script| script.push(1, Trouble::Panics));
    }

    /// Every login takes this long.
    pub fn logins_take(&self, time: Duration) {
        self.logins().edit(|script| script.takes = time);
    }

    /// Every login fails, until [`Self::heals`].
    pub fn logins_fail(&self, error: CloudError) {
        self.logins().edit(|script| script.stand(Trouble::Fails(error)));
    }

    /// The next `times` logins fail.
    pub fn next_logins_fail(&self, times: usize, error: CloudError) {
        self.logins().edit(|script| script.push(times, Trouble::Fails(error)));
    }

    /// The next login never ends.
    pub fn next_login_hangs(&self) {
        self.logins().edit(|script| script.push(1, Trouble::Hangs));
    }

    /// The next login panics.
    pub fn next_login_panics(&self) {
        self.logins().edit(|script| script.push(1, Trouble::Panics));
    }

    /// Everything works again, at once.
    pub fn heals(&self) {
        self.looks().edit(Script::heal);
        self.logins().edit(Script::heal);
    }
}

struct Plan<'a> {
    inner: &'a Inner,
    of: fn(&mut World) -> &mut BTreeMap<ConfigName, Script<Trouble>>,
    name: &'a ConfigName,
}

impl Plan<'_> {
    fn edit(&self, edit: impl FnOnce(&mut Script<Trouble>)) {
        let mut world = lock(&self.inner.world);
        edit((self.of)(&mut world).entry(self.name.clone()).or_default());
    }
}

async fn suffer(takes: Duration, trouble: Option<Trouble>) -> Result<Option<Lie>, CloudError> {
    tokio::time::sleep(takes).await;
    match trouble {
        None => Ok(None),
        Some(Trouble::Lies(lie)) => Ok(Some(lie)),
        Some(Trouble::Fails(error)) => Err(error),
        Some(Trouble::Hangs) => std::future::pending().await,
        Some(Trouble::Panics) => defect(),
    }
}

impl Cloud for FakeCloud {
    fn session(&self, config: Arc<Config>, renew: bool) -> BoxFuture<'_, Result<Session, CloudError>> {
        let (takes, trouble) = {
            let mut world = lock(&self.0.world);
            let (at, name) = (self.0.clock.elapsed(), &config.id.name);
            world.past_logins.push(Login { at, config: name.name.to_string(), renew });
            world.logins.entry(name.clone()).or_default().take()
        };
        self.0.watcher.tell(|watch| watch.login(&config));
        async move {
            suffer(takes, trouble).await?;
            let life = lock(&self.0.world).token_life;
            let signed = jiff::SignedDuration::try_from(life).unwrap_or(jiff::SignedDuration::MAX);
            let expires_at = self.0.clock.now().saturating_add(signed).unwrap_or(jiff::Timestamp::MAX);
            let renew_at = (Instant::now() + life / 2).into_std();
            Ok(Session { renew_at, expires_at, handle: Arc::new(()) })
        }
        .boxed()
    }

    fn observe(
        &self,
        _session: Session,
        request: ObserveRequest,
    ) -> BoxFuture<'_, Result<Observation, CloudError>> {
        let (takes, trouble) = {
            let mut world = lock(&self.0.world);
            let name = &request.config.id.name;
            world.past_looks.push(Look {
                at: self.0.clock.elapsed(),
                config: name.name.to_string(),
                vms: request.vms.len(),
                urgency: request.urgency,
                drop_caches: request.drop_caches,
            });
            world.looks.entry(name.clone()).or_default().take()
        };
        self.0.watcher.tell(|watch| watch.look_began(&request.config));
        async move {
            let lie = suffer(takes, trouble).await?;
            let mut observation = self.observe_now(&request.config.subnets, &request.vms)?;
            if let Some(lie) = lie {
                lie.distort(&mut observation);
            }
            self.0.watcher.tell(|watch| watch.looked(&request.config, &observation));
            Ok(observation)
        }
        .boxed()
    }
}
