// SPDX-License-Identifier: GPL-2.0 OR MIT

//! One of the two ends of a test, and what most tests stand on: a pair of queue pairs that are joined.

use std::time::Duration;
use weft::verbs::{self, Offer};
use weft::{
    Channel, Completion, Cq, Error, Mr, Objects, Pd, Port, Protocol, Qp, QpOptions, QpState,
    Request, Rights, Status,
};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Guests are slow when others run.
pub const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));

/// The base of regions: tagged offsets are no addresses.
pub const BASE: u64 = 0x7000_0000_1000;
pub const KEY: u8 = 0x5a;

macro_rules! ensure {
    ($condition:expr, $($what:tt)*) => {
        if !$condition {
            return Err(format!($($what)*).into());
        }
    };
}
pub(crate) use ensure;

/// One end, while it tests.
pub struct End {
    pub port: Port,
    pub channel: Channel,
    pub active: bool,
    /// Of all pairs.
    pub protocol: Protocol,
}

/// A queue pair that is joined with one at the other end, and memory.
pub struct Pair {
    pub pd: Pd,
    pub cq: Cq,
    pub qp: Qp,
    pub mr: Mr,
    /// What the other end offers.
    pub peer: Offer,
    pub objects: Objects,
}

impl End {
    /// Waits for the other end to come to the same point.
    pub fn meet(&mut self) -> Result<()> {
        self.channel.send(&[], 1, PATIENCE)?;
        let mut nothing = Vec::new();
        ensure!(self.channel.recv(&mut nothing, PATIENCE)? == 1, "the ends are out of step");
        Ok(())
    }

    /// Tells the other end a number and learns one from it.
    pub fn exchange(&mut self, mine: u64) -> Result<u64> {
        self.channel.send(&[], mine, PATIENCE)?;
        Ok(self.channel.recv(&mut Vec::new(), PATIENCE)?)
    }

    /// A pair of queue pairs with `bytes` of memory that may do everything, and `recvs` receive
    /// requests for the first bytes of it.
    pub fn pair(&mut self, bytes: usize, rights: Rights, recvs: u64) -> Result<Pair> {
        self.pair_with(&QpOptions::new().sges(16, 16), bytes, rights, recvs)
    }

    pub fn pair_with(
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
        let mut qp = pd.qp(&cq, &cq, &options.clone().protocol(self.protocol))?;
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
    pub fn post(&mut self, request: &Request<'_>) -> Result<()> {
        ensure!(self.qp.post(request)?, "the send queue is full");
        Ok(self.qp.ring()?)
    }

    /// Waits for a completion that succeeded.
    pub fn done(&mut self, wr_id: u64) -> Result<Completion> {
        let done = self.cq.wait(PATIENCE)?;
        ensure!(done.wr_id == wr_id, "completion of {}, not of {wr_id}: {done:?}", done.wr_id);
        ensure!(done.qpn == self.qp.qpn(), "completion of another queue pair: {done:?}");
        Ok(done.must()?)
    }

    pub fn ask(&mut self, request: &Request<'_>, wr_id: u64) -> Result<Completion> {
        self.post(request)?;
        self.done(wr_id)
    }

    /// A request must fail so, and the queue pair with it.
    pub fn refused(&mut self, request: &Request<'_>, status: Status) -> Result<()> {
        self.post(request)?;
        let done = self.cq.wait(PATIENCE)?;
        ensure!(done.status == status, "{:?}, not {status:?}", done.status);
        let state = self.qp.status()?.state;
        ensure!(state == QpState::Error, "the queue pair is in {state:?} after {status:?}");
        Ok(())
    }

    pub fn fill(&self, seed: u64) {
        self.mr.write(0, &noise(seed, self.mr.len()));
    }

    pub fn holds(&self, at: usize, wanted: &[u8]) -> Result<()> {
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
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let next = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    (0..len).map(next).collect()
}
