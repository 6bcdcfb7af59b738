//! What the kernel says of this process.

use std::fs;

use super::families::Families;
use super::names;

/// Kernel ticks per second as user space sees them: 100 on every Linux architecture Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// A look at this process.
struct Process {
    cpu_seconds: f64,
    resident_bytes: f64,
    open_fds: f64,
    /// Seconds since the epoch.
    start_time: f64,
}

/// Adds the samples of this process, where the kernel tells them.
pub(super) fn collect(families: &mut Families) {
    if let Some(process) = observe() {
        families.sample(names::PROCESS_CPU, "", process.cpu_seconds);
        families.sample(names::PROCESS_MEMORY, "", process.resident_bytes);
        families.sample(names::PROCESS_FDS, "", process.open_fds);
        families.sample(names::PROCESS_START, "", process.start_time);
    }
}

/// Reads `/proc`; `None` where there is none.
fn observe() -> Option<Process> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (cpu_ticks, start_ticks) = stat_ticks(&stat)?;
    let boot = number_after(&fs::read_to_string("/proc/stat").ok()?, "btime")?;
    // `statm` counts pages, whose size differs; this line is in kB.
    let resident = number_after(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")?;
    Some(Process {
        cpu_seconds: cpu_ticks / TICKS_PER_SECOND,
        resident_bytes: resident * 1024.0,
        open_fds: fs::read_dir("/proc/self/fd").ok()?.count() as f64,
        start_time: boot + start_ticks / TICKS_PER_SECOND,
    })
}

/// User plus system time, and the start since boot. proc(5): fields 14, 15 and 22; the second field is the
/// program's name, which may hold spaces and brackets.
fn stat_ticks(stat: &str) -> Option<(f64, f64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    Some((field(14)? + field(15)?, field(22)?))
}

fn number_after(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(label))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 17 18 900 20";
        assert_eq!(stat_ticks(stat), Some((200.0, 900.0)));
    }

    #[test]
    fn a_running_process_has_memory_and_files() {
        let process = observe().unwrap();
        assert!(process.resident_bytes > 0.0);
        assert!(process.open_fds >= 3.0);
        assert!(process.start_time > 1.0e9);
    }
}
