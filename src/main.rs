//! The command line of multinic-operator.

use std::process::ExitCode;

use multinic_operator::commands;

fn main() -> ExitCode {
    commands::main(std::env::args_os())
}
