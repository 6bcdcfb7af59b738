//! Logs, metrics, traces, and the audit log.

mod audit;
mod configs;
mod delivery;
mod families;
mod fan_out;
mod inventory;
mod logs;
pub mod names;
mod process;
mod recorder;
mod reign;
mod traces;
mod tree;

pub use audit::AuditLog;
pub use configs::ConfigMetrics;
pub use delivery::MeteredDelivery;
pub use families::{Collector, Families, label};
pub use fan_out::{FanOut, Witnesses};
pub use inventory::InventoryMetrics;
pub use logs::{LogFormat, LogLevel, LogSettings, LogSetupError, init_logs, log_level};
pub use recorder::{InstallError, MetricsHandle, install};
pub use reign::ReignMetrics;
pub use traces::{TraceSetupError, Traces};
pub use tree::{HandleTimes, TreeMetrics};
