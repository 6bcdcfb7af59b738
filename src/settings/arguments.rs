//! Arguments as Go's flag package takes them, made into arguments as clap takes them.

use std::collections::BTreeMap;
use std::ffi::OsString;

use crate::cli;

/// Arguments, sorted into those that clap knows and complaints about the others.
pub(super) struct Arguments {
    /// For clap, the program's name first.
    pub(super) known: Vec<OsString>,
    /// A sentence for each flag that does not exist.
    pub(super) unknown: Vec<String>,
}

/// Whether a flag is followed by a value.
type LongFlags = BTreeMap<String, bool>;

/// Gives a long flag with one dash its second, as Go takes both, and takes out flags that do not exist, so
/// that all of them can be reported at once.
pub(super) fn tidy(args: impl IntoIterator<Item = OsString>) -> Arguments {
    let flags = long_flags();
    let mut sorted = Arguments { known: vec!["multinic-operator".into()], unknown: Vec::new() };
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let Some(flag) = arg.to_str().and_then(|arg| as_long_flag(arg, &flags)) else {
            let is_end = arg == "--";
            sorted.known.push(arg);
            if is_end {
                sorted.known.extend(args);
                break;
            }
            continue;
        };
        let name = flag.split('=').next().unwrap_or(flag);
        match flags.get(name) {
            None => {
                sorted.unknown.push(format!("--{name}: there is no such flag{}", suggestion(name, &flags)))
            }
            Some(takes_value) => {
                sorted.known.push(format!("--{flag}").into());
                if *takes_value && !flag.contains('=') {
                    // The next one is a value, whatever it looks like.
                    sorted.known.extend(args.next());
                }
            }
        }
    }
    sorted
}

/// `flag[=value]` of a long flag; a single dash and a single letter is a short one.
fn as_long_flag<'a>(arg: &'a str, flags: &LongFlags) -> Option<&'a str> {
    if let Some(flag) = arg.strip_prefix("--") {
        return (!flag.is_empty()).then_some(flag);
    }
    let flag = arg.strip_prefix('-')?;
    let name = flag.split('=').next().unwrap_or(flag);
    let is_word = name.len() > 1 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    // `-fconfig.yaml`, `-ojson`: a short flag of `plan` with its value attached.
    let is_short_with_value = name.starts_with(['f', 'o']) && !flags.contains_key(name);
    let begins_with_letter = name.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_word && begins_with_letter && !is_short_with_value).then_some(flag)
}

fn long_flags() -> LongFlags {
    let mut flags = LongFlags::from([("help".into(), false), ("version".into(), false)]);
    let root = cli::command();
    note_flags(&root, &mut flags);
    flags
}

/// Of a command and of those below it.
fn note_flags(command: &clap::Command, flags: &mut LongFlags) {
    for arg in command.get_arguments() {
        if let Some(long) = arg.get_long() {
            let takes_value = arg.get_action().takes_values() && !arg.is_require_equals_set();
            flags.insert(long.to_owned(), takes_value);
        }
    }
    for below in command.get_subcommands() {
        note_flags(below, flags);
    }
}

/// The flag that begins most like `name`, if more than half of it is right.
fn suggestion(name: &str, flags: &LongFlags) -> String {
    let in_common = |flag: &String| flag.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
    let closest = flags.keys().max_by_key(|flag| (in_common(flag), std::cmp::Reverse(flag.len())));
    match closest {
        Some(flag) if in_common(flag) * 2 > name.len() => format!("; did you mean --{flag}?"),
        _ => String::new(),
    }
}
