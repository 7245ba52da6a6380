// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `fi_getinfo()`: a description of an endpoint for each port of this host that a program may use.
//!
//! What is described is freed by libfabric: all of it is from `malloc()`. Newer versions of libfabric may read more
//! than this one knows: behind each structure there are zeros.

use crate::address::{self, parse};
use crate::base::text;
use crate::endpoint::{INJECT, LONGEST, PIECES, REMOTE_PIECES, SENDS};
use crate::fi::*;
use crate::hints::{BUFFERED, DATA_BYTES, Hints, ORDERED, PROTOCOL, TAG_FORMAT};
use crate::regions::KEY_BYTES;
use crate::{NAME, log, version};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;
use weft::Port;
use weft::matching::Address;

/// The oldest version of the interface that is answered: before it, structures were others.
const OLDEST: u32 = version(1, 5);
/// Zeros behind a structure.
const SPARE: usize = 256;
/// As many of each as a program can want.
const MANY: usize = 1024;
/// Capabilities that an endpoint that sends has, and one that receives. Those of the domain are of neither.
const KINDS: u64 = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
const SENDING: u64 = KINDS | FI_SEND | FI_READ | FI_WRITE | FI_TRIGGER | FI_FENCE;
const RECEIVING: u64 = KINDS
    | FI_RECV
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE
    | FI_MULTI_RECV
    | FI_DIRECTED_RECV
    | FI_SOURCE
    | FI_RMA_EVENT
    | FI_TRIGGER;

/// A structure of zeros that libfabric frees.
fn zeroed<T>() -> Option<*mut T> {
    // SAFETY: It returns memory or null.
    let memory = unsafe { libc::calloc(1, size_of::<T>() + SPARE) }.cast::<T>();
    (!memory.is_null()).then_some(memory)
}

/// A string that libfabric frees, and its bytes with the end.
fn copied(text: &CStr) -> (*mut c_char, usize) {
    // SAFETY: It is a string.
    (unsafe { libc::strdup(text.as_ptr()) }, text.count_bytes() + 1)
}

/// What a program has asked `fi_getinfo()` for beside the hints.
struct Asked<'a> {
    hints: &'a Hints<'a>,
    /// Where messages are to come from, and go to.
    source: Option<&'a str>,
    dest: Option<&'a CStr>,
    receives: usize,
}

/// Whether a port is the one that messages are to come from: by its name, or by an address of it.
fn is_source(source: &str, name: &str, hwid: u64) -> bool {
    source == name || parse(source).is_some_and(|address| address.hwid == hwid)
}

/// The address of a port, before there is an endpoint, which chooses its number itself.
fn address_of(hwid: u64) -> CString {
    let text = address::name(&Address { hwid, endpoint: 0, generation: 0 });
    CString::new(text).unwrap_or_default()
}

/// Describes endpoints of a port.
///
/// # Safety
///
/// Structures of the hints are there.
fn describe(asked: &Asked<'_>, name: &CStr, hwid: u64) -> Option<*mut Info> {
    let caps = asked.hints.granted();
    let info = zeroed::<Info>()?;
    // SAFETY: Fresh memory, as large as it has to be, and all of it valid as zeros. If there is none left, what was
    // allocated stays: the program has other sorrows.
    unsafe {
        (*info).caps = caps;
        (*info).addr_format = FI_ADDR_STR;
        let (text, bytes) = copied(&address_of(hwid));
        ((*info).src_addr, (*info).src_addrlen) = (text.cast(), bytes);
        if let Some(dest) = asked.dest {
            let (text, bytes) = copied(dest);
            ((*info).dest_addr, (*info).dest_addrlen) = (text.cast(), bytes);
        }
        let tx = zeroed::<TxAttr>()?;
        (*info).tx_attr = tx;
        ((*tx).caps, (*tx).msg_order) = (caps & SENDING, asked.hints.order());
        ((*tx).inject_size, (*tx).size, (*tx).iov_limit) = (INJECT, SENDS, PIECES);
        (*tx).op_flags = asked.hints.tx.map_or(0, |tx| tx.op_flags);
        let rx = zeroed::<RxAttr>()?;
        (*info).rx_attr = rx;
        ((*rx).caps, (*rx).msg_order) = (caps & RECEIVING, asked.hints.order());
        ((*rx).size, (*rx).iov_limit) = (asked.receives, PIECES);
        (*rx).total_buffered_recv = BUFFERED;
        (*rx).op_flags = asked.hints.rx.map_or(0, |rx| rx.op_flags);
        let ep = zeroed::<EpAttr>()?;
        (*info).ep_attr = ep;
        ((*ep).kind, (*ep).protocol, (*ep).protocol_version) = (FI_EP_RDM, PROTOCOL, 1);
        ((*ep).max_msg_size, (*ep).mem_tag_format) = (LONGEST, TAG_FORMAT);
        ((*ep).tx_ctx_cnt, (*ep).rx_ctx_cnt) = (1, 1);
        if asked.hints.has_regions() {
            (*tx).rma_iov_limit = REMOTE_PIECES;
            let [raw, war, waw] = ORDERED;
            ((*ep).max_order_raw_size, (*ep).max_order_war_size) = (raw, war);
            (*ep).max_order_waw_size = waw;
        }
        (*info).domain_attr = domain(asked.hints, name)?;
        let fabric = zeroed::<FabricAttr>()?;
        (*info).fabric_attr = fabric;
        // The name of the provider, and versions, are written by libfabric.
        (*fabric).name = copied(NAME).0;
    }
    Some(info)
}

fn domain(hints: &Hints<'_>, name: &CStr) -> Option<*mut DomainAttr> {
    let domain = zeroed::<DomainAttr>()?;
    // SAFETY: As in `describe`.
    unsafe {
        // Never null: libfabric compares it.
        (*domain).name = copied(name).0;
        let asked = hints.domain.map_or(FI_THREAD_UNSPEC, |domain| domain.threading);
        // All others demand less.
        (*domain).threading = if asked == FI_THREAD_UNSPEC { FI_THREAD_SAFE } else { asked };
        // A program that makes progress itself is served as well; it is told that it may go on doing so.
        let progress = |of: fn(&DomainAttr) -> u32| {
            let asked = hints.domain.map_or(FI_PROGRESS_UNSPEC, of);
            if asked == FI_PROGRESS_UNSPEC { FI_PROGRESS_AUTO } else { asked }
        };
        (*domain).control_progress = progress(|domain| domain.control_progress);
        (*domain).data_progress = progress(|domain| domain.data_progress);
        (*domain).resource_mgmt = FI_RM_ENABLED;
        let av_type = hints.domain.map_or(FI_AV_UNSPEC, |domain| domain.av_type);
        (*domain).av_type = if av_type == FI_AV_UNSPEC { FI_AV_TABLE } else { av_type };
        ((*domain).mr_mode, (*domain).mr_key_size) = (hints.mr_mode(), KEY_BYTES);
        (*domain).mr_iov_limit = REMOTE_PIECES;
        (*domain).cq_data_size = DATA_BYTES;
        ((*domain).cq_cnt, (*domain).ep_cnt, (*domain).cntr_cnt) = (MANY, MANY, MANY);
        ((*domain).tx_ctx_cnt, (*domain).rx_ctx_cnt) = (MANY, MANY);
        ((*domain).max_ep_tx_ctx, (*domain).max_ep_rx_ctx) = (1, 1);
        (*domain).mr_cnt = 1 << 16;
        (*domain).caps = FI_LOCAL_COMM | FI_REMOTE_COMM;
    }
    Some(domain)
}

/// The hints of a program, as far as its version has them.
///
/// # Safety
///
/// Structures and names that are not null are there for as long as the references are used.
unsafe fn hints<'a>(info: *const Info) -> Hints<'a> {
    // SAFETY: As the caller says.
    let Some(info) = (unsafe { info.as_ref() }) else { return Hints::NONE };
    // SAFETY: As the caller says. Programs of an older version have shorter structures, which lack what is not read.
    unsafe {
        let (domain, fabric) = (info.domain_attr.as_ref(), info.fabric_attr.as_ref());
        Hints {
            caps: info.caps,
            addr_format: info.addr_format,
            tx: info.tx_attr.as_ref(),
            rx: info.rx_attr.as_ref(),
            ep: info.ep_attr.as_ref(),
            domain,
            names: [
                domain.and_then(|domain| text(domain.name)),
                fabric.and_then(|fabric| text(fabric.name)),
                fabric.and_then(|fabric| text(fabric.prov_name)),
            ],
        }
    }
}

/// The ports that a program may use, and why others are left out.
fn ports() -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for number in Port::list().unwrap_or_default() {
        match Port::open(number).and_then(|port| port.info()) {
            Ok(info) => found.push((format!("weft{number}"), info.hwid)),
            Err(error) => log::info!(FI_LOG_CORE, "weft{number} is left out: {error}"),
        }
    }
    found
}

/// `fi_getinfo()`.
pub unsafe extern "C" fn getinfo(
    api: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    from: *const Info,
    out: *mut *mut Info,
) -> c_int {
    let none = |why: &str| {
        log::info!(FI_LOG_CORE, "there is no endpoint for these hints: {why}");
        -FI_ENODATA
    };
    if api < OLDEST {
        return none("the version of the interface is older than 1.5");
    }
    // SAFETY: The program gives hints or none.
    let hints = unsafe { hints(from) };
    let receives = log::ENTRIES.get() / 2;
    if let Some(why) = hints.refused(receives) {
        return none(why);
    }
    // SAFETY: The program gives strings, or none; addresses in hints are strings, as the format of addresses says.
    let (node, service, source, dest) = unsafe {
        let (source, dest) = from.as_ref().map_or((null_mut(), null_mut()), |hints| {
            let strings = hints.addr_format == FI_ADDR_STR;
            if strings { (hints.src_addr, hints.dest_addr) } else { (null_mut(), null_mut()) }
        });
        (text(node), text(service), text(source.cast()), text(dest.cast()))
    };
    // An address is a node; it has no service.
    let asks_for_source = flags & FI_SOURCE != 0;
    let (source, dest) = match node {
        Some(node) if asks_for_source => (Some(node), dest),
        Some(node) => (source, Some(node)),
        None => (source, dest),
    };
    if service.is_some() && node.is_none() && !asks_for_source {
        return none("an address is a node, it has no service");
    }
    if dest.is_some_and(|dest| parse(dest).is_none()) {
        return none("the node is no address: weft://hwid/endpoint/generation");
    }
    let dest = dest.and_then(|dest| CString::new(dest).ok());
    let asked = Asked { hints: &hints, source, dest: dest.as_deref(), receives };
    let mut first: *mut Info = null_mut();
    let mut last: *mut *mut Info = &mut first;
    for (name, hwid) in ports() {
        let named = hints.names[0].is_none_or(|wanted| wanted == name);
        if !named || asked.source.is_some_and(|source| !is_source(source, &name, hwid)) {
            continue;
        }
        let Ok(name) = CString::new(name) else { continue };
        let Some(info) = describe(&asked, &name, hwid) else { return -FI_ENOMEM };
        // SAFETY: It is the place of the next one: `first`, or in the one before.
        unsafe {
            last.write(info);
            last = &raw mut (*info).next;
        }
    }
    if first.is_null() {
        return none("no port of this host has the name, or may be used by this program");
    }
    // SAFETY: The program says where it wants it.
    unsafe { out.write(first) };
    0
}

/// Frees what was described, in place of libfabric.
#[cfg(test)]
unsafe fn free(info: *mut Info) {
    // SAFETY: The caller says that it is from `describe`: all of it is from malloc().
    unsafe {
        let parts: [*mut std::ffi::c_void; 10] = [
            (*(*info).domain_attr).name.cast(),
            (*(*info).fabric_attr).name.cast(),
            (*info).src_addr,
            (*info).dest_addr,
            (*info).tx_attr.cast(),
            (*info).rx_attr.cast(),
            (*info).ep_attr.cast(),
            (*info).domain_attr.cast(),
            (*info).fabric_attr.cast(),
            info.cast(),
        ];
        parts.into_iter().for_each(|part| libc::free(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_described_is_what_is_accepted() {
        let (none, dest) = (Hints::NONE, c"weft://1/2/3");
        let asked = Asked { hints: &none, source: None, dest: Some(dest), receives: 7 };
        let info = describe(&asked, c"weft5", 0x57).expect("there is memory");
        // SAFETY: It is what was described, and is freed last.
        unsafe {
            let told = hints(info);
            assert_eq!(told.refused(7), None);
            assert_eq!(told.granted(), (*info).caps);
            assert_eq!(told.names, [Some("weft5"), Some("weft"), None]);
            assert_eq!(CStr::from_ptr((*info).dest_addr.cast()), dest);
            assert_eq!((*info).dest_addrlen, dest.count_bytes() + 1);
            assert_eq!((*(*info).rx_attr).size, 7);
            assert_eq!((*(*info).tx_attr).caps, SENDING & !FI_TRIGGER);
            let events = FI_RMA_EVENT | FI_TRIGGER;
            assert_eq!((*(*info).rx_attr).caps, RECEIVING & !events);
            let source = CStr::from_ptr((*info).src_addr.cast());
            assert_eq!(source, c"weft://0000000000000057/0000/00000000");
            assert_eq!((*info).src_addrlen, source.count_bytes() + 1);
            // By it the port is found again.
            assert!(is_source(source.to_str().expect("it is text"), "weft5", 0x57));
            assert!((*info).nic.is_null() && (*info).next.is_null());
            free(info);
        }
    }

    /// Calls `look` with what is described for these hints.
    fn described<R>(hints: &Hints<'_>, look: impl FnOnce(&Info) -> R) -> R {
        let asked = Asked { hints, source: None, dest: None, receives: 7 };
        let info = describe(&asked, c"weft0", 1).expect("there is memory");
        // SAFETY: It is what was described, and is freed last.
        unsafe {
            let seen = look(&*info);
            free(info);
            seen
        }
    }

    #[test]
    fn progress_is_what_was_asked_for_or_automatic() {
        let told = |hints: &Hints<'_>| {
            described(hints, |info| {
                // SAFETY: It is there.
                let domain = unsafe { &*info.domain_attr };
                (domain.control_progress, domain.data_progress)
            })
        };
        assert_eq!(told(&Hints::NONE), (FI_PROGRESS_AUTO, FI_PROGRESS_AUTO));
        // SAFETY: It is made of numbers and pointers, which may be 0.
        let mut domain: DomainAttr = unsafe { std::mem::zeroed() };
        for (asked, wanted) in [
            (FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO),
            (FI_PROGRESS_AUTO, FI_PROGRESS_AUTO),
            (FI_PROGRESS_MANUAL, FI_PROGRESS_MANUAL),
            (FI_PROGRESS_CONTROL_UNIFIED, FI_PROGRESS_CONTROL_UNIFIED),
        ] {
            (domain.control_progress, domain.data_progress) = (FI_PROGRESS_UNSPEC, asked);
            let hints = Hints { domain: Some(&domain), ..Hints::NONE };
            assert_eq!(hints.refused(7), None);
            assert_eq!(told(&hints), (FI_PROGRESS_AUTO, wanted));
            (domain.control_progress, domain.data_progress) = (asked, FI_PROGRESS_UNSPEC);
            let hints = Hints { domain: Some(&domain), ..Hints::NONE };
            assert_eq!(told(&hints), (wanted, FI_PROGRESS_AUTO));
        }
    }

    #[test]
    fn capabilities_of_a_domain_are_none_of_its_endpoints() {
        for caps in [
            0,
            FI_MSG,
            FI_TAGGED,
            FI_MSG | FI_TAGGED | FI_DIRECTED_RECV,
            FI_TAGGED | FI_SEND,
            FI_RMA | FI_ATOMIC,
            FI_MSG | FI_RMA | FI_RMA_EVENT,
            FI_MSG | FI_RMA | FI_TRIGGER | FI_FENCE,
        ] {
            let hints = Hints { caps, ..Hints::NONE };
            described(&hints, |info| {
                // SAFETY: They are there.
                let (tx, rx) = unsafe { ((*info.tx_attr).caps, (*info.rx_attr).caps) };
                assert_eq!(info.caps & caps, caps);
                assert_eq!((tx | rx) & !info.caps, 0, "{caps:#x}");
                assert_eq!((tx | rx) & (FI_LOCAL_COMM | FI_REMOTE_COMM), 0, "{caps:#x}");
                assert_eq!(tx & (FI_MSG | FI_TAGGED), info.caps & (FI_MSG | FI_TAGGED));
                assert_eq!(rx & (FI_MSG | FI_TAGGED), info.caps & (FI_MSG | FI_TAGGED));
                assert_eq!(tx & (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE), 0);
                assert_eq!(rx & (FI_SEND | FI_READ | FI_WRITE), 0);
            });
        }
    }

    #[test]
    fn what_regions_have_is_there_with_them() {
        for (caps, limit, sizes) in [(FI_MSG, 0, [0; 3]), (FI_RMA, 1, ORDERED)] {
            described(&Hints { caps, ..Hints::NONE }, |info| {
                // SAFETY: They are there.
                let (tx, ep) = unsafe { (&*info.tx_attr, &*info.ep_attr) };
                assert_eq!(tx.rma_iov_limit, limit);
                let order = [ep.max_order_raw_size, ep.max_order_war_size, ep.max_order_waw_size];
                assert_eq!(order, sizes);
            });
        }
    }

    #[test]
    fn a_source_is_a_port_by_name_or_address() {
        assert!(is_source("weft1", "weft1", 9));
        assert!(!is_source("weft1", "weft11", 9));
        assert!(is_source("weft://9/1/1", "weft1", 9));
        assert!(!is_source("weft://8/1/1", "weft1", 9));
    }

    #[test]
    fn what_cannot_be_is_refused_whatever_ports_there_are() {
        let mut out = null_mut();
        let mut ask = |api, node: Option<&CStr>, service: Option<&CStr>| {
            let of = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
            // SAFETY: The pointers are of this test, or null.
            unsafe { getinfo(api, of(node), of(service), 0, std::ptr::null(), &mut out) }
        };
        assert_eq!(ask(version(1, 4), None, None), -FI_ENODATA);
        assert_eq!(ask(version(2, 1), Some(c"10.0.0.1"), None), -FI_ENODATA);
        assert_eq!(ask(version(2, 1), None, Some(c"7471")), -FI_ENODATA);
        assert!(out.is_null());
    }
}
