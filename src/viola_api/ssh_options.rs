//! `sshOptions` of the routing file: a part of what ssh takes with `-o`, under the same names.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

/// The options that mean something here.
const KNOWN: [&str; 7] = [
    "BatchMode",
    "ConnectTimeout",
    "LogLevel",
    "ServerAliveCountMax",
    "ServerAliveInterval",
    "StrictHostKeyChecking",
    "UserKnownHostsFile",
];

/// What to do about the host's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostKeyPolicy {
    /// It must be in the file.
    Known,
    /// The first one that is seen counts from then on.
    AcceptNew,
    /// Any key, at any time: whoever answers gets the password.
    Any,
}

/// The options of one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SshOptions {
    /// `StrictHostKeyChecking`; without it `yes` where a file is given, else `accept-new`.
    pub(super) host_keys: HostKeyPolicy,
    /// `UserKnownHostsFile`.
    pub(super) known_hosts: Option<PathBuf>,
    /// `ConnectTimeout`.
    pub(super) connect_timeout: Duration,
    /// `ServerAliveInterval`.
    pub(super) alive_interval: Option<Duration>,
    /// `ServerAliveCountMax`.
    pub(super) alive_count: usize,
}

impl Default for SshOptions {
    fn default() -> Self {
        Self {
            host_keys: HostKeyPolicy::AcceptNew,
            known_hosts: None,
            connect_timeout: Duration::from_secs(5),
            alive_interval: None,
            alive_count: 3,
        }
    }
}

impl SshOptions {
    /// Reads a list of `Name=value` (with or without `-o`), one text of several, or a mapping.
    ///
    /// # Errors
    /// The first thing that is wrong; never a value.
    pub(super) fn parse(given: &Value) -> Result<Self, String> {
        let mut options = Self::default();
        let mut policy = None;
        for (name, value) in pairs(given)? {
            options.set(&name, value.trim(), &mut policy)?;
        }
        options.host_keys = policy.unwrap_or(match options.known_hosts {
            Some(_) => HostKeyPolicy::Known,
            None => HostKeyPolicy::AcceptNew,
        });
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str, policy: &mut Option<HostKeyPolicy>) -> Result<(), String> {
        let known = KNOWN.into_iter().find(|known| known.eq_ignore_ascii_case(name));
        let known = known
            .ok_or_else(|| format!("there is no option {name:?} here; known are {}", KNOWN.join(", ")))?;
        match known {
            "StrictHostKeyChecking" => *policy = Some(host_key_policy(value)?),
            "UserKnownHostsFile" => self.known_hosts = Some(PathBuf::from(value)),
            "ConnectTimeout" => self.connect_timeout = seconds(known, value)?,
            "ServerAliveInterval" => self.alive_interval = Some(seconds(known, value)?),
            "ServerAliveCountMax" => {
                self.alive_count = value.parse().map_err(|_| format!("{known} must be a number"))?;
            }
            // Nobody could be asked for a password, and the log has its own level.
            _ => {}
        }
        Ok(())
    }
}

fn host_key_policy(value: &str) -> Result<HostKeyPolicy, String> {
    match value.to_ascii_lowercase().as_str() {
        "yes" | "ask" => Ok(HostKeyPolicy::Known),
        "accept-new" => Ok(HostKeyPolicy::AcceptNew),
        "no" | "off" => Ok(HostKeyPolicy::Any),
        _ => Err("StrictHostKeyChecking must be yes, accept-new or no".to_owned()),
    }
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().filter(|seconds| (1..=3600).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| format!("{name} must be seconds from 1 to 3600"))
}

fn pairs(given: &Value) -> Result<Vec<(String, String)>, String> {
    let words = match given {
        Value::Object(fields) => {
            return fields.iter().map(|(name, value)| Ok((name.clone(), plain(value)?))).collect();
        }
        Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
        Value::Array(list) => list.iter().map(plain).collect::<Result<Vec<_>, _>>()?,
        _ => return Err(EXPECTED.to_owned()),
    };
    let words = words.iter().map(|word| word.trim()).filter(|word| *word != "-o");
    words.map(pair).collect()
}

const EXPECTED: &str = "must be a list of texts such as StrictHostKeyChecking=yes";

fn pair(word: &str) -> Result<(String, String), String> {
    let word = word.strip_prefix("-o").unwrap_or(word).trim();
    let at = word.find(['=', ' ']).ok_or(EXPECTED)?;
    let (name, value) = word.split_at(at);
    Ok((name.to_owned(), value.trim_start_matches(['=', ' ']).to_owned()))
}

fn plain(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        // YAML's `yes` and `no`, for parsers of its older version.
        Value::Bool(is_yes) => Ok(if *is_yes { "yes" } else { "no" }.to_owned()),
        _ => Err(EXPECTED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn options_are_read_however_they_are_written() {
        let expect = SshOptions {
            host_keys: HostKeyPolicy::Any,
            known_hosts: Some(PathBuf::from("/dev/null")),
            connect_timeout: Duration::from_secs(7),
            ..SshOptions::default()
        };
        for given in [
            json!(["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=7"]),
            json!([
                "-o",
                "stricthostkeychecking=no",
                "-oUserKnownHostsFile=/dev/null",
                "-o ConnectTimeout 7"
            ]),
            json!(
                "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -oConnectTimeout=7 -oLogLevel=ERROR"
            ),
            json!({"StrictHostKeyChecking": false, "UserKnownHostsFile": "/dev/null", "ConnectTimeout": 7}),
        ] {
            assert_eq!(SshOptions::parse(&given), Ok(expect.clone()), "{given}");
        }
    }

    #[test]
    fn without_a_policy_a_file_is_believed_and_nothing_else() {
        assert_eq!(SshOptions::parse(&json!([])).unwrap().host_keys, HostKeyPolicy::AcceptNew);
        let with_file = SshOptions::parse(&json!(["UserKnownHostsFile=/etc/keys"])).unwrap();
        assert_eq!(with_file.host_keys, HostKeyPolicy::Known);
    }

    #[test]
    fn what_is_unknown_is_refused_with_what_is_known() {
        for (given, part) in [
            (json!(["ProxyCommand=nc"]), "\"ProxyCommand\" here; known are BatchMode, ConnectTimeout"),
            (json!(["StrictHostKeyChecking=perhaps"]), "must be yes, accept-new or no"),
            (json!(["ConnectTimeout=0"]), "must be seconds"),
            (json!(["LogLevel"]), EXPECTED),
            (json!(7), EXPECTED),
        ] {
            let problem = SshOptions::parse(&given).unwrap_err();
            assert!(problem.contains(part), "{given}: {problem}");
        }
    }
}
