// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Memory that is registered: what may be done with which of it.

use crate::end::{BASE, End, KEY, Pair, Result, ensure, noise};
use weft::{Mw, Remote, Request, Rights, Sge, Status};

pub fn stags(end: &mut End) -> Result<()> {
    let mut pair = end.pair(4096, Rights::ALL, 0)?;
    let other = pair.pd.region_at(4096, Rights::NONE, 0, 0x33)?;
    let (a, b) = (pair.mr.stag(), other.stag());
    ensure!((a as u8, b as u8) == (KEY, 0x33), "keys of {a:#x} and {b:#x}");
    ensure!(a >> 8 != b >> 8, "one index for two regions: {a:#x} and {b:#x}");
    if end.active {
        let list = [pair.mr.sge(0, 8)];
        let remote = pair.peer.remote;
        pair.ask(&Request::write(1, &list, remote).signaled(), 1)?;
        let wrong = Remote { stag: remote.stag ^ 1, ..remote };
        pair.refused(&Request::write(2, &list, wrong), Status::RemoteAccess)?;
    }
    end.meet()
}

pub fn rights(end: &mut End) -> Result<()> {
    for (rights, status) in [
        (Rights::LOCAL_WRITE | Rights::REMOTE_READ, Status::RemoteAccess),
        (Rights::LOCAL_WRITE | Rights::REMOTE_ATOMIC, Status::RemoteAccess),
    ] {
        let mut pair = end.pair(4096, rights, 0)?;
        pair.fill(1);
        if end.active {
            let list = [pair.mr.sge(0, 64)];
            pair.refused(&Request::write(1, &list, pair.peer.remote), status)?;
        }
        end.meet()?;
        pair.holds(0, &noise(1, 4096))?;
    }
    let mut pair = end.pair(4096, Rights::LOCAL_WRITE | Rights::REMOTE_WRITE, 0)?;
    if end.active {
        let list = [pair.mr.sge(0, 64)];
        pair.refused(&Request::read(1, &list, pair.peer.remote), Status::RemoteAccess)?;
    }
    end.meet()
}

pub fn bounds(end: &mut End) -> Result<()> {
    for (at, len) in [(4096 - 7, 8usize), (4096, 1), (u64::MAX - BASE - 3, 8), (u64::MAX, 1)] {
        let mut pair = end.pair(4096, Rights::ALL, 0)?;
        pair.fill(2);
        if end.active {
            let list = [pair.mr.sge(0, len)];
            let beyond = pair.peer.remote.offset(at);
            pair.refused(&Request::write(1, &list, beyond), Status::RemoteAccess)?;
        }
        end.meet()?;
        pair.holds(0, &noise(2, 4096))?;
    }
    Ok(())
}

pub fn virtual_addresses(end: &mut End) -> Result<()> {
    const LEN: usize = 70_001;
    let mut pair = end.pair(3 * LEN, Rights::ALL, 0)?;
    pair.fill(if end.active { 3 } else { 4 });
    end.meet()?;
    if end.active {
        // Across pages that lie anywhere, at odd places of both ends.
        let list = [pair.mr.sge(4093, LEN)];
        let remote = pair.peer.remote.offset(LEN as u64 + 5);
        pair.ask(&Request::write(1, &list, remote).signaled(), 1)?;
    }
    end.meet()?;
    if !end.active {
        let (theirs, mine) = (noise(3, 3 * LEN), noise(4, 3 * LEN));
        pair.holds(0, &mine[..LEN + 5])?;
        pair.holds(LEN + 5, &theirs[4093..4093 + LEN])?;
        pair.holds(2 * LEN + 5, &mine[2 * LEN + 5..])?;
    }
    Ok(())
}

pub fn small_commands(end: &mut End) -> Result<()> {
    let mut pair = end.pair(4096, Rights::ALL, 1)?;
    if end.active {
        // Nothing of the sender's is registered for it.
        pair.ask(&Request::send_inline(1, b"a small command").imm(77).signaled(), 1)?;
    } else {
        let came = pair.done(1000)?;
        ensure!((came.bytes, came.imm) == (15, Some(77)), "{came:?}");
        pair.holds(0, b"a small command")?;
    }
    end.meet()
}

pub fn lists(end: &mut End) -> Result<()> {
    let mut pair = end.pair(65536, Rights::ALL, 0)?;
    pair.fill(if end.active { 5 } else { 6 });
    let piece = |n: usize| (n * 4001, 1 + n * 37);
    let list: Vec<Sge> = (0..16).map(|n| pair.mr.sge(piece(n).0, piece(n).1)).collect();
    let (theirs, mut total) = (noise(5, 65536), 0);
    if end.active {
        end.meet()?;
        pair.ask(&Request::send(1, &list).signaled(), 1)?;
    } else {
        ensure!(pair.qp.post_recv(1, &list)?, "no room for a receive request");
        end.meet()?;
        pair.done(1)?;
        for n in 0..16 {
            let (at, len) = piece(n);
            pair.holds(at, &theirs[at..at + len])?;
            total += len;
        }
        ensure!(total == 16 + 37 * 120, "the test adds up wrongly");
    }
    end.meet()
}

pub fn domains(end: &mut End) -> Result<()> {
    // Here: an element of the list.
    let mut pair = end.pair(4096, Rights::ALL, 0)?;
    let elsewhere = pair.objects.pd()?.region(4096, Rights::ALL)?;
    if end.active {
        let request_list = [elsewhere.sge(0, 8)];
        let request = Request::write(1, &request_list, pair.peer.remote);
        pair.refused(&request, Status::LocalProtection)?;
    }
    end.meet()?;
    // There: memory that the peer's queue pair does not share a domain with.
    let mut pair = end.pair(4096, Rights::ALL, 0)?;
    let elsewhere = pair.objects.pd()?.region(4096, Rights::ALL)?;
    let stag = end.exchange(elsewhere.stag().into())?;
    if end.active {
        let list = [pair.mr.sge(0, 8)];
        let remote = Remote { stag: stag as u32, to: 0 };
        pair.refused(&Request::write(1, &list, remote), Status::RemoteAccess)?;
    }
    end.meet()
}

/// Binds a window to the tagged offsets from `BASE` + 1000 on, 500 bytes, and tells the other end of it.
fn bound(end: &mut End, pair: &mut Pair, rights: Rights) -> Result<(Option<Mw>, Remote)> {
    let mut window = None;
    let mut stag = 0;
    if !end.active {
        let made = pair.pd.window()?;
        let (whole, part) = (pair.mr.whole(), BASE + 1000..BASE + 1500);
        pair.ask(&Request::bind(1, &made, &whole, part, rights, 0x21).signaled(), 1)?;
        stag = made.bound(0x21);
        window = Some(made);
    }
    let theirs = end.exchange(stag.into())? as u32;
    Ok((window, Remote { stag: theirs, to: BASE + 1000 }))
}

pub fn windows(end: &mut End) -> Result<()> {
    let mut pair = end.pair(4096, Rights::ALL, 0)?;
    pair.fill(if end.active { 15 } else { 16 });
    let (window, remote) = bound(end, &mut pair, Rights::REMOTE_WRITE)?;
    let list = [pair.mr.sge(0, 500)];
    if end.active {
        pair.ask(&Request::write(1, &list, remote).signaled(), 1)?;
    }
    end.meet()?;
    if let Some(window) = &window {
        pair.holds(1000, &noise(15, 500))?;
        pair.holds(1500, &noise(16, 4096)[1500..])?;
        pair.ask(&Request::invalidate(2, window, 0x21).signaled(), 2)?;
        pair.fill(16);
    }
    end.meet()?;
    if end.active {
        pair.refused(&Request::write(2, &list, remote), Status::RemoteAccess)?;
    }
    end.meet()?;
    if !end.active {
        pair.holds(0, &noise(16, 4096))?;
    }
    Ok(())
}

pub fn windows_bounds(end: &mut End) -> Result<()> {
    // A byte before it, one behind it, and what its rights do not allow though the region's do.
    for (back, len, read) in [(1, 10, false), (0, 501, false), (0, 8, true)] {
        let mut pair = end.pair(4096, Rights::ALL, 0)?;
        pair.fill(17);
        let (_window, remote) = bound(end, &mut pair, Rights::REMOTE_WRITE)?;
        if end.active {
            let list = [pair.mr.sge(0, len)];
            let remote = Remote { to: remote.to - back, ..remote };
            let request = if read {
                Request::read(1, &list, remote)
            } else {
                Request::write(1, &list, remote)
            };
            pair.refused(&request, Status::RemoteAccess)?;
        }
        end.meet()?;
        pair.holds(0, &noise(17, 4096))?;
    }
    Ok(())
}
