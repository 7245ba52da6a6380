// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A picture of a fabric: [`fabric`] is what is in it, [`layout`] where each part
//! goes, [`svg`] draws that. Pure: the same fabric gives the same picture, byte by
//! byte. Knows nothing of where a fabric was heard of.

pub mod fabric;
pub mod layout;
mod order;
pub mod svg;

pub use fabric::Fabric;
pub use svg::draw;
