// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Fabrics of many nodes in one process, each of them the network manager of `weft-proto`.
//!
//! Everything follows from a seed: the same one gives the same run, message by message.

#![forbid(unsafe_code)]

pub mod check;
pub mod growth;
pub mod rng;
pub mod scale;
pub mod topology;
pub mod world;
