//! The control plane of gpushare: one binary, a role per subcommand. [`cli`] is its command line; each role is a crate of its own.

pub mod cli;
