use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;

use super::script::{Script, defect};
use super::watch::{Watch, Watcher};
use super::{TestClock, lock};
use crate::boundary::{BoxFuture, Delivery, NodeResult, PostAnswer, PostError, PostFailure};
use crate::domain::config::Config;
use crate::domain::ids::{ConfigName, Mac, NodeName, ProviderId};
use crate::domain::node::NodeConfig;

/// A Viola in memory: keeps what it was sent, and writes down every POST. Clones are one Viola.
#[derive(Clone)]
pub struct FakeDelivery(Arc<Inner>);

struct Inner {
    clock: TestClock,
    watcher: Watcher,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<(ProviderId, NodeName), Arc<NodeConfig>>,
    posts: Vec<Post>,
    scripts: BTreeMap<ConfigName, Script<Trouble>>,
    /// Refused one by one, in a 2xx answer.
    refused: BTreeMap<NodeName, String>,
    /// Fail every batch that they are in.
    poison: BTreeMap<NodeName, PostError>,
    /// NICs that got another name while they stayed on their node.
    renames: Vec<String>,
}

#[derive(Clone, Debug)]
enum Trouble {
    Fails(PostError),
    /// Carried out, but the answer never comes.
    TakesAndFails(PostError),
    /// Carried out, and then nothing is heard any more.
    TakesAndHangs,
    Hangs,
    Panics,
}

/// A POST that was sent.
#[derive(Clone, Debug)]
pub struct Post {
    /// When it left, since the world began.
    pub at: Duration,
    /// From which config.
    pub config: String,
    /// To which delivery target.
    pub provider: String,
    /// To which Viola.
    pub endpoint: String,
    /// What was in it.
    pub nodes: Vec<Arc<NodeConfig>>,
    /// How it ended; `None` while it is under way, or if its sender went away.
    pub answer: Option<Result<PostAnswer, PostError>>,
}

impl Post {
    /// The names of the nodes in it.
    pub fn names(&self) -> Vec<&str> {
        self.nodes.iter().map(|node| node.node_name.as_str()).collect()
    }
}

fn error(failure: PostFailure, message: &str) -> PostError {
    PostError { failure, message: message.to_owned(), retry_after: None }
}

impl FakeDelivery {
    /// A Viola that takes everything.
    pub fn new(clock: TestClock) -> Self {
        Self(Arc::new(Inner { clock, watcher: Watcher::default(), state: Mutex::default() }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.0.state)
    }

    /// Who sees every POST from now on.
    pub fn watched_by(&self, watch: Arc<dyn Watch>) {
        self.0.watcher.set(watch);
    }

    /// Every POST so far, in the order in which they left.
    pub fn posts(&self) -> Vec<Post> {
        self.state().posts.clone()
    }

    /// Every POST of one config.
    pub fn posts_of(&self, config: &str) -> Vec<Post> {
        self.posts().into_iter().filter(|post| post.config == config).collect()
    }

    /// How often a node was sent, whatever came of it.
    pub fn times_sent(&self, node: &str) -> usize {
        self.state().posts.iter().filter(|post| post.names().contains(&node)).count()
    }

    /// What a node of the target `biz` has.
    pub fn node(&self, node: &str) -> Option<Arc<NodeConfig>> {
        self.node_at("biz", node)
    }

    /// What a node of this target has.
    pub fn node_at(&self, provider: &str, node: &str) -> Option<Arc<NodeConfig>> {
        let key = (ProviderId::new(provider), NodeName::new(node).ok()?);
        self.state().nodes.get(&key).cloned()
    }

    /// How many nodes have something, over all targets.
    pub fn node_count(&self) -> usize {
        self.state().nodes.len()
    }

    /// Every NIC that was given another name while its node kept it.
    pub fn renames(&self) -> Vec<String> {
        self.state().renames.clone()
    }

    /// How it treats one config; everything holds for POSTs that leave later.
    pub fn of(&self, config: &str) -> DeliveryOf<'_> {
        DeliveryOf { delivery: self, name: ConfigName::new("default", config) }
    }

    /// Refuses this node in its answers, and takes the others.
    pub fn refuses(&self, node: &str, words: &str) {
        if let Ok(node) = NodeName::new(node) {
            self.state().refused.insert(node, words.to_owned());
        }
    }

    /// Refuses every batch that this node is in.
    pub fn chokes_on(&self, node: &str, failure: PostFailure) {
        if let Ok(name) = NodeName::new(node) {
            let error = error(failure, &format!("viola: post node configs: {failure:?} because of {node}"));
            self.state().poison.insert(name, error);
        }
    }

    /// Takes every node again.
    pub fn takes_all(&self) {
        let mut state = self.state();
        state.refused.clear();
        state.poison.clear();
    }

    fn answer(&self, config: &Arc<Config>, nodes: &[Arc<NodeConfig>]) -> Result<PostAnswer, PostError> {
        let mut state = self.state();
        if let Some(error) = nodes.iter().find_map(|node| state.poison.get(&node.node_name)) {
            return Err(error.clone());
        }
        let results: Vec<_> = nodes
            .iter()
            .map(|node| NodeResult {
                node: node.node_name.clone(),
                result: state.refused.get(&node.node_name).map_or(Ok(()), |words| Err(words.clone())),
                is_conflict: false,
            })
            .collect();
        let is_taken = |(_, result): &(&Arc<NodeConfig>, &NodeResult)| result.result.is_ok();
        let taken: Vec<_> = nodes.iter().zip(&results).filter(is_taken).map(|(node, _)| node).collect();
        taken.iter().for_each(|node| state.take(&config.provider, node));
        drop(state);
        taken.iter().for_each(|node| self.0.watcher.tell(|watch| watch.taken(config, node)));
        let is_all = results.iter().all(|result| result.result.is_ok());
        Ok(if is_all { PostAnswer::AllAccepted } else { PostAnswer::PerNode(results) })
    }

    async fn carry_out(
        &self,
        config: &Arc<Config>,
        nodes: &[Arc<NodeConfig>],
        takes: Duration,
        trouble: Option<Trouble>,
    ) -> Result<PostAnswer, PostError> {
        tokio::time::sleep(takes).await;
        match trouble {
            None => self.answer(config, nodes),
            Some(Trouble::Fails(error)) => Err(error),
            Some(Trouble::TakesAndFails(error)) => self.answer(config, nodes).and(Err(error)),
            Some(Trouble::TakesAndHangs) => {
                let _ = self.answer(config, nodes);
                std::future::pending().await
            }
            Some(Trouble::Hangs) => std::future::pending().await,
            Some(Trouble::Panics) => defect(),
        }
    }
}

impl State {
    fn take(&mut self, provider: &ProviderId, node: &Arc<NodeConfig>) {
        let key = (provider.clone(), node.node_name.clone());
        let before = self.nodes.insert(key, Arc::clone(node));
        let names = |node: &NodeConfig| -> BTreeMap<Mac, String> {
            node.interfaces.iter().map(|i| (i.mac_address, i.name.clone())).collect()
        };
        let (before, after) = (before.map(|before| names(&before)).unwrap_or_default(), names(node));
        for (mac, old) in before {
            if let Some(new) = after.get(&mac).filter(|new| **new != old) {
                self.renames.push(format!("{}: {mac} from {old} to {new}", node.node_name));
            }
        }
    }
}

impl Delivery for FakeDelivery {
    fn post(
        &self,
        config: Arc<Config>,
        nodes: Vec<Arc<NodeConfig>>,
    ) -> BoxFuture<'_, Result<PostAnswer, PostError>> {
        let (number, takes, trouble) = {
            let mut state = self.state();
            state.posts.push(Post {
                at: self.0.clock.elapsed(),
                config: config.id.name.name.to_string(),
                provider: config.provider.to_string(),
                endpoint: config.viola_endpoint.clone(),
                nodes: nodes.clone(),
                answer: None,
            });
            let (takes, trouble) = state.scripts.entry(config.id.name.clone()).or_default().take();
            (state.posts.len() - 1, takes, trouble)
        };
        self.0.watcher.tell(|watch| watch.posting(number, &config, &nodes));
        async move {
            let answer = self.carry_out(&config, &nodes, takes, trouble).await;
            let post = {
                let mut state = self.state();
                state.posts[number].answer = Some(answer.clone());
                state.posts[number].clone()
            };
            self.0.watcher.tell(|watch| watch.answered(number, &config, &post));
            answer
        }
        .boxed()
    }
}

/// How Viola treats one config.
pub struct DeliveryOf<'a> {
    delivery: &'a FakeDelivery,
    name: ConfigName,
}

impl DeliveryOf<'_> {
    fn edit(&self, edit: impl FnOnce(&mut Script<Trouble>)) {
        edit(self.delivery.state().scripts.entry(self.name.clone()).or_default());
    }

    /// Every POST takes this long.
    pub fn takes(&self, time: Duration) {
        self.edit(|script| script.takes = time);
    }

    /// Every POST fails, until [`Self::heals`].
    pub fn fails(&self, failure: PostFailure) {
        self.edit(|script| script.stand(Trouble::Fails(error(failure, &text(failure)))));
    }

    /// The next `times` POSTs fail.
    pub fn next_fail(&self, times: usize, failure: PostFailure) {
        self.edit(|script| script.push(times, Trouble::Fails(error(failure, &text(failure)))));
    }

    /// The next POST fails, and the answer asks for this pause.
    pub fn next_asks_to_wait(&self, pause: Duration) {
        let mut error = error(PostFailure::Unavailable, &text(PostFailure::Unavailable));
        error.retry_after = Some(pause);
        self.edit(|script| script.push(1, Trouble::Fails(error)));
    }

    /// The next `times` POSTs are carried out, but their answers are lost.
    pub fn next_answers_are_lost(&self, times: usize) {
        let error = error(PostFailure::UnknownOutcome, &text(PostFailure::UnknownOutcome));
        self.edit(|script| script.push(times, Trouble::TakesAndFails(error)));
    }

    /// The next POST is carried out but never ends.
    pub fn next_is_taken_and_hangs(&self) {
        self.edit(|script| script.push(1, Trouble::TakesAndHangs));
    }

    /// The next POST never ends.
    pub fn next_hangs(&self) {
        self.edit(|script| script.push(1, Trouble::Hangs));
    }

    /// The next POST panics.
    pub fn next_panics(&self) {
        self.edit(|script| script.push(1, Trouble::Panics));
    }

    /// Everything works again, at once.
    pub fn heals(&self) {
        self.edit(Script::heal);
    }
}

fn text(failure: PostFailure) -> String {
    format!("viola: post node configs: {failure:?}")
}
