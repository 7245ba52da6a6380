// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What moves between the ends: each operation, long messages, reads.

use crate::end::{End, Result, ensure, noise};
use weft::{Operation, Request, Rights, Status};

pub fn operations(end: &mut End) -> Result<()> {
    let mut pair = end.pair(8192, Rights::ALL, 2)?;
    pair.fill(if end.active { 7 } else { 8 });
    let (mine, theirs) = (noise(7, 8192), noise(8, 8192));
    if !end.active {
        pair.mr.store(4096, 40);
        end.meet()?;
        let came = pair.done(1000)?;
        ensure!(came.operation == Operation::Recv && came.bytes == 500, "{came:?}");
        let came = pair.done(1001)?;
        ensure!(came.operation == Operation::RecvWriteImm && came.imm == Some(9), "{came:?}");
        pair.holds(0, &mine[..500])?;
        pair.holds(5000, &mine[1000..1100])?;
        end.meet()?;
        ensure!(pair.mr.load(4096) == 100, "{} after the swap", pair.mr.load(4096));
        return end.meet();
    }
    end.meet()?;
    let remote = pair.peer.remote;
    let list = [pair.mr.sge(0, 500)];
    pair.ask(&Request::send(1, &list).signaled(), 1)?;
    let list = [pair.mr.sge(1000, 100)];
    pair.ask(&Request::write(2, &list, remote.offset(5000)).imm(9).signaled(), 2)?;
    let list = [pair.mr.sge(2000, 300)];
    pair.ask(&Request::read(3, &list, remote.offset(6000)).signaled(), 3)?;
    pair.holds(2000, &theirs[6000..6300])?;
    let list = [pair.mr.sge(4096, 8)];
    pair.ask(&Request::fetch_add(4, &list, remote.offset(4096), 2).signaled(), 4)?;
    ensure!(pair.mr.load(4096) == 40, "{} before the addition", pair.mr.load(4096));
    pair.ask(&Request::compare_swap(5, &list, remote.offset(4096), 41, 7).signaled(), 5)?;
    ensure!(pair.mr.load(4096) == 42, "{} before the swap that fails", pair.mr.load(4096));
    pair.ask(&Request::compare_swap(6, &list, remote.offset(4096), 42, 100).signaled(), 6)?;
    end.meet()?;
    end.meet()
}

pub fn long_write(end: &mut End) -> Result<()> {
    const LEN: usize = (3 << 20) + 17;
    let mut pair = end.pair(LEN, Rights::ALL, 0)?;
    pair.fill(if end.active { 9 } else { 10 });
    end.meet()?;
    if end.active {
        let list = [pair.mr.all()];
        pair.ask(&Request::write(1, &list, pair.peer.remote).signaled(), 1)?;
    }
    end.meet()?;
    pair.holds(0, &noise(9, LEN))
}

pub fn read(end: &mut End) -> Result<()> {
    const LEN: usize = (1 << 20) + 4099;
    let mut pair = end.pair(LEN, Rights::ALL, 0)?;
    pair.fill(if end.active { 11 } else { 12 });
    end.meet()?;
    if end.active {
        for (wr_id, at, len) in [(1, 3, 1), (2, 64, 64), (3, 100, 4096), (4, 5001, LEN - 5001)] {
            let list = [pair.mr.sge(at, len)];
            let remote = pair.peer.remote.offset(at as u64);
            let done = pair.ask(&Request::read(wr_id, &list, remote).signaled(), wr_id)?;
            ensure!(done.bytes as usize == len, "{len} bytes: {done:?}");
            pair.holds(at, &noise(12, LEN)[at..at + len])?;
        }
    }
    end.meet()
}

pub fn read_all(end: &mut End) -> Result<()> {
    const LEN: usize = 100_003;
    // This end's memory is larger: it does not know how much there is.
    let bytes = if end.active { 4 * LEN } else { LEN };
    let mut pair = end.pair(bytes, Rights::ALL, 0)?;
    pair.fill(if end.active { 13 } else { 14 });
    end.meet()?;
    if end.active {
        let list = [pair.mr.all()];
        let remote = pair.peer.remote.offset(3);
        let done = pair.ask(&Request::read_all(1, &list, remote).signaled(), 1)?;
        ensure!(done.bytes as usize == LEN - 3, "{} bytes, not {}", done.bytes, LEN - 3);
        pair.holds(0, &noise(14, LEN)[3..])?;
        pair.holds(LEN - 3, &noise(13, 4 * LEN)[LEN - 3..])?;
        let list = [pair.mr.sge(0, LEN - 4)];
        pair.refused(&Request::read_all(2, &list, remote), Status::LocalLength)?;
    }
    end.meet()
}
