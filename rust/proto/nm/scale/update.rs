// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What neighbours tell each other of their routes.
//!
//! A message has items, each of one destination; it is repeated until it is acknowledged. This file is
//! independent of what follows from an item.

use super::{
    super::{
        super::bytes::{check, Malformed, Member, Reader, Writer},
        packet::{Error, MAX_BYTES},
    },
    area::Key,
    sum,
};

/// First four bytes: "WFNV". No other message between neighbours begins with them.
pub const MAGIC: [u8; 4] = *b"WFNV";
/// Version of these messages.
pub const VERSION: u8 = 1;
/// Bytes before the items.
const HEAD: usize = 28;
/// Bytes of an item.
const ITEM_BYTES: usize = 13;
/// Most items of a message.
pub const ITEMS: usize = (MAX_BYTES - HEAD) / ITEM_BYTES;

/// Metric of a destination that is out of reach.
pub const INF: u32 = u32::MAX;

numbered! {
    /// What an item says.
    pub enum Says: u8 {
        /// The sender's route.
        Route = 0,
        /// The same; the destination is a node that is to be known outside of its area.
        Wide = 1,
        /// The sender wants a route with this sequence number or a newer one.
        Request = 2,
        /// An area has come apart: another part has a lower anchor, this one.
        Parted = 3,
    }
}

/// An item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// What it says.
    pub says: Says,
    /// The destination.
    pub key: Key,
    /// Sequence number of the destination.
    pub seq: u16,
    /// Cost of the route, [`INF`]: there is none.
    pub metric: u32,
    /// Number of its links.
    pub hops: u8,
    /// Of an area: the lowest of its nodes that the part has to which the route leads.
    pub anchor: u8,
}

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update<'a> {
    /// Rises with each message over the link; 0: it only acknowledges.
    pub number: u32,
    /// Number of the newest message received over the link.
    pub seen: u32,
    /// Local id of the sender, 0: it has none.
    pub lid: u32,
    /// What the link costs, as the sender sees it; 0: it carries no data.
    pub cost: u32,
    /// The sender had no memory for some items, and wants all again.
    pub again: bool,
    /// The items.
    pub items: &'a [Item],
}

impl Update<'_> {
    /// Encodes the message and returns its length in bytes.
    pub fn encode(&self, buf: &mut [u8; MAX_BYTES]) -> usize {
        let mut w = Writer::new(buf);
        w.put(&MAGIC);
        w.u8(VERSION);
        w.u8(self.items.len() as u8);
        w.u16(u16::from(self.again));
        w.u32(0);
        w.u32(self.number);
        w.u32(self.seen);
        w.u32(self.lid);
        w.u32(self.cost);
        for item in self.items {
            item.put(&mut w);
        }
        let bytes = w.finish().unwrap_or(0);
        sum::put(buf.get_mut(..bytes).unwrap_or_default());
        bytes
    }

    /// Decodes a message; its items are put into `items`.
    pub fn parse<'a>(buf: &[u8], items: &'a mut [Item; ITEMS]) -> Result<Update<'a>, Error> {
        let mut r = Reader::new(buf);
        if r.array()? != MAGIC {
            return Err(Error::Magic);
        }
        let version = r.u8()?;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let (count, again, has) = (usize::from(r.u8()?), r.u16()?, r.u32()?);
        if has != sum::sum(buf) {
            return Err(Error::Checksum);
        }
        let (number, seen, lid, cost) = (r.u32()?, r.u32()?, r.u32()?, r.u32()?);
        check(again <= 1 && (number != 0 || count == 0))?;
        check(lid == 0 || Key::of(lid).is_some_and(|key| !key.is_area()))?;
        let items = items.get_mut(..count).ok_or(Error::Value)?;
        for item in &mut *items {
            *item = Item::get(&mut r)?;
        }
        check(r.rest().is_empty())?;
        Ok(Update {
            number,
            seen,
            lid,
            cost,
            again: again == 1,
            items,
        })
    }
}

impl Item {
    /// Initial value for memory.
    pub const NONE: Self = Self {
        says: Says::Route,
        key: Key::NONE,
        seq: 0,
        metric: INF,
        hops: 0,
        anchor: 0,
    };
}

impl Member<'_> for Item {
    fn put(&self, w: &mut Writer<'_>) {
        w.u8(self.says as u8);
        w.u32(self.key.number());
        w.u16(self.seq);
        w.u32(self.metric);
        w.u8(self.hops);
        w.u8(self.anchor);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        let says = Says::of(r.u8()?).ok_or(Malformed::Value)?;
        let key = Key::of(r.u32()?).ok_or(Malformed::Value)?;
        check(says != Says::Wide || !key.is_area())?;
        check(says != Says::Parted || key.is_area())?;
        Ok(Self {
            says,
            key,
            seq: r.u16()?,
            metric: r.u32()?,
            hops: r.u8()?,
            anchor: r.u8()?,
        })
    }
}
