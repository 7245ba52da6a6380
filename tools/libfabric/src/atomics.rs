// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Atomic operations: which there are on which types, and on how many integers. The driver has those of libfabric on
//! integers of 8 to 64 bits, and none on floating point numbers.

use crate::fi::*;
use std::ffi::c_int;
use weft::matching::{Change, Operation};

/// Which function an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `fi_atomic()`: the program is not told what there was.
    Base,
    /// `fi_fetch_atomic()`: it is.
    Fetch,
    /// `fi_compare_atomic()`: it is, and what there was is compared with something.
    Compare,
}

/// The operation, and the functions that it is for.
fn known(op: u32) -> Option<(Operation, &'static [Kind])> {
    const BOTH: &[Kind] = &[Kind::Base, Kind::Fetch];
    const COMPARES: &[Kind] = &[Kind::Compare];
    Some(match op {
        FI_MIN => (Operation::Min, BOTH),
        FI_MAX => (Operation::Max, BOTH),
        FI_SUM => (Operation::Sum, BOTH),
        FI_PROD => (Operation::Product, BOTH),
        FI_LOR => (Operation::LogicalOr, BOTH),
        FI_LAND => (Operation::LogicalAnd, BOTH),
        FI_BOR => (Operation::BitOr, BOTH),
        FI_BAND => (Operation::BitAnd, BOTH),
        FI_LXOR => (Operation::LogicalXor, BOTH),
        FI_BXOR => (Operation::BitXor, BOTH),
        FI_DIFF => (Operation::Difference, BOTH),
        FI_ATOMIC_READ => (Operation::Read, &[Kind::Fetch]),
        FI_ATOMIC_WRITE => (Operation::Write, BOTH),
        FI_CSWAP => (Operation::SwapEqual, COMPARES),
        FI_CSWAP_NE => (Operation::SwapNotEqual, COMPARES),
        FI_CSWAP_LE => (Operation::SwapLessEqual, COMPARES),
        FI_CSWAP_LT => (Operation::SwapLess, COMPARES),
        FI_CSWAP_GE => (Operation::SwapGreaterEqual, COMPARES),
        FI_CSWAP_GT => (Operation::SwapGreater, COMPARES),
        FI_MSWAP => (Operation::SwapMasked, COMPARES),
        _ => return None,
    })
}

/// The operation of a function on a type; FI_EOPNOTSUPP: there is none.
pub fn change(datatype: u32, op: u32, kind: Kind) -> Result<Change, c_int> {
    // They are of 8 to 64 bits, each with a sign and then without.
    let integers = (FI_INT8..=FI_UINT64).contains(&datatype);
    let (operation, kinds) = known(op).filter(|_| integers).ok_or(FI_EOPNOTSUPP)?;
    let change = Change::new(operation, 1 << (datatype / 2), datatype % 2 == 0);
    change.filter(|_| kinds.contains(&kind)).ok_or(FI_EOPNOTSUPP)
}

/// `fi_query_atomic()`.
pub unsafe extern "C" fn query(
    _domain: *mut FidDomain,
    datatype: u32,
    op: u32,
    attr: *mut AtomicAttr,
    flags: u64,
) -> c_int {
    let kind = match flags {
        0 => Kind::Base,
        FI_FETCH_ATOMIC => Kind::Fetch,
        FI_COMPARE_ATOMIC => Kind::Compare,
        // On what a tagged message meets, for one.
        _ => return -FI_EOPNOTSUPP,
    };
    match change(datatype, op, kind) {
        Ok(change) => {
            // SAFETY: The program says where it wants it.
            unsafe { attr.write(AtomicAttr { count: change.most(), size: change.width() }) };
            0
        }
        Err(error) => -error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn each_operation_is_for_its_functions() {
        let kinds = |op| {
            [Kind::Base, Kind::Fetch, Kind::Compare].map(|kind| change(FI_UINT64, op, kind).is_ok())
        };
        for op in (FI_MIN..=FI_BXOR).chain([FI_ATOMIC_WRITE, FI_DIFF]) {
            assert_eq!(kinds(op), [true, true, false], "{op}");
        }
        assert_eq!(kinds(FI_ATOMIC_READ), [false, true, false]);
        for op in FI_CSWAP..=FI_MSWAP {
            assert_eq!(kinds(op), [false, false, true], "{op}");
        }
        for op in [FI_DIFF + 1, 256, u32::MAX] {
            assert_eq!(kinds(op), [false; 3], "{op}");
        }
    }

    #[test]
    fn types_are_integers() {
        for datatype in FI_INT8..=FI_UINT64 {
            let change = change(datatype, FI_SUM, Kind::Base).expect("there is one");
            assert_eq!(change.width(), [1, 1, 2, 2, 4, 4, 8, 8][datatype as usize]);
            assert_eq!(change.most() * change.width(), weft::matching::ATOMIC);
            let other = Change::new(Operation::Sum, change.width() as u8, datatype % 2 == 0);
            assert_eq!(Some(change), other);
        }
        for datatype in [FI_UINT64 + 1, 9, 15, 256, u32::MAX] {
            assert_eq!(change(datatype, FI_SUM, Kind::Base), Err(FI_EOPNOTSUPP));
        }
    }

    #[test]
    fn a_query_says_how_many_and_how_long() {
        let mut attr = AtomicAttr { count: 0, size: 0 };
        let mut ask = |op, flags| {
            // SAFETY: The pointer is of this test; the domain is not used.
            let told = unsafe { query(null_mut(), FI_INT8 + 4, op, &mut attr, flags) };
            (told, attr.count, attr.size)
        };
        assert_eq!(ask(FI_CSWAP, FI_FETCH_ATOMIC), (-FI_EOPNOTSUPP, 0, 0));
        assert_eq!(ask(FI_CSWAP, FI_COMPARE_ATOMIC), (0, 512, 4));
        assert_eq!(ask(FI_SUM, 0).0, 0);
        assert_eq!(ask(FI_ATOMIC_READ, FI_FETCH_ATOMIC).0, 0);
        assert_eq!(ask(FI_ATOMIC_READ, 0).0, -FI_EOPNOTSUPP);
        assert_eq!(ask(FI_SUM, FI_TAGGED).0, -FI_EOPNOTSUPP);
        assert_eq!(ask(FI_CSWAP, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC).0, -FI_EOPNOTSUPP);
    }
}
