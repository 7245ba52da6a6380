// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `weft-fabric`: what lies between the emulated Weft ports.

fn main() {}
