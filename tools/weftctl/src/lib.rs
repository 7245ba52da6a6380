// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `weftctl`: shows the ports of this host, carries files to and from other
//! hosts, measures latency.
#![forbid(unsafe_code)]

pub mod channel;
pub mod cli;
pub mod diagnose;
pub mod failure;
pub mod key;
pub mod map;
pub mod migrate;
pub mod multiroot;
pub mod order;
pub mod ping;
pub mod progress;
pub mod trace;
pub mod transfer;
pub mod tree;
pub mod twig;
pub mod vf;
pub mod watch;
