// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `libweft-sockets.so`, for `LD_PRELOAD`: TCP connections between hosts that Weft joins become connections of AF_VSOCK,
//! which `weft_vsock.ko` carries. See weft-sockets(7).
//!
//! It translates addresses, and carries no data: what a program has in its hands afterwards is a socket of the kernel,
//! under the same descriptor. All that is remembered of such a socket is a mark in the socket itself (`mark`), so
//! that `fork`, `exec`, `dup` and the passing of descriptors lose nothing. A descriptor that listens is an epoll
//! descriptor over the TCP socket and one of AF_VSOCK; of these there is a table (`listeners`).
//!
//! Functions of libc are called first, and looked at closer only where they fail, or answer with an address of
//! AF_VSOCK: other descriptors cost next to nothing. Nothing here allocates, takes a lock, or panics: any of it may run
//! in a signal handler, and between `fork` and `exec`.
//!
//! - [`interpose`]: the functions that programs call in place of libc's
//! - `connect`, `accept`: how a connection begins, at either end
//! - `descriptors`, `names`, `options`: what else programs do with sockets; `carried`: options that come along
//! - `peers`: which host has an address, by `netlink` or `hosts`; `known`: what was found out a moment ago
//! - `settings`: the environment; `explain`: the report of `weft-run --explain`

mod accept;
mod address;
mod carried;
mod connect;
mod descriptors;
mod explain;
mod hosts;
pub mod interpose;
mod known;
mod listeners;
mod mark;
mod names;
mod netlink;
mod options;
mod peers;
mod real;
mod settings;
mod sys;
mod watches;
