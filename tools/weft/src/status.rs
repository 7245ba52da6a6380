// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What became of requests, in words.

use crate::abi;
use std::fmt;

/// What became of a request. After any but success its queue pair is in ERR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It was done.
    Success,
    /// It was not begun, or not ended, when the queue pair went to ERR.
    Flushed,
    /// The list is shorter than what came.
    LocalLength,
    /// The request makes no sense.
    LocalRequest,
    /// An STag of the list: none, of another domain, rights or bounds.
    LocalProtection,
    /// An STag at the peer: likewise.
    RemoteAccess,
    /// The peer takes no such request.
    RemoteRequest,
    /// The peer failed to do it.
    RemoteOperation,
    /// The window could not be bound.
    Bind,
    /// The link went down; the peer may have done it or not.
    Link,
    /// The peer's queue pair is in ERR or gone, or its driver is.
    Peer,
    /// The peer broke the protocol, or another one was agreed on.
    Protocol,
    /// One that this library does not know.
    Other(u16),
}

impl From<u16> for Status {
    fn from(number: u16) -> Self {
        match number.into() {
            abi::WEFT_WC_SUCCESS => Status::Success,
            abi::WEFT_WC_FLUSHED => Status::Flushed,
            abi::WEFT_WC_LOCAL_LENGTH => Status::LocalLength,
            abi::WEFT_WC_LOCAL_REQUEST => Status::LocalRequest,
            abi::WEFT_WC_LOCAL_PROT => Status::LocalProtection,
            abi::WEFT_WC_REMOTE_ACCESS => Status::RemoteAccess,
            abi::WEFT_WC_REMOTE_REQUEST => Status::RemoteRequest,
            abi::WEFT_WC_REMOTE_OP => Status::RemoteOperation,
            abi::WEFT_WC_BIND => Status::Bind,
            abi::WEFT_WC_LINK => Status::Link,
            abi::WEFT_WC_PEER => Status::Peer,
            abi::WEFT_WC_PROTOCOL => Status::Protocol,
            _ => Status::Other(number),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Success => "success",
            Status::Flushed => "flushed: the queue pair is in ERR",
            Status::LocalLength => "the list is shorter than what came",
            Status::LocalRequest => "the request makes no sense",
            Status::LocalProtection => "the list names memory that the queue pair may not use",
            Status::RemoteAccess => "the peer does not allow access to that memory",
            Status::RemoteRequest => "the peer takes no such request",
            Status::RemoteOperation => "the peer failed to do it",
            Status::Bind => "the window could not be bound",
            Status::Link => "the link went down",
            Status::Peer => "the peer's queue pair is gone",
            Status::Protocol => "the peer broke the protocol",
            Status::Other(number) => return write!(f, "status {number}"),
        })
    }
}
