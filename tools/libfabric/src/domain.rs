// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Domains: a port of this host each, named as its device file.

use crate::base::{Object, absent, close, core_of, head, no_bind, no_control, text};
use crate::fabric::{Fabric, api};
use crate::fi::*;
use crate::{av, cntr, cq, endpoint, log, mr};
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Arc;
use weft::Port;

/// A domain.
#[derive(Debug)]
pub struct Domain {
    pub port: Port,
    /// The version of the interface that the program uses.
    pub api: u32,
    _fabric: Arc<Fabric>,
}

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close: close::<FidDomain, Domain>,
    bind: no_bind,
    control: no_control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
static DOMAIN: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: endpoint::open,
    scalable_ep: absent,
    cntr_open: cntr::open,
    poll_open: absent,
    stx_ctx: absent,
    srx_ctx: absent,
    query_atomic: absent,
    query_collective: absent,
    endpoint2: absent,
};

/// The path of a port by the name of its domain; `None`: no port has such a name.
fn path_of(name: &str) -> Option<String> {
    let number = name.strip_prefix("weft").filter(|rest| !rest.is_empty())?;
    number.bytes().all(|digit| digit.is_ascii_digit()).then(|| format!("/dev/{name}"))
}

/// `fi_domain()`.
pub unsafe extern "C" fn open(
    fabric: *mut FidFabric,
    info: *mut Info,
    out: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: Programs give what `fi_getinfo()` gave them, whose name is a string if it is not null.
    let name = unsafe { (*info).domain_attr.as_ref().and_then(|attr| text(attr.name)) };
    let Some(path) = name.and_then(path_of) else { return -FI_EINVAL };
    let port = match Port::open_path(Path::new(&path)) {
        Ok(port) => port,
        Err(error) => {
            log::warning!(FI_LOG_DOMAIN, "{error}");
            return -FI_ENODEV;
        }
    };
    // SAFETY: The program has opened it and not closed it.
    let api = unsafe { api(fabric) };
    let domain = Domain { port, api, _fabric: core_of!(fabric, FidFabric, Fabric).clone() };
    let head = head(FI_CLASS_DOMAIN, context, &OPS);
    let fid = FidDomain { fid: head, ops: &DOMAIN, mr: &mr::DOMAIN };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid, Arc::new(domain), out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_ports() {
        assert_eq!(path_of("weft0").as_deref(), Some("/dev/weft0"));
        assert_eq!(path_of("weft12").as_deref(), Some("/dev/weft12"));
        for name in ["weft", "weft0/../null", "eth0", "", "weftx", "0"] {
            assert_eq!(path_of(name), None);
        }
    }
}
