//! Where log lines go and what they look like.

use std::fmt;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::ValueEnum;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt as lines, reload};

use super::traces::Traces;

/// What a log line looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One readable line, coloured on a terminal.
    Human,
    /// One JSON object a line.
    Json,
}

/// How to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// `None`: human on a terminal, JSON otherwise.
    pub format: Option<LogFormat>,
    /// A level (`info`) or a list of filter directives (`info,multinic_operator::openstack=debug`).
    pub level: String,
}

/// Logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogSetupError {
    /// The level is none.
    #[error("log level {level:?}: {problem}")]
    Level {
        /// What was given.
        level: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It was set up before.
    #[error("logging is set up already")]
    AlreadySet,
}

type Reload = Box<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// What is logged at present, and the way to change it while the process runs.
pub struct LogLevel {
    level: Mutex<String>,
    reload: Reload,
}

static LEVEL: OnceLock<LogLevel> = OnceLock::new();

/// The level of this process' log; `None` while logging is not set up.
pub fn log_level() -> Option<&'static LogLevel> {
    LEVEL.get()
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogLevel").field("level", &self.level).finish_non_exhaustive()
    }
}

impl LogLevel {
    /// As it was given.
    pub fn get(&self) -> String {
        self.level.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Logs at another level, or by other directives, from now on; until the process ends.
    ///
    /// # Errors
    /// When the level cannot be read; then nothing changes.
    pub fn set(&self, level: &str) -> Result<(), LogSetupError> {
        let problem = |problem| LogSetupError::Level { level: level.to_owned(), problem };
        (self.reload)(filter(level)?).map_err(problem)?;
        level.trim().clone_into(&mut *self.level.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(())
    }
}

/// Sends log lines to the standard error, so that the standard output belongs to a command's result, and spans
/// to where traces go.
///
/// # Errors
/// When the level cannot be read, or when logging was set up before.
pub fn init_logs(settings: &LogSettings, traces: Option<&Traces>) -> Result<(), LogSetupError> {
    let (filter, handle) = reload::Layer::<_, Registry>::new(filter(&settings.level)?);
    let is_terminal = std::io::stderr().is_terminal();
    let format = settings.format.unwrap_or(match is_terminal {
        true => LogFormat::Human,
        false => LogFormat::Json,
    });
    let layer = lines::layer().with_writer(|| OrNowhere(std::io::stderr()));
    let layer = match format {
        LogFormat::Human => layer.with_ansi(is_terminal).with_filter(filter).boxed(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true).with_current_span(true).with_span_list(false);
            layer.with_filter(filter).boxed()
        }
    };
    let subscriber = tracing_subscriber::registry().with(layer).with(traces.map(Traces::layer));
    subscriber.try_init().map_err(|_| LogSetupError::AlreadySet)?;
    let level = Mutex::new(settings.level.trim().to_owned());
    let reload = Box::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()));
    LEVEL.set(LogLevel { level, reload }).map_err(|_| LogSetupError::AlreadySet)
}

/// Writes what can be written. Whoever read the lines may have gone (`2>&1 | head -1`), and a disk may be full:
/// the work goes on without them.
#[derive(Debug)]
pub struct OrNowhere<W>(pub W);

impl<W: io::Write> io::Write for OrNowhere<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            written => Ok(written.unwrap_or(bytes.len())),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

fn filter(level: &str) -> Result<EnvFilter, LogSetupError> {
    let level = level.trim();
    // The Kubernetes client reports each failed request as an error, with addresses; whoever made the request
    // says what matters. A directive of its own for it comes later and wins.
    EnvFilter::builder()
        .parse(format!("kube_client=off,{level}"))
        .map_err(|error| LogSetupError::Level { level: level.to_owned(), problem: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_or_a_list_of_directives_is_taken() {
        for text in ["info", " DEBUG ", "warn,multinic_operator::openstack=debug", "off"] {
            assert!(filter(text).is_ok(), "{text}");
        }
        let text = |level: &str| filter(level).unwrap().to_string();
        assert!(text("info").contains("kube_client=off"));
        assert!(!text("info,kube_client=debug").contains("kube_client=off"));
        let error = filter("info,x=loud").unwrap_err();
        assert!(error.to_string().starts_with("log level \"info,x=loud\": "), "{error}");
    }
}
