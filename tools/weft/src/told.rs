// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Lists that the driver tells an entry a call, with a serial number: read as they were at one time.
//! Knows nothing of what is in them.

use crate::error::{Error, Result};
use rustix::io::Errno;
use std::io;

/// Times that a list is read anew because it has changed meanwhile.
const TRIES: u32 = 100;

/// What a call told.
pub struct Told<T> {
    /// The entry.
    pub value: T,
    /// How many there are.
    pub count: u32,
    /// Another one when they are others.
    pub serial: u32,
}

/// Whether the driver says that the port has no manager.
pub fn unmanaged(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::OPNOTSUPP)
}

/// All entries of a list that `ask` asks for by number; `None`: the port has no manager. `what` is said
/// when it fails.
pub fn all<T>(
    what: &'static str,
    mut ask: impl FnMut(u32) -> io::Result<Told<T>>,
) -> Result<Option<Vec<T>>> {
    for _ in 0..TRIES {
        let mut all = Vec::new();
        let mut first = None;
        loop {
            let told = match ask(all.len() as u32) {
                Ok(told) => told,
                Err(e) if unmanaged(&e) => return Ok(None),
                // There is none at all, or there are fewer than there were.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::NOENT) => match all.len() {
                    0 => return Ok(Some(all)),
                    _ => break,
                },
                Err(e) => return Err(Error::managed(what, e)),
            };
            if *first.get_or_insert(told.serial) != told.serial {
                break;
            }
            all.push(told.value);
            if all.len() as u32 >= told.count {
                return Ok(Some(all));
            }
        }
    }
    Err(Error::Driver("the fabric changes faster than it can be read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(errno: Errno) -> io::Error {
        errno.into()
    }

    /// A list that is another one from call to call.
    fn read(lists: &[(&[u32], u32)]) -> Result<Option<Vec<u32>>> {
        let mut calls = 0;
        all("reading", |index| {
            let (list, serial) = lists[calls.min(lists.len() - 1)];
            calls += 1;
            let value = *list.get(index as usize).ok_or_else(|| error(Errno::NOENT))?;
            Ok(Told { value, count: list.len() as u32, serial })
        })
    }

    #[test]
    fn a_list_is_of_one_time() {
        let same: (&[u32], u32) = (&[1, 2, 3], 7);
        assert!(matches!(read(&[same]), Ok(Some(all)) if all == [1, 2, 3]));
        // Another one in the middle, and one that has become shorter.
        let other: (&[u32], u32) = (&[4, 5], 8);
        assert!(matches!(read(&[same, other]), Ok(Some(all)) if all == [4, 5]));
        assert!(matches!(read(&[same, same, other]), Ok(Some(all)) if all == [4, 5]));
        assert!(matches!(read(&[(&[], 1)]), Ok(Some(all)) if all.is_empty()));
        let mut serial = 0;
        let changing = all("reading", |_| {
            serial += 1;
            Ok(Told { value: (), count: 2, serial })
        });
        assert!(matches!(changing, Err(Error::Driver(_))), "{changing:?}");
    }

    #[test]
    fn refusals_are_told_apart() {
        let refused = |errno| all::<()>("reading", |_| Err(error(errno)));
        assert!(matches!(refused(Errno::OPNOTSUPP), Ok(None)));
        assert!(matches!(refused(Errno::REMOTE), Err(Error::NotMaster)));
        assert!(matches!(refused(Errno::AGAIN), Err(Error::NoMaster)));
        assert!(matches!(refused(Errno::PERM), Err(Error::Privilege("reading"))));
        assert!(matches!(refused(Errno::NODEV), Err(Error::Gone)));
        assert!(matches!(refused(Errno::IO), Err(Error::Os { .. })));
    }
}
