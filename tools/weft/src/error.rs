// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What can go wrong, in words, and what to do about it.

use crate::status::Status;
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::{fmt, io};

/// What the functions of this library return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a channel is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The link went down.
    LinkDown,
    /// The peer's driver or host was restarted, or is silent.
    PeerRestarted,
    /// The peer broke the protocol.
    Protocol,
    /// This host's port was removed.
    Removed,
    /// The driver gives a reason that this library does not know.
    Other(u32),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::LinkDown => f.write_str("the link went down"),
            Reason::PeerRestarted => f.write_str("the peer was restarted or is silent"),
            Reason::Protocol => f.write_str("the peer broke the protocol"),
            Reason::Removed => f.write_str("this host's port was removed"),
            Reason::Other(number) => write!(f, "reason {number}"),
        }
    }
}

/// What went wrong.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// This host has no port, or not this one.
    NoPort(PathBuf),
    /// The port is there, but this user may not open it.
    Permission(PathBuf),
    /// The port was removed.
    Gone,
    /// Another program on this host listens on this service already.
    InUse(u32),
    /// No link leads to the peer, or none that does is ready.
    Unreachable(String),
    /// No program listens at the peer, or too many wait there already.
    Refused(String),
    /// There is no memory left for a channel: at the peer, or here.
    NoRoom {
        /// Whether it is the peer that has none.
        at_peer: bool,
    },
    /// No link leads to the host, and all links over routes are in use.
    NoLink {
        /// The host.
        peer: u64,
        /// How many there are of these links.
        links: usize,
    },
    /// The link or the peer went away while the connection was made.
    Reset,
    /// It did not happen in time; what.
    TimedOut(&'static str),
    /// The channel is broken: what was not acknowledged may be lost.
    Broken(Reason),
    /// The peer has closed its end, and all that came was received.
    Closed,
    /// The peer has said that it will send no more, and all that came was received.
    Ended,
    /// This end has said already that it will send no more.
    Finished,
    /// A message does not fit the bulk ring of the channel.
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// Bytes of the bulk ring.
        limit: usize,
    },
    /// A request did not succeed.
    Failed {
        /// Which.
        wr_id: u64,
        /// Why.
        status: Status,
    },
    /// More completions came than a completion queue has entries: its queue pairs are in ERR.
    Overrun,
    /// A limit of the port, or of what this user may pin, is reached; what it counts.
    Limit(&'static str),
    /// This user has its share of what the users of a port have together.
    Share {
        /// Of what.
        what: &'static str,
        /// The share, if it is known.
        most: Option<u64>,
    },
    /// The object is needed by another one.
    Busy,
    /// The hierarchy of this host does not give it this function of an endpoint; which.
    NotGiven(String),
    /// Another program uses this function of an endpoint.
    Used(String),
    /// The function of an endpoint was taken from this host.
    Withdrawn,
    /// A queue pair is in a state that does not allow it.
    BadState(&'static str),
    /// This host is not the master of the fabric, which alone knows, and decides.
    NotMaster,
    /// The fabric is about to find out which host is its master.
    NoMaster,
    /// It takes CAP_SYS_ADMIN; what.
    Privilege(&'static str),
    /// Another program has replaced the assignments since they were read.
    Stale,
    /// This line of the assignments, from 1, is none, or gives away what a line before it has.
    AssignmentLine(u32),
    /// There is no room for this line of the assignments, from 1, and what follows it.
    AssignmentRoom(u32),
    /// There is no such host in the fabric, by its hardware id.
    NoHost(u64),
    /// The master has found no such switch, or it has no such port.
    NoSlot {
        /// Hardware id of the switch.
        switch: u64,
        /// Number of the port.
        port: u32,
    },
    /// A component is plugged in at this port of a switch already.
    Occupied {
        /// Hardware id of the switch.
        switch: u64,
        /// Number of the port.
        port: u32,
    },
    /// An argument is out of range; which, and what it may be.
    Invalid(String),
    /// The driver is not the one that this library was made for; what is odd about it.
    Driver(&'static str),
    /// Anything else that the operating system reports.
    Os {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
}

impl Error {
    /// What [`Error::Limit`] calls memory that counts against RLIMIT_MEMLOCK: registered, or of queues,
    pub(crate) const LOCKED: &'static str = "locked memory";
    /// functions of shared endpoints,
    pub(crate) const FUNCTIONS: &'static str = "functions of endpoints, or their memory";
    /// and their areas.
    pub(crate) const AREAS: &'static str = "areas of a function, or its memory";

    pub(crate) fn os(what: &'static str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::NODEV) => Error::Gone,
            _ => Error::Os { what, source },
        }
    }

    /// Of what the manager of the fabric does, or tells.
    pub(crate) fn managed(what: &'static str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::REMOTE) => Error::NotMaster,
            Some(Errno::AGAIN) => Error::NoMaster,
            Some(Errno::STALE) => Error::Stale,
            Some(Errno::PERM) => Error::Privilege(what),
            _ => Error::os(what, source),
        }
    }

    pub(crate) fn open(path: &Path, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::NOENT | Errno::NODEV | Errno::NXIO) => Error::NoPort(path.into()),
            Some(Errno::ACCESS | Errno::PERM) => Error::Permission(path.into()),
            _ => Error::Os { what: "opening the port", source },
        }
    }

    /// What to do, where something can be said.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Error::NoPort(_) if !Path::new("/sys/module/weft").exists() => {
                "the driver is not loaded: `modprobe weft`, or `insmod weft.ko`; \
                 `lspci -d 1234:7ef7` shows whether this host has Weft ports"
            }
            Error::NoPort(_) => {
                "the driver is loaded: `weftctl list` shows the ports it has; a port that \
                 `lspci -d 1234:7ef7` shows and that is missing was not probed: see dmesg"
            }
            Error::Permission(_) => {
                "ports belong to the group weft: `usermod -aG weft USER` as root, then log in again"
            }
            Error::Gone => "it comes back with a new number in /dev when its driver is bound again",
            Error::InUse(_) => "choose another service number, or end who listens there",
            Error::Unreachable(_) => {
                "`weftctl show` tells the state of each link and who is at its other end; \
                 a link in state hello waits for the driver of the other host"
            }
            Error::Refused(_) => {
                "start the listener on the other host, or look at its service number"
            }
            Error::NoLink { .. } => {
                "`weftctl show` says which hosts they lead to; one is free again when all channels and queue \
                 pairs over it are closed, at both ends"
            }
            Error::NoRoom { .. } => "close channels, or ask for smaller rings",
            Error::Reset | Error::Broken(Reason::LinkDown | Reason::PeerRestarted) => {
                "connect again when the link is ready"
            }
            Error::Broken(Reason::Protocol) => {
                "both ends have to follow the layout of the same include/uapi/linux/weft.h"
            }
            Error::TooLong { .. } => "connect with a larger bulk ring, or send it in pieces",
            Error::Overrun => {
                "make the completion queue as large as all queues that complete there"
            }
            Error::Limit(Self::LOCKED) => {
                "`ulimit -l` shows how much this user may lock, memory.max of its control group how much \
                 there may be at all: register less, ask for shorter queues, or have it raised"
            }
            Error::Limit(Self::FUNCTIONS) => {
                "the file `endpoint_slots` of the port in sysfs says how many it can have open; end a \
                 program that has one, or ask for fewer entries"
            }
            Error::Limit(Self::AREAS) => {
                "a function has at most 4 areas, and less memory for them with push_data: free \
                 one, or ask for fewer bytes"
            }
            Error::Limit(_) => {
                "close what is not used; Objects::limits() tells how many there can be"
            }
            Error::Share { .. } => {
                "close what is not used, or end other programs of this user: a user may have half of what \
                 the other users leave, and more with CAP_SYS_RESOURCE"
            }
            Error::Busy => "drop what was made of it first",
            Error::NotGiven(_) => {
                "`weftctl tree --vh` shows what this host is given; on the fabric's master \
                 `weftctl assign` gives it more"
            }
            Error::Used(_) => "end that program, or use another function",
            Error::Withdrawn => "open it again when it is given to this host again",
            Error::BadState(_) => "queue pairs go from RESET over INIT and RTR to RTS",
            Error::NotMaster => "`weftctl tree` says who the master is: run this there",
            Error::NoMaster => "it takes a second or two: `weftctl events` shows when it is found",
            Error::Privilege(_) => "run it as root",
            Error::Stale => "read them again, and change those",
            Error::AssignmentLine(_) => "a line is ENDPOINT.VE HOST, hardware ids in hexadecimal",
            Error::AssignmentRoom(_) => {
                "leave out comments, and assignments for what will not come back"
            }
            Error::NoHost(_) => "`weftctl tree` shows who is in the fabric",
            Error::NoSlot { .. } => "`weftctl slots` shows the ports of all switches",
            Error::Occupied { .. } => {
                "what is there already cannot be announced: take it out first, or name another port; \
                 `weftctl slots` shows which are empty"
            }
            Error::Driver(_) => "use the library and the driver of one release",
            _ => return None,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoPort(path) => write!(f, "{}: there is no such port", path.display()),
            Error::Permission(path) => write!(f, "{}: permission denied", path.display()),
            Error::Gone => f.write_str("the port was removed"),
            Error::InUse(service) => {
                write!(f, "service {service}: another program on this host listens there already")
            }
            Error::Unreachable(peer) => write!(f, "{peer}: no link that is ready leads there"),
            Error::Refused(peer) => {
                write!(f, "{peer}: no program listens there, or too many wait already")
            }
            Error::NoRoom { at_peer } => write!(
                f,
                "{} has no memory left for a channel of this size",
                if *at_peer { "the peer" } else { "this port" }
            ),
            Error::NoLink { peer, links } => write!(
                f,
                "no link is left for host {peer:#x}: all {links} links over routes are in use"
            ),
            Error::Reset => f.write_str("the link or the peer went away while connecting"),
            Error::TimedOut(what) => write!(f, "{what}: not in time"),
            Error::Broken(reason) => write!(f, "the channel is broken: {reason}"),
            Error::Closed => f.write_str("the peer has closed the channel"),
            Error::Ended => f.write_str("the peer sends no more"),
            Error::Finished => f.write_str("nothing can be sent after the end was sent"),
            Error::TooLong { len, limit } => write!(
                f,
                "a message of {len} bytes does not fit the channel's bulk ring of {limit} bytes"
            ),
            Error::Failed { wr_id, status } => write!(f, "request {wr_id}: {status}"),
            Error::Overrun => f.write_str("more completions came than the queue has entries"),
            Error::Limit(what) => write!(f, "{what}: a limit is reached"),
            Error::Share { what, most: None } => {
                write!(f, "{what}: this user has its share of the port's")
            }
            Error::Share { what, most: Some(most) } => {
                write!(f, "{what}: this user has its share of the port's, {most} now")
            }
            Error::Busy => f.write_str("another object needs it"),
            Error::NotGiven(what) => write!(f, "{what}: it is not given to this host"),
            Error::Used(what) => write!(f, "{what}: another program uses it"),
            Error::Withdrawn => f.write_str("the endpoint's function was taken from this host"),
            Error::BadState(what) => write!(f, "{what}: the queue pair is not in a state for that"),
            Error::NotMaster => f.write_str("this host is not the master of the fabric"),
            Error::NoMaster => f.write_str("the fabric has no master yet"),
            Error::Privilege(what) => write!(f, "{what}: it takes CAP_SYS_ADMIN"),
            Error::Stale => f.write_str("another program has replaced the assignments meanwhile"),
            Error::AssignmentLine(line) => {
                write!(f, "line {line} is no assignment, or gives away what a line before it has")
            }
            Error::AssignmentRoom(line) => {
                write!(f, "there is no room for line {line} of the assignments")
            }
            Error::NoHost(hwid) => write!(f, "there is no host {hwid:#x} in the fabric"),
            Error::NoSlot { switch, port } => {
                write!(f, "there is no port {port} of a switch {switch:#x} in the fabric")
            }
            Error::Occupied { switch, port } => {
                write!(f, "port {port} of switch {switch:#x}: a component is plugged in there")
            }
            Error::Invalid(what) => f.write_str(what),
            Error::Driver(what) => write!(f, "the driver is not as expected: {what}"),
            Error::Os { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Os { source, .. } => Some(source),
            _ => None,
        }
    }
}
