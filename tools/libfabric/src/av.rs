// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Address vectors. Addresses go in at once, and are strings behind each other; an `fi_addr_t` is an index, whether the
//! vector is a table or a map.

use crate::address::{self, parse};
use crate::base::{Object, absent, close, copy_text, core_of, head, no_bind, no_control, text};
use crate::domain::Domain;
use crate::fi::*;
use crate::table::Table;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// An address vector.
#[derive(Debug)]
pub struct Av {
    table: RwLock<Table>,
    _domain: Option<Arc<Domain>>,
}

impl Av {
    pub fn table(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

static OPS: Ops = Ops {
    size: size_of::<Ops>(),
    close: close::<FidAv, Av>,
    bind: no_bind,
    control: no_control,
    ops_open: absent,
    tostr: absent,
    ops_set: absent,
};
static AV: OpsAv = OpsAv {
    size: size_of::<OpsAv>(),
    insert,
    insertsvc,
    insertsym: absent,
    remove,
    lookup,
    straddr,
    av_set: absent,
    insert_auth_key: absent,
    lookup_auth_key: absent,
    set_user_id: absent,
};

/// `fi_av_open()`.
pub unsafe extern "C" fn open(
    domain: *mut FidDomain,
    attr: *mut AvAttr,
    out: *mut *mut FidAv,
    context: *mut c_void,
) -> c_int {
    // SAFETY: The program gives its attributes.
    let attr = unsafe { &mut *attr };
    if !attr.name.is_null() || attr.rx_ctx_bits != 0 || attr.flags & FI_EVENT != 0 {
        return -FI_ENOSYS;
    }
    match attr.kind {
        FI_AV_UNSPEC => attr.kind = FI_AV_TABLE,
        FI_AV_MAP | FI_AV_TABLE => {}
        _ => return -FI_EINVAL,
    }
    let domain = core_of!(domain, FidDomain, Domain).clone();
    let av = Av { table: RwLock::default(), _domain: Some(domain) };
    // SAFETY: The program says where it wants it.
    unsafe { Object::give(fid(context), Arc::new(av), out) }
}

fn fid(context: *mut c_void) -> FidAv {
    FidAv { fid: head(FI_CLASS_AV, context, &OPS), ops: &AV }
}

/// Inserts one, and says its index, or none, in its place of `out`.
///
/// # Safety
///
/// `out` is null, or has such a place.
unsafe fn insert_one(av: &Av, name: Option<&str>, out: *mut FiAddr, n: usize) -> bool {
    let index = name.and_then(parse).map(|address| av.change().insert(address));
    if !out.is_null() {
        // SAFETY: As the caller says.
        unsafe { out.add(n).write(index.unwrap_or(FI_ADDR_UNSPEC)) };
    }
    index.is_some()
}

/// Returns how many were inserted.
unsafe extern "C" fn insert(
    av: *mut FidAv,
    addresses: *const c_void,
    count: usize,
    out: *mut FiAddr,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    let av = core_of!(av, FidAv, Av);
    let mut at = addresses.cast::<c_char>();
    let mut inserted = 0;
    for n in 0..count {
        // SAFETY: The program gives so many strings, behind each other, and as many places or none.
        unsafe {
            let name = CStr::from_ptr(at);
            at = at.add(name.count_bytes() + 1);
            inserted += c_int::from(insert_one(av, name.to_str().ok(), out, n));
        }
    }
    inserted
}

unsafe extern "C" fn insertsvc(
    av: *mut FidAv,
    node: *const c_char,
    _service: *const c_char,
    out: *mut FiAddr,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    let av = core_of!(av, FidAv, Av);
    // SAFETY: The program gives a string, and a place or none.
    unsafe { c_int::from(insert_one(av, text(node), out, 0)) }
}

unsafe extern "C" fn remove(
    av: *mut FidAv,
    indices: *mut FiAddr,
    count: usize,
    _flags: u64,
) -> c_int {
    let av = core_of!(av, FidAv, Av);
    let mut table = av.change();
    let mut all = true;
    for n in 0..count {
        // SAFETY: The program gives so many.
        all &= table.remove(unsafe { indices.add(n).read() });
    }
    if all { 0 } else { -FI_EINVAL }
}

unsafe extern "C" fn lookup(
    av: *mut FidAv,
    index: FiAddr,
    to: *mut c_void,
    len: *mut usize,
) -> c_int {
    let av = core_of!(av, FidAv, Av);
    let Some(address) = av.table().get(index) else { return -FI_EINVAL };
    // SAFETY: The program says how much room there is. That there was too little, it is told by the length.
    unsafe { copy_text(address::name(&address).as_bytes(), to, len) };
    0
}

unsafe extern "C" fn straddr(
    _av: *mut FidAv,
    address: *const c_void,
    to: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: The program gives a string, and says how much room there is.
    unsafe {
        let name = CStr::from_ptr(address.cast());
        copy_text(name.to_bytes(), to.cast(), len);
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn opened() -> *mut FidAv {
        let mut out = null_mut();
        let av = Av { table: RwLock::default(), _domain: None };
        // SAFETY: The pointer is of this test.
        assert_eq!(unsafe { Object::give(fid(null_mut()), Arc::new(av), &mut out) }, 0);
        out
    }

    #[test]
    fn addresses_go_in_behind_each_other() {
        let av = opened();
        let names = b"weft://1/2/3\0nonsense\0weft://0000000000000004/0005/00000006\0";
        let mut out = [9; 3];
        // SAFETY: There are so many of each; the vector is closed last.
        unsafe {
            assert_eq!(insert(av, names.as_ptr().cast(), 3, out.as_mut_ptr(), 0, null_mut()), 2);
            assert_eq!(out, [0, FI_ADDR_UNSPEC, 1]);
            assert_eq!(
                insertsvc(av, c"weft://7/8/9".as_ptr(), null_mut(), null_mut(), 0, null_mut()),
                1
            );
            let (mut to, mut len) = ([0u8; 64], 64);
            assert_eq!(lookup(av, 1, to.as_mut_ptr().cast(), &mut len), 0);
            assert_eq!(len, address::BYTES);
            assert_eq!(&to[..len], b"weft://0000000000000004/0005/00000006\0");
            len = 3;
            assert_eq!((lookup(av, 0, to.as_mut_ptr().cast(), &mut len), len), (0, address::BYTES));
            assert_eq!(lookup(av, 3, to.as_mut_ptr().cast(), &mut len), -FI_EINVAL);
            let mut gone = [0, 77];
            assert_eq!(remove(av, gone.as_mut_ptr(), 2, 0), -FI_EINVAL);
            assert_eq!(lookup(av, 0, to.as_mut_ptr().cast(), &mut len), -FI_EINVAL);
            len = 64;
            let said = straddr(av, names.as_ptr().cast(), to.as_mut_ptr().cast(), &mut len);
            assert_eq!(CStr::from_ptr(said), c"weft://1/2/3");
            assert_eq!(close::<FidAv, Av>(av.cast()), 0);
        }
    }
}
