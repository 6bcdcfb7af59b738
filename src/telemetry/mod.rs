//! Logs and metrics.

mod configs;
mod delivery;
mod families;
mod fan_out;
mod inventory;
mod logs;
pub mod names;
mod process;
mod recorder;
mod tree;

pub use configs::ConfigMetrics;
pub use delivery::MeteredDelivery;
pub use families::{Collector, Families, label};
pub use fan_out::FanOut;
pub use inventory::InventoryMetrics;
pub use logs::{LogFormat, LogSettings, LogSetupError, init_logs};
pub use recorder::{InstallError, MetricsHandle, install};
pub use tree::{HandleTimes, TreeMetrics};
