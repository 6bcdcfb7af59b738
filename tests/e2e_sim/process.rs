//! The binary as a process: spawned, signalled, killed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::e2e_support::{GLANCE, Operator, PATIENCE};

/// The binary, with nothing of this process' environment: a proxy there would be in the way.
pub fn binary() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multinic-operator"));
    command.env_clear().stdin(Stdio::null());
    command
}

/// Runs a command that ends by itself.
pub async fn run(args: &[&str]) -> Output {
    let mut command = binary();
    command.args(args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

/// What a command wrote to its standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a command wrote to its standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A running operator. Killed when it is dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
    /// Where its API is served.
    pub api: SocketAddr,
}

impl Process {
    /// Starts the binary on an operator's folder and waits until it serves.
    pub async fn start(operator: &Operator, flags: &[&str]) -> Self {
        Self::start_as(operator, flags, &[]).await
    }

    /// [`Process::start`] with these variables.
    pub async fn start_as(operator: &Operator, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        static LOGS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = LOGS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let log = operator.dir().join(format!("process-{number}.log"));
        let mut command = binary();
        // A flag that is given here takes the place of the operator's own.
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().to_owned();
        let is_replaced = |arg: &String| flags.iter().any(|flag| name(flag) == name(arg));
        command.args(operator.args().into_iter().filter(|arg| !is_replaced(arg)));
        command.arg("--log-format=json").args(flags).envs(variables.iter().copied());
        command.stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let mut process = Self { child, log, api: ([127, 0, 0, 1], 0).into() };
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(api) = process.log_lines().iter().find_map(|line| line["api"].as_str()?.parse().ok())
            {
                process.api = api;
                return process;
            }
            let ended = process.child.try_wait().unwrap();
            let is_late = ended.is_some() || Instant::now() > deadline;
            assert!(!is_late, "it does not start ({ended:?}):\n{}", process.log_end());
            tokio::time::sleep(GLANCE).await;
        }
    }

    pub fn log_text(&self) -> String {
        read(&self.log)
    }

    /// The last lines of the log, for a failed test.
    pub fn log_end(&self) -> String {
        let text = self.log_text();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(12)..].join("\n")
    }

    /// Each whole line of the log.
    pub fn log_lines(&self) -> Vec<Value> {
        self.log_text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// SIGTERM, as Kubernetes sends it.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Any signal, by its name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// `kill -9`.
    pub async fn kill(mut self) {
        self.child.kill().unwrap();
        self.ended().await;
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end:\n{}", self.log_end());
            tokio::time::sleep(GLANCE).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already, mostly.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
