// SPDX-License-Identifier: GPL-2.0 OR MIT
//! x
fn main() {}
