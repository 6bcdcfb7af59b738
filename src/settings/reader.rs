//! Reads flags and variables and collects what is wrong with them, and what they no longer do.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::values;
use super::{LogFormat, Settings, SettingsError, Warning};
use crate::cli::{Flags, FormerFlags, LaterFlags};

/// Reads settings; every problem is kept for one message at the end.
pub(super) struct Reader<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<String>,
    warnings: Vec<Warning>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { env, problems: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    pub(super) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(Warning(warning.into()));
    }

    pub(super) fn finish(self) -> Result<Vec<Warning>, SettingsError> {
        if self.problems.is_empty() { Ok(self.warnings) } else { Err(SettingsError::Bad(self.problems)) }
    }

    /// A value that is there must be right.
    pub(super) fn value<T>(
        &mut self,
        name: &str,
        text: Option<String>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(&text?) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.problem(format!("{name}: {problem}"));
                None
            }
        }
    }

    /// The flag, else the variable; an empty one counts as not set.
    pub(super) fn either<T>(
        &mut self,
        flag: &str,
        text: &Option<String>,
        variable: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (name, text) = match text {
            Some(text) => (flag, Some(text.clone())),
            None => (variable, (self.env)(variable)),
        };
        self.value(name, text.filter(|text| !text.trim().is_empty()), parse)
    }

    /// The variable; an empty one counts as not set.
    pub(super) fn variable<T>(
        &mut self,
        variable: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.either(variable, &None, variable, parse)
    }

    pub(super) fn choice<T: Copy>(
        &mut self,
        name: &str,
        text: Option<String>,
        choices: &[(&str, T)],
    ) -> Option<T> {
        self.value(name, text, |text| {
            let chosen = choices.iter().find(|(word, _)| word.eq_ignore_ascii_case(text.trim()));
            chosen.map(|(_, value)| *value).ok_or_else(|| {
                let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
                format!("must be one of {}", words.join(", "))
            })
        })
    }

    pub(super) fn number<T: FromStr + PartialOrd + Display>(
        &mut self,
        name: &str,
        text: &Option<String>,
        range: RangeInclusive<T>,
    ) -> Option<T> {
        self.value(name, text.clone(), |text| {
            let number = text.trim().parse().ok().filter(|number| range.contains(number));
            number.ok_or_else(|| format!("must be a number from {} to {}", range.start(), range.end()))
        })
    }

    pub(super) fn flag_is_on(&mut self, name: &str, text: Option<String>) -> bool {
        self.value(name, text, values::boolean).unwrap_or(false)
    }

    /// Takes over what the previous operator's flags still mean and warns of the others.
    pub(super) fn former(&mut self, former: FormerFlags, mut settings: Settings, flags: &Flags) -> Settings {
        let level = self.value("--zap-log-level", former.zap_log_level, zap_level);
        if let Some(level) = level.filter(|_| flags.log_level.is_none()) {
            level.clone_into(&mut settings.log.level);
        }
        let formats = [("json", LogFormat::Json), ("console", LogFormat::Human)];
        let format = self.choice("--zap-encoder", former.zap_encoder, &formats);
        settings.log.format = settings.log.format.or(format);
        if self.flag_is_on("--metrics-secure", former.metrics_secure) {
            self.warn("--metrics-secure has no effect: metrics are served over plain HTTP; a proxy or network policy can protect them");
        }
        // They once switched something; without it they mean what is the case anyway.
        self.flag_is_on("--enable-http2", former.enable_http2);
        self.flag_is_on("--zap-devel", former.zap_devel);
        for (name, text) in [
            ("--metrics-cert-path", former.metrics_cert_path),
            ("--metrics-cert-name", former.metrics_cert_name),
            ("--metrics-cert-key", former.metrics_cert_key),
            ("--webhook-cert-path", former.webhook_cert_path),
            ("--webhook-cert-name", former.webhook_cert_name),
            ("--webhook-cert-key", former.webhook_cert_key),
            ("--zap-stacktrace-level", former.zap_stacktrace_level),
            ("--zap-time-encoding", former.zap_time_encoding),
        ] {
            if text.is_some() {
                self.warn(format!("{name} has no meaning any more and is ignored"));
            }
        }
        settings
    }

    /// Warns of flags that are known and do nothing yet. One that is switched off is no surprise.
    pub(super) fn later(&mut self, later: LaterFlags) {
        for (name, text) in [
            ("--cluster-namespaces", later.cluster_namespaces),
            ("--magnum-namespace", later.magnum_namespace),
            ("--audit-log", later.audit_log),
        ] {
            if text.is_some_and(|text| !text.trim().is_empty()) {
                self.warn(format!("{name} is not supported yet by this version and is ignored"));
            }
        }
    }
}

/// Zap's levels; a number is a verbosity, the higher the more.
fn zap_level(text: &str) -> Result<&'static str, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "debug" => Ok("debug"),
        "info" => Ok("info"),
        "warn" => Ok("warn"),
        "error" | "dpanic" | "panic" | "fatal" => Ok("error"),
        number => match number.parse::<u8>() {
            Ok(0) => Ok("info"),
            Ok(1) => Ok("debug"),
            Ok(_) => Ok("trace"),
            Err(_) => Err("must be debug, info, error or a number".to_owned()),
        },
    }
}
