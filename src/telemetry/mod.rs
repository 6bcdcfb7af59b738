//! Logs and metrics.

mod delivery;
mod fan_out;
mod logs;
pub mod names;
mod process;
mod recorder;
mod status;

pub use delivery::MeteredDelivery;
pub use fan_out::FanOut;
pub use logs::{LogFormat, LogSettings, LogSetupError, init_logs};
pub use recorder::{InstallError, MetricsHandle, install};
pub use status::MetricsStatusSink;
