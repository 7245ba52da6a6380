// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a program asks of an endpoint, as libfabric has it: targets are indices of the address vector.

use super::later::Later;
use crate::fi::*;
use std::ffi::c_void;

/// What a program asks to be sent.
#[derive(Clone, Copy)]
pub struct Out<'a> {
    pub kind: u64,
    pub to: FiAddr,
    pub tag: u64,
    pub data: Option<u64>,
    pub context: *mut c_void,
    pub flags: u64,
    /// There is no completion, whatever the flags say.
    pub silent: bool,
    pub later: Option<&'a Later<'a>>,
}

/// A place in a region that a program asks for.
#[derive(Clone, Copy)]
pub struct Far<'a> {
    /// Capabilities that it takes.
    pub caps: u64,
    pub to: FiAddr,
    pub offset: u64,
    pub key: u64,
    pub context: *mut c_void,
    pub flags: u64,
    /// There is no completion, whatever the flags say.
    pub silent: bool,
    pub later: Option<&'a Later<'a>>,
}

/// What a program asks to receive.
#[derive(Clone, Copy)]
pub struct In<'a> {
    pub kind: u64,
    pub from: FiAddr,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub flags: u64,
    pub later: Option<&'a Later<'a>>,
}
