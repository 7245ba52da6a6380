// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What a program wants, and whether an endpoint of this provider is that.
//!
//! All of it is looked at: libfabric asks on behalf of its layers `ofi_rxm` and `ofi_rxd`, too, which are not to be
//! laid over this provider. Why something is refused belongs in the log, as the program learns nothing but that there
//! is none.

use crate::endpoint::{
    INJECT, LONGEST, PIECES, RECEIVE_FLAGS, REMOTE_PIECES, SEND_FLAGS, SENDS, TAG,
};
use crate::fi::*;
use crate::regions::KEY_BYTES;
use std::ffi::c_int;
use weft::matching::{ATOMIC, EAGER};

/// What can be done with messages, and with regions.
const MESSAGES: u64 = FI_MSG | FI_TAGGED;
const REGIONS: u64 = FI_RMA | FI_ATOMIC;
/// By which end.
const MESSAGE_ENDS: u64 = FI_SEND | FI_RECV;
const REGION_ENDS: u64 = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
/// Capabilities that are there if they are asked for,
const PRIMARY: u64 = MESSAGES | MESSAGE_ENDS | REGIONS | REGION_ENDS | FI_DIRECTED_RECV;
/// those that cost nothing,
const FREE: u64 = FI_MULTI_RECV | FI_FENCE | FI_LOCAL_COMM | FI_REMOTE_COMM;
/// and those of a program that says nothing. That others use a region has events only if it is asked for: a program
/// that does not read them would stop its endpoint. What waits for counters has them looked at with each event.
pub const CAPS: u64 = PRIMARY | FREE | FI_SOURCE;
/// All of them.
const KNOWN: u64 = CAPS | FI_RMA_EVENT | FI_TRIGGER;
/// The order of what is done to regions: up to so many bytes it is done when it arrives.
pub const REGION_ORDER: u64 = FI_ORDER_RAW
    | FI_ORDER_WAW
    | FI_ORDER_RMA_RAW
    | FI_ORDER_RMA_WAW
    | FI_ORDER_ATOMIC_RAR
    | FI_ORDER_ATOMIC_RAW
    | FI_ORDER_ATOMIC_WAR
    | FI_ORDER_ATOMIC_WAW;
/// Up to how many bytes: behind a write, and read; behind a read, and written; behind a write, and written. What is
/// longer is not written at once, but pulled; behind what was read integers alone are written in order.
pub const ORDERED: [usize; 3] = [EAGER, ATOMIC, EAGER];
/// The way to name memory of version 1.4 that is left to newer ones: addresses, and keys of the provider.
const BASIC: c_int = 1 << 0;
/// And the other one: offsets, and keys of the program.
const SCALABLE: c_int = 1 << 1;
/// The protocol: the top bit says that it is a provider's own.
pub const PROTOCOL: u32 = 0x8000_0057;
/// Bytes of data for the completion queue, with a message.
pub const DATA_BYTES: usize = 8;
/// How the bits of a tag may be divided, as `FI_TAG_GENERIC` has it.
pub const TAG_FORMAT: u64 = 0xaaaa_aaaa_aaaa_aaaa & TAG;
/// Bytes that are received before there is a buffer, in any case.
pub const BUFFERED: usize = 256 << 10;

/// What a program wants; what is `None` does not matter.
#[derive(Clone, Copy)]
pub struct Hints<'a> {
    pub caps: u64,
    pub addr_format: u32,
    pub tx: Option<&'a TxAttr>,
    pub rx: Option<&'a RxAttr>,
    pub ep: Option<&'a EpAttr>,
    pub domain: Option<&'a DomainAttr>,
    /// Names: of the domain, of the fabric, of the provider.
    pub names: [Option<&'a str>; 3],
}

impl Hints<'_> {
    /// Nothing matters.
    pub const NONE: Hints<'static> = Hints {
        caps: 0,
        addr_format: 0,
        tx: None,
        rx: None,
        ep: None,
        domain: None,
        names: [None; 3],
    };

    /// The capabilities of an endpoint for them: those asked for, and what they imply.
    pub fn granted(&self) -> u64 {
        let mut caps = if self.caps == 0 { CAPS } else { self.caps };
        if caps & (MESSAGES | REGIONS) == 0 {
            caps |= MESSAGES;
        }
        for (what, ends) in [(MESSAGES, MESSAGE_ENDS), (REGIONS, REGION_ENDS)] {
            if caps & what != 0 && caps & ends == 0 {
                caps |= ends;
            }
        }
        caps | FREE
    }

    /// Whether others, or this program, may reach regions.
    pub fn has_regions(&self) -> bool {
        self.granted() & REGIONS != 0
    }

    /// The order of what is sent, and done to regions.
    pub fn order(&self) -> u64 {
        FI_ORDER_SAS | if self.has_regions() { REGION_ORDER } else { 0 }
    }

    /// How memory is named: by offsets, and by keys of the program. For that no bit is set, but by old programs.
    pub fn mr_mode(&self) -> c_int {
        let asked = self.domain.map_or(0, |domain| domain.mr_mode);
        if asked == SCALABLE { SCALABLE } else { 0 }
    }

    /// Why no endpoint of `receives` receives is what is wanted, if so.
    pub fn refused(&self, receives: usize) -> Option<&'static str> {
        let hints = [
            (self.caps & !KNOWN != 0, "caps"),
            (![0, FI_ADDR_STR].contains(&self.addr_format), "addr_format"),
            (self.names[2].is_some_and(|name| !is_named(name)), "provider"),
            (self.names[1].is_some_and(|name| name != "weft"), "fabric"),
        ];
        let of =
            |list: &[(bool, &'static str)]| list.iter().find(|(no, _)| *no).map(|(_, why)| *why);
        of(&hints)
            .or_else(|| self.ep.and_then(|ep| of(&endpoint(ep))))
            .or_else(|| {
                self.domain.and_then(|domain| of(&self::domain(domain, self.has_regions())))
            })
            .or_else(|| self.tx.and_then(|tx| of(&sends(tx, self.order()))))
            .or_else(|| self.rx.and_then(|rx| of(&self::receives(rx, receives, self.order()))))
    }
}

/// Whether a list of names of providers, as `FI_PROVIDER` has it, has this one.
fn is_named(names: &str) -> bool {
    // Layers are named in the same string, and are not this provider.
    !names.contains(';') && names.split(',').any(|name| name.trim().eq_ignore_ascii_case("weft"))
}

fn endpoint(ep: &EpAttr) -> [(bool, &'static str); 9] {
    let sizes = [ep.max_order_raw_size, ep.max_order_war_size, ep.max_order_waw_size];
    [
        (![FI_EP_UNSPEC, FI_EP_RDM].contains(&ep.kind), "ep_attr->type: only FI_EP_RDM"),
        (![0, PROTOCOL].contains(&ep.protocol), "ep_attr->protocol"),
        (ep.protocol_version > 1, "ep_attr->protocol_version"),
        (ep.max_msg_size > LONGEST, "ep_attr->max_msg_size"),
        (
            sizes.into_iter().zip(ORDERED).any(|(asked, most)| asked > most),
            "ep_attr->max_order_raw_size, ...war_size, ...waw_size",
        ),
        // How wide a tag is to be; which bits it has is the program's affair.
        (ep.mem_tag_format.leading_zeros() < TAG.leading_zeros(), "ep_attr->mem_tag_format"),
        (ep.tx_ctx_cnt > 1, "ep_attr->tx_ctx_cnt"),
        (ep.rx_ctx_cnt > 1, "ep_attr->rx_ctx_cnt"),
        (ep.auth_key_size != 0, "ep_attr->auth_key_size"),
    ]
}

fn domain(domain: &DomainAttr, regions: bool) -> [(bool, &'static str); 7] {
    let progress = domain.control_progress.max(domain.data_progress);
    [
        (domain.cq_data_size > DATA_BYTES, "domain_attr->cq_data_size"),
        (domain.mr_key_size > KEY_BYTES, "domain_attr->mr_key_size: keys have seven bytes"),
        (
            regions && domain.mr_mode == BASIC,
            "domain_attr->mr_mode: regions are reached by offsets, not by addresses",
        ),
        (domain.caps & !(FI_LOCAL_COMM | FI_REMOTE_COMM) != 0, "domain_attr->caps"),
        (domain.av_type > FI_AV_TABLE, "domain_attr->av_type"),
        (domain.max_ep_tx_ctx > 1 || domain.max_ep_rx_ctx > 1, "domain_attr->max_ep_tx_ctx"),
        (progress > FI_PROGRESS_CONTROL_UNIFIED, "domain_attr->progress"),
    ]
}

fn sends(tx: &TxAttr, order: u64) -> [(bool, &'static str); 8] {
    [
        (tx.caps & !KNOWN != 0, "tx_attr->caps"),
        (tx.op_flags & !SEND_FLAGS != 0, "tx_attr->op_flags"),
        (tx.msg_order & !order != 0, "tx_attr->msg_order"),
        (tx.comp_order != 0, "tx_attr->comp_order: completions come in any order"),
        (tx.inject_size > INJECT, "tx_attr->inject_size"),
        (tx.size > SENDS, "tx_attr->size"),
        (tx.iov_limit > PIECES, "tx_attr->iov_limit"),
        (tx.rma_iov_limit > REMOTE_PIECES, "tx_attr->rma_iov_limit"),
    ]
}

fn receives(rx: &RxAttr, most: usize, order: u64) -> [(bool, &'static str); 7] {
    [
        (rx.caps & !KNOWN != 0, "rx_attr->caps"),
        (rx.op_flags & !RECEIVE_FLAGS != 0, "rx_attr->op_flags"),
        (rx.msg_order & !order != 0, "rx_attr->msg_order"),
        (rx.comp_order != 0, "rx_attr->comp_order: completions come in any order"),
        (rx.size > most, "rx_attr->size"),
        (rx.iov_limit > PIECES, "rx_attr->iov_limit"),
        (rx.total_buffered_recv > BUFFERED, "rx_attr->total_buffered_recv"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures of libfabric in which nothing is said.
    fn zeroed<T>() -> T {
        // SAFETY: They are made of numbers and pointers, which may be 0.
        unsafe { std::mem::zeroed() }
    }

    fn refused(hints: &Hints<'_>) -> bool {
        hints.refused(100).is_some()
    }

    #[test]
    fn a_program_that_wants_nothing_gets_all() {
        assert!(!refused(&Hints::NONE));
        assert_eq!(Hints::NONE.granted(), CAPS);
        let (tx, rx, ep, domain) = (zeroed(), zeroed(), zeroed(), zeroed());
        let hints = Hints {
            tx: Some(&tx),
            rx: Some(&rx),
            ep: Some(&ep),
            domain: Some(&domain),
            ..Hints::NONE
        };
        assert!(!refused(&hints));
    }

    #[test]
    fn capabilities_are_those_asked_for_and_what_they_imply() {
        let granted = |caps| Hints { caps, ..Hints::NONE }.granted() & !FREE;
        assert_eq!(granted(FI_TAGGED), FI_TAGGED | FI_SEND | FI_RECV);
        assert_eq!(granted(FI_MSG | FI_SEND), FI_MSG | FI_SEND);
        assert_eq!(granted(FI_SOURCE), FI_SOURCE | FI_MSG | FI_TAGGED | FI_SEND | FI_RECV);
        assert_eq!(granted(FI_RMA), FI_RMA | REGION_ENDS);
        assert_eq!(granted(FI_RMA | FI_WRITE), FI_RMA | FI_WRITE);
        let both = FI_TAGGED | FI_ATOMIC | FI_REMOTE_WRITE;
        assert_eq!(granted(both), both | FI_SEND | FI_RECV);
        assert_eq!(granted(FI_RMA | FI_RMA_EVENT), FI_RMA | FI_RMA_EVENT | REGION_ENDS);
        assert_eq!(granted(0) & (FI_RMA_EVENT | FI_TRIGGER), 0);
        assert_eq!(granted(FI_MSG | FI_TRIGGER), FI_MSG | FI_TRIGGER | MESSAGE_ENDS);
        // It costs nothing.
        let fenced = Hints { caps: FI_MSG, ..Hints::NONE }.granted();
        assert_eq!(fenced & FI_FENCE, FI_FENCE);
        for caps in [1 << 50, 1 << 22, FI_RMA | (1 << 23)] {
            assert!(refused(&Hints { caps, ..Hints::NONE }), "{caps:#x}");
        }
        // What Open MPI asks for: for messages, and for windows.
        for caps in [FI_TAGGED | FI_DIRECTED_RECV, FI_RMA | FI_ATOMIC, FI_RMA | FI_ATOMIC | FI_MSG]
        {
            assert!(!refused(&Hints { caps, ..Hints::NONE }));
        }
    }

    #[test]
    fn the_order_of_what_is_done_to_regions_is_there_with_them() {
        let mut tx: TxAttr = zeroed();
        let mut rx: RxAttr = zeroed();
        // What MPICH wants of accumulated windows.
        let atomic =
            FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAR | FI_ORDER_ATOMIC_WAW;
        for (caps, order, is) in [
            (FI_MSG, FI_ORDER_SAS, true),
            (FI_MSG, FI_ORDER_SAS | atomic, false),
            (FI_MSG | FI_ATOMIC, FI_ORDER_SAS | atomic, true),
            (FI_RMA, FI_ORDER_RMA_RAW | FI_ORDER_WAW, true),
            // Reads, and what is written behind one, are not in order; nor is a message behind what was written.
            (FI_RMA, 1 << 34, false),
            (FI_RMA, 1 << 32, false),
            (FI_RMA | FI_MSG, 1 << 7, false),
        ] {
            (tx.msg_order, rx.msg_order) = (order, order);
            let hints = |tx, rx| Hints { caps, tx, rx, ..Hints::NONE };
            assert_eq!(!refused(&hints(Some(&tx), None)), is, "{caps:#x} {order:#x}");
            assert_eq!(!refused(&hints(None, Some(&rx))), is, "{caps:#x} {order:#x}");
            assert_eq!(hints(None, None).order() & order == order, is);
        }
    }

    #[test]
    fn regions_are_reached_by_offsets() {
        let mut domain: DomainAttr = zeroed();
        for (caps, mode, told) in [
            (FI_RMA, 0, Some(0)),
            // What Open MPI can do: addresses, keys of the provider.
            (FI_RMA, (1 << 4) | (1 << 5) | (1 << 6) | (1 << 9), Some(0)),
            (FI_RMA, SCALABLE, Some(SCALABLE)),
            (FI_RMA, BASIC, None),
            (FI_MSG, BASIC, Some(0)),
        ] {
            domain.mr_mode = mode;
            let hints = Hints { caps, domain: Some(&domain), ..Hints::NONE };
            assert_eq!((!refused(&hints)).then(|| hints.mr_mode()), told, "{caps:#x} {mode}");
        }
    }

    #[test]
    fn mpich_gets_all_that_it_asks_for() {
        let (mut tx, mut rx, mut ep): (TxAttr, RxAttr, EpAttr) = (zeroed(), zeroed(), zeroed());
        tx.op_flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
        // All of FI_ORDER_ATOMIC (1 << 36 to 1 << 39): those of integers that are accumulated in windows.
        (tx.msg_order, rx.msg_order) = (FI_ORDER_SAS | (0b1111 << 36), FI_ORDER_SAS);
        rx.op_flags = FI_COMPLETION;
        // Bits of its protocol and of tags; between them are those of communicators.
        (ep.kind, ep.mem_tag_format) = (FI_EP_RDM, (0b11 << 54) | 0x7fff_ffff);
        let mut domain: DomainAttr = zeroed();
        (domain.cq_data_size, domain.av_type) = (4, FI_AV_TABLE);
        domain.data_progress = FI_PROGRESS_MANUAL;
        // A region may belong to an endpoint (FI_MR_ENDPOINT).
        domain.mr_mode = 1 << 9;
        // It asks for what it was told when it had no hints.
        let caps = Hints::NONE.granted();
        let (tx, rx, ep, domain) = (Some(&tx), Some(&rx), Some(&ep), Some(&domain));
        let hints = Hints { caps, tx, rx, ep, domain, ..Hints::NONE };
        assert_eq!(hints.refused(100), None);
        assert_eq!((hints.granted(), hints.mr_mode()), (CAPS, 0));
    }

    #[test]
    fn names_are_those_of_this_provider() {
        let named = |n: usize, name| {
            let mut hints = Hints::NONE;
            hints.names[n] = Some(name);
            refused(&hints)
        };
        for name in ["weft", "Weft", "tcp,weft", "weft, shm"] {
            assert!(!named(2, name), "{name}");
        }
        for name in ["tcp", "weft;ofi_rxm", "", "weftx"] {
            assert!(named(2, name), "{name}");
        }
        assert!(!named(1, "weft") && named(1, "eth0"));
        assert!(refused(&Hints { addr_format: 2, ..Hints::NONE }));
        assert!(!refused(&Hints { addr_format: FI_ADDR_STR, ..Hints::NONE }));
    }

    #[test]
    fn endpoints_are_of_one_kind() {
        let wrong: [fn(&mut EpAttr); 12] = [
            |ep| ep.kind = 1,
            |ep| ep.kind = 2,
            |ep| ep.protocol = 1,
            |ep| ep.protocol_version = 2,
            |ep| ep.max_msg_size = LONGEST + 1,
            |ep| ep.max_order_raw_size = EAGER + 1,
            |ep| ep.max_order_war_size = ATOMIC + 1,
            |ep| ep.max_order_waw_size = EAGER + 1,
            |ep| ep.mem_tag_format = u64::MAX,
            |ep| ep.tx_ctx_cnt = 2,
            |ep| ep.rx_ctx_cnt = usize::MAX,
            |ep| ep.auth_key_size = 8,
        ];
        for (n, change) in wrong.into_iter().enumerate() {
            let mut ep = zeroed();
            change(&mut ep);
            assert!(refused(&Hints { ep: Some(&ep), ..Hints::NONE }), "{n}");
        }
        let mut ep: EpAttr = zeroed();
        (ep.kind, ep.protocol, ep.max_msg_size) = (FI_EP_RDM, PROTOCOL, LONGEST);
        (ep.max_order_raw_size, ep.max_order_war_size) = (EAGER, ATOMIC);
        for format in [TAG_FORMAT, TAG, 0xffff] {
            ep.mem_tag_format = format;
            assert!(!refused(&Hints { ep: Some(&ep), ..Hints::NONE }), "{format:#x}");
        }
    }

    #[test]
    fn other_attributes_are_looked_at_too() {
        let wrong: [fn(&mut DomainAttr); 7] = [
            |d| d.cq_data_size = 9,
            |d| d.mr_key_size = 8,
            |d| d.caps = FI_RMA,
            |d| d.av_type = 3,
            |d| d.max_ep_rx_ctx = 2,
            |d| d.control_progress = FI_PROGRESS_CONTROL_UNIFIED + 1,
            |d| d.data_progress = u32::MAX,
        ];
        for change in wrong {
            let mut domain = zeroed();
            change(&mut domain);
            assert!(refused(&Hints { domain: Some(&domain), ..Hints::NONE }));
        }
        let wrong: [fn(&mut TxAttr); 8] = [
            |tx| tx.caps = 1 << 50,
            |tx| tx.op_flags = 1 << 22,
            |tx| tx.msg_order = FI_ORDER_SAS | 1,
            |tx| tx.comp_order = 1,
            |tx| tx.inject_size = INJECT + 1,
            |tx| tx.size = SENDS + 1,
            |tx| tx.iov_limit = PIECES + 1,
            |tx| tx.rma_iov_limit = 2,
        ];
        for change in wrong {
            let mut tx = zeroed();
            change(&mut tx);
            assert!(refused(&Hints { tx: Some(&tx), ..Hints::NONE }));
        }
        let wrong: [fn(&mut RxAttr); 7] = [
            |rx| rx.caps = 1 << 50,
            |rx| rx.op_flags = FI_FENCE,
            |rx| rx.msg_order = 1 << 3,
            |rx| rx.comp_order = FI_ORDER_SAS,
            |rx| rx.size = 101,
            |rx| rx.iov_limit = PIECES + 1,
            |rx| rx.total_buffered_recv = BUFFERED + 1,
        ];
        for change in wrong {
            let mut rx = zeroed();
            change(&mut rx);
            assert!(refused(&Hints { rx: Some(&rx), ..Hints::NONE }));
        }
    }
}
