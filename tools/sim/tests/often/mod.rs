// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How often a property is tried.

/// The number of cases of a property that is tried `usual` times: `WEFT_TIMES` times as many.
pub fn cases(usual: u32) -> u32 {
    let times = std::env::var("WEFT_TIMES").map(|times| times.parse::<u32>());
    usual * times.map_or(1, |times| times.expect("WEFT_TIMES is a number"))
}
