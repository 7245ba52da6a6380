// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests queue pairs between two hosts: `weft-verbs listen PORT SERVICE` on one, `weft-verbs connect
//! PORT SERVICE` on the other, which prints TAP. Each test is a function that both ends run; the end
//! that connected is *active* and asks for things, the other one offers memory and looks at what
//! became of it. They meet by messages over a channel.

use std::process::ExitCode;
use std::time::Duration;
use weft::verbs::{self, Offer};
use weft::{
    Channel, Completion, Connect, Cq, Error, Mr, Objects, Operation, Pd, Port, Qp, QpOptions,
    QpState, Request, Rights, Sge, Status,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Test = fn(&mut End) -> Result<()>;

/// Guests are slow when others run.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// The base of regions: tagged offsets are no addresses.
const BASE: u64 = 0x7000_0000_1000;
const KEY: u8 = 0x5a;

macro_rules! ensure {
    ($condition:expr, $($what:tt)*) => {
        if !$condition {
            return Err(format!($($what)*).into());
        }
    };
}

const TESTS: &[(&str, Test)] = &[
    ("M-1 an STag is an index of the driver's and a key of the user's", stags),
    ("M-2 the owner refuses what rights do not allow", rights),
    ("M-2 the owner refuses what is out of bounds", bounds),
    ("M-3 a region begins at any tagged offset and address", virtual_addresses),
    ("M-4 a small command needs no memory that was registered for it", small_commands),
    ("M-5 lists of sixteen elements are gathered and scattered", lists),
    ("M-5 memory of another protection domain is refused, here and there", domains),
    ("M-6 messages arrive in order, each in one receive request", order),
    ("Q-1 a queue goes round and each request completes once", round_and_round),
    ("Q-2 completions are polled for and waited for", polled_and_waited_for),
    ("Q-3 push/push/push does every operation", operations),
    ("P-2 a long write arrives whole", long_write),
    ("P-3 a read of known size", read),
    ("P-4 read of unknown size", read_all),
    ("P-5 a peer is named by its hardware id", by_id),
];

/// One end, while it tests.
struct End {
    port: Port,
    channel: Channel,
    active: bool,
}

/// A queue pair that is joined with one at the other end, and memory.
struct Pair {
    pd: Pd,
    cq: Cq,
    qp: Qp,
    mr: Mr,
    /// What the other end offers.
    peer: Offer,
    objects: Objects,
}

impl End {
    /// Waits for the other end to come to the same point.
    fn meet(&mut self) -> Result<()> {
        self.channel.send(&[], 1, PATIENCE)?;
        let mut nothing = Vec::new();
        ensure!(self.channel.recv(&mut nothing, PATIENCE)? == 1, "the ends are out of step");
        Ok(())
    }

    /// Tells the other end a number and learns one from it.
    fn exchange(&mut self, mine: u64) -> Result<u64> {
        self.channel.send(&[], mine, PATIENCE)?;
        Ok(self.channel.recv(&mut Vec::new(), PATIENCE)?)
    }

    /// A pair of queue pairs with `bytes` of memory that may do everything, and `recvs` receive
    /// requests for the first bytes of it.
    fn pair(&mut self, bytes: usize, rights: Rights, recvs: u64) -> Result<Pair> {
        self.pair_with(&QpOptions::new().sges(16, 16), bytes, rights, recvs)
    }

    fn pair_with(
        &mut self,
        options: &QpOptions,
        bytes: usize,
        rights: Rights,
        recvs: u64,
    ) -> Result<Pair> {
        let objects = self.port.objects()?;
        let pd = objects.pd()?;
        let cq = objects.cq(256)?;
        let mr = pd.region_at(bytes, rights, BASE, KEY)?;
        let mut qp = pd.qp(&cq, &cq, options)?;
        let offer = Offer { remote: mr.remote(0), bytes: bytes as u64 };
        let all = mr.sge(0, bytes.min(4096));
        let offers =
            verbs::join(&mut self.channel, &mut qp, Rights::REMOTE, &[offer], PATIENCE, |qp| {
                for wr_id in 0..recvs {
                    if !qp.post_recv(1000 + wr_id, &[all])? {
                        return Err(Error::Invalid("no room for receive requests".into()));
                    }
                }
                Ok(())
            })?;
        let peer = *offers.first().ok_or("the other end offers nothing")?;
        Ok(Pair { pd, cq, qp, mr, peer, objects })
    }
}

impl Pair {
    fn post(&mut self, request: &Request<'_>) -> Result<()> {
        ensure!(self.qp.post(request)?, "the send queue is full");
        Ok(self.qp.ring()?)
    }

    /// Waits for a completion that succeeded.
    fn done(&mut self, wr_id: u64) -> Result<Completion> {
        let done = self.cq.wait(PATIENCE)?;
        ensure!(done.wr_id == wr_id, "completion of {}, not of {wr_id}: {done:?}", done.wr_id);
        ensure!(done.qpn == self.qp.qpn(), "completion of another queue pair: {done:?}");
        Ok(done.must()?)
    }

    fn ask(&mut self, request: &Request<'_>, wr_id: u64) -> Result<Completion> {
        self.post(request)?;
        self.done(wr_id)
    }

    /// A request must fail so, and the queue pair with it.
    fn refused(&mut self, request: &Request<'_>, status: Status) -> Result<()> {
        self.post(request)?;
        let done = self.cq.wait(PATIENCE)?;
        ensure!(done.status == status, "{:?}, not {status:?}", done.status);
        let state = self.qp.status()?.state;
        ensure!(state == QpState::Error, "the queue pair is in {state:?} after {status:?}");
        Ok(())
    }

    fn fill(&self, seed: u64) {
        self.mr.write(0, &noise(seed, self.mr.len()));
    }

    fn holds(&self, at: usize, wanted: &[u8]) -> Result<()> {
        let mut found = vec![0; wanted.len()];
        self.mr.read(at, &mut found);
        match found.iter().zip(wanted).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(n) => Err(format!(
                "byte {} of {}: {} instead of {}",
                at + n,
                wanted.len(),
                found[n],
                wanted[n]
            )
            .into()),
        }
    }
}

/// Bytes that look random, the same at both ends.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..len).map(next).collect()
}

fn stags(end: &mut End) -> Result<()> {
    let mut pair = end.pair(4096, Rights::ALL, 0)?;
    let other = pair.pd.region_at(4096, Rights::NONE, 0, 0x33)?;
    let (a, b) = (pair.mr.stag(), other.stag());
    ensure!((a as u8, b as u8) == (KEY, 0x33), "keys of {a:#x} and {b:#x}");
    ensure!(a >> 8 != b >> 8, "one index for two regions: {a:#x} and {b:#x}");
    if end.active {
        let list = [pair.mr.sge(0, 8)];
        let remote = pair.peer.remote;
        pair.ask(&Request::write(1, &list, remote).signaled(), 1)?;
        let wrong = weft::Remote { stag: remote.stag ^ 1, ..remote };
        pair.refused(&Request::write(2, &list, wrong), Status::RemoteAccess)?;
    }
    end.meet()
}

fn rights(end: &mut End) -> Result<()> {
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

fn bounds(end: &mut End) -> Result<()> {
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

fn virtual_addresses(end: &mut End) -> Result<()> {
    const LEN: usize = 70_001;
    let mut pair = end.pair(3 * LEN, Rights::ALL, 0)?;
    pair.fill(if end.active { 3 } else { 4 });
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

fn small_commands(end: &mut End) -> Result<()> {
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

fn lists(end: &mut End) -> Result<()> {
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

fn domains(end: &mut End) -> Result<()> {
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
        let remote = weft::Remote { stag: stag as u32, to: 0 };
        pair.refused(&Request::write(1, &list, remote), Status::RemoteAccess)?;
    }
    end.meet()
}

fn order(end: &mut End) -> Result<()> {
    const COUNT: u64 = 40;
    let mut pair = end.pair(4096, Rights::ALL, COUNT)?;
    let length = |n: u64| (n * 61 % 2000) as usize;
    if end.active {
        for n in 0..COUNT {
            let list = [pair.mr.sge(0, length(n))];
            pair.ask(&Request::send(n, &list).imm(n as u32).signaled(), n)?;
        }
    } else {
        for n in 0..COUNT {
            let came = pair.done(1000 + n)?;
            ensure!(came.operation == Operation::Recv, "{came:?}");
            ensure!(came.bytes as usize == length(n), "message {n}: {came:?}");
            ensure!(came.imm == Some(n as u32), "message {n}: {came:?}");
        }
    }
    end.meet()
}

fn round_and_round(end: &mut End) -> Result<()> {
    const COUNT: u64 = 100;
    let options = QpOptions::new().entries(16, 16);
    let mut pair = end.pair_with(&options, 8 * COUNT as usize, Rights::ALL, 0)?;
    if end.active {
        let (mut posted, mut done) = (0, 0);
        while done < COUNT {
            while posted < COUNT && posted - done < 64 {
                let word = (posted + 1).to_ne_bytes();
                let to = pair.peer.remote.offset(8 * posted);
                if !pair.qp.post(&Request::write_inline(posted, &word, to).signaled())? {
                    break;
                }
                posted += 1;
            }
            pair.qp.ring()?;
            pair.done(done)?;
            done += 1;
        }
        pair.qp.progress(0)?;
        ensure!(pair.cq.poll()?.is_none(), "more completions than requests");
    }
    end.meet()?;
    if !end.active {
        for n in 0..COUNT {
            let word = pair.mr.load(8 * n as usize);
            ensure!(word == n + 1, "word {n} is {word}");
        }
    }
    Ok(())
}

fn polled_and_waited_for(end: &mut End) -> Result<()> {
    let mut pair = end.pair(4096, Rights::ALL, 2)?;
    if end.active {
        pair.post(&Request::send_inline(1, b"polled").signaled())?;
        ensure!(pair.cq.spin(PATIENCE)?.must()?.wr_id == 1, "another completion");
        // The other end sleeps before this one sends.
        end.meet()?;
        pair.ask(&Request::send_inline(2, b"waited for").signaled(), 2)?;
    } else {
        ensure!(pair.cq.spin(PATIENCE)?.must()?.wr_id == 1000, "another completion");
        pair.holds(0, b"polled")?;
        ensure!(pair.cq.poll()?.is_none(), "a message before it was sent");
        pair.cq.arm()?;
        end.meet()?;
        pair.done(1001)?;
        pair.holds(0, b"waited for")?;
    }
    end.meet()
}

fn operations(end: &mut End) -> Result<()> {
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

fn long_write(end: &mut End) -> Result<()> {
    const LEN: usize = (3 << 20) + 17;
    let mut pair = end.pair(LEN, Rights::ALL, 0)?;
    pair.fill(if end.active { 9 } else { 10 });
    if end.active {
        let list = [pair.mr.all()];
        pair.ask(&Request::write(1, &list, pair.peer.remote).signaled(), 1)?;
    }
    end.meet()?;
    pair.holds(0, &noise(9, LEN))
}

fn read(end: &mut End) -> Result<()> {
    const LEN: usize = (1 << 20) + 4099;
    let mut pair = end.pair(LEN, Rights::ALL, 0)?;
    pair.fill(if end.active { 11 } else { 12 });
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

fn read_all(end: &mut End) -> Result<()> {
    const LEN: usize = 100_003;
    // This end's memory is larger: it does not know how much there is.
    let bytes = if end.active { 4 * LEN } else { LEN };
    let mut pair = end.pair(bytes, Rights::ALL, 0)?;
    pair.fill(if end.active { 13 } else { 14 });
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

fn by_id(end: &mut End) -> Result<()> {
    let objects = end.port.objects()?;
    let (pd, mut cq) = (objects.pd()?, objects.cq(16)?);
    let mut qp = pd.qp(&cq, &cq, &QpOptions::new())?;
    let mr = pd.region(64, Rights::ALL)?;
    qp.init(Rights::NONE)?;
    if !end.active {
        ensure!(qp.post_recv(1, &[mr.all()])?, "no room for a receive request");
    }
    let nobody = weft::QpPath { peer: 0xfeed_0000_0000_beef, link: None, qpn: 1 };
    let refused = qp.connect(&nobody);
    ensure!(matches!(refused, Err(Error::Unreachable(_))), "a peer that is not there: {refused:?}");
    let peer = end.channel.peer().hwid;
    let qpn = end.exchange(qp.qpn().into())? as u32;
    qp.connect(&weft::QpPath { peer, link: None, qpn })?;
    end.meet()?;
    if end.active {
        ensure!(qp.post(&Request::send_inline(1, b"by id").signaled())?, "no room");
        qp.ring()?;
    }
    cq.wait(PATIENCE)?.must()?;
    end.meet()
}

fn run(arguments: &[&str]) -> Result<bool> {
    let (channel, port, active) = match arguments {
        ["listen", port, service] => {
            let port = Port::open(port.parse()?)?;
            let listener = port.listen(service.parse()?, 1)?;
            println!("listening");
            (listener.accept(PATIENCE)?, port, false)
        }
        ["connect", port, service] => {
            let port = Port::open(port.parse()?)?;
            (port.connect(&Connect::to_link(0, service.parse()?))?, port, true)
        }
        _ => return Err("usage: weft-verbs listen|connect PORT SERVICE".into()),
    };
    let mut end = End { port, channel, active };
    let mut good = true;
    println!("1..{}", TESTS.len());
    for (number, (name, test)) in (1..).zip(TESTS) {
        let mine = test(&mut end).err().map(|error| error.to_string());
        // A test has succeeded if it has at both ends; who fails leaves what the other one waits for.
        let theirs = if mine.is_some() { Ok(0) } else { end.exchange(7) };
        match (mine, theirs) {
            (None, Ok(7)) => println!("ok {number} - {name}"),
            (mine, _) => {
                let why = mine.unwrap_or_else(|| "the other end failed".into());
                println!("# {why}\nnot ok {number} - {name}");
                good = false;
                // The ends are out of step.
                break;
            }
        }
    }
    Ok(good)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("weft-verbs: {error}");
            ExitCode::FAILURE
        }
    }
}
