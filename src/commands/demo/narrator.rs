//! Tells what happens: what Viola got, and how the configs are.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::super::say;
use super::world::World;
use crate::app::Running;
use crate::http::ConfigReader;

/// Tells each thing once.
pub(super) struct Narrator {
    start: Instant,
    posts: usize,
    states: BTreeMap<String, String>,
}

impl Narrator {
    pub(super) fn new(start: Instant) -> Self {
        Self { start, posts: 0, states: BTreeMap::new() }
    }

    pub(super) fn say(&self, what: &str) {
        say(format_args!("{:>6.1}s  {what}", self.start.elapsed().as_secs_f64()));
    }

    /// Tells what is new since the last time.
    pub(super) fn tell(&mut self, running: &Running, world: &World) {
        let posts = world.viola.posts();
        for post in posts.iter().skip(self.posts) {
            let provider = post.provider_id.as_deref().unwrap_or("?");
            for node in post.body.as_array().into_iter().flatten() {
                self.say(&format!("viola: {provider} got {}", describe(node)));
            }
        }
        self.posts = posts.len();
        for status in running.configs.configs() {
            let name = status.id.name.to_string();
            let state = format!("{}: {}", status.reason, status.message);
            if self.states.get(&name) != Some(&state) {
                self.say(&format!("{name} is {state}"));
                self.states.insert(name, state);
            }
        }
    }
}

fn describe(node: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let interfaces = node["interfaces"].as_array().into_iter().flatten();
    let interfaces: Vec<_> =
        interfaces.map(|i| format!("{}={}", text(&i["name"]), text(&i["address"]))).collect();
    format!("{}: {}", text(&node["nodeName"]), interfaces.join(" "))
}
