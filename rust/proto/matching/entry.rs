// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A list entry: a buffer in a list, or the header of an unexpected message.
//!
//! Both share the pool, so both have the same 128 bytes. A buffer is found by one class of criteria and by its
//! context, a header by each class of its endpoint. This file is independent of the lists themselves.

use super::{
    request::{Buffer, Criteria, Header, List, Options},
    storage::NONE,
};

/// Classes of criteria of an endpoint whose entries are found by hashing.
pub const CLASSES: usize = 4;
/// The class of a buffer whose criteria are of no such class.
pub(super) const OTHER: u8 = CLASSES as u8;
/// The link of a buffer by its criteria.
pub(super) const BY_CRITERIA: u8 = 0;
/// The link of a buffer, or of a claimed header, by its context.
pub(super) const BY_CONTEXT: u8 = 1;
/// From the link of a buffer to that one of its links that has the number of its bucket.
const BUCKETS: usize = 2;
/// In `chain`: not the first entry of its key.
pub(super) const NOT_FIRST: u32 = NONE - 1;

/// An entry's place among those of the same key, a ring from the oldest to the newest, and of the first of them
/// among the keys of a bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub next: u32,
    pub prev: u32,
    pub chain: u32,
}

impl Link {
    pub const NONE: Self = Self {
        next: NONE,
        prev: NONE,
        chain: NOT_FIRST,
    };
}

/// A list entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The neighbours in the order of the list; `next` of a free one is the next that is free.
    pub(super) next: u32,
    pub(super) prev: u32,
    pub(super) links: [Link; CLASSES],
    /// When it was appended.
    pub(super) sequence: u64,
    pub(super) bits: u64,
    /// Of a header: the cookie of the initiator.
    pub(super) ignore: u64,
    /// Of a header: the address of its eager bytes.
    pub(super) address: u64,
    pub(super) length: u64,
    /// Of a header: what the sender tells besides.
    pub(super) offset: u64,
    /// Of a header that is claimed: that of its receive; of one that was given back: what the program has said.
    pub(super) context: u64,
    pub(super) source: u32,
    /// Of a header: its eager bytes.
    pub(super) min_free: u32,
    /// Of an overflow buffer: the headers that name it. Of a header: that buffer, or [`NONE`].
    pub(super) users: u32,
    pub(super) endpoint: u16,
    /// List, class, and how it is used.
    flags: u16,
}

const _: () = assert!(core::mem::size_of::<Entry>() <= 128);
const _: () = assert!(BY_CONTEXT as usize + BUCKETS < CLASSES && BY_CRITERIA != BY_CONTEXT);

const CLASS_AT: u16 = 3;
const ANY_SOURCE: u16 = 1 << 6;
const PERSISTENT: u16 = 1 << 7;
const MANAGE_LOCAL: u16 = 1 << 8;
const PUT: u16 = 1 << 9;
const GET: u16 = 1 << 10;
const FULL: u16 = 1 << 11;
const COUNTING: u16 = 1 << 12;

impl Entry {
    /// Initial value for memory.
    pub const FREE: Self = Self {
        next: NONE,
        prev: NONE,
        links: [Link::NONE; CLASSES],
        sequence: 0,
        bits: 0,
        ignore: 0,
        address: 0,
        length: 0,
        offset: 0,
        context: 0,
        source: 0,
        min_free: 0,
        users: 0,
        endpoint: 0,
        flags: List::Free as u16,
    };

    /// Makes the entry of a buffer.
    pub(super) fn of_buffer(endpoint: u16, buffer: &Buffer, list: List) -> Self {
        let is = |set: bool, flag: u16| if set { flag } else { 0 };
        let options = buffer.options;
        Self {
            bits: buffer.criteria.bits,
            ignore: buffer.criteria.ignore,
            address: buffer.address,
            length: buffer.length,
            offset: buffer.offset,
            context: buffer.context,
            source: buffer.criteria.source.unwrap_or(0),
            min_free: buffer.min_free,
            endpoint,
            flags: list as u16
                | is(buffer.criteria.source.is_none(), ANY_SOURCE)
                | is(options.persistent, PERSISTENT)
                | is(options.manage_local, MANAGE_LOCAL)
                | is(options.put, PUT)
                | is(options.get, GET)
                | is(options.full, FULL)
                | is(options.counting, COUNTING),
            ..Self::FREE
        }
    }

    /// Makes the entry of a header, whose eager bytes are in the overflow buffer `users`.
    pub(super) fn of_header(endpoint: u16, header: &Header, users: u32) -> Self {
        Self {
            bits: header.bits,
            ignore: header.cookie,
            address: header.address,
            length: header.length,
            offset: header.data,
            context: header.context,
            source: header.source,
            min_free: header.eager,
            users,
            endpoint,
            flags: List::Unexpected as u16,
            ..Self::FREE
        }
    }

    /// Returns the buffer.
    pub(super) fn buffer(&self) -> Buffer {
        Buffer {
            criteria: self.criteria(),
            address: self.address,
            length: self.length,
            offset: self.offset,
            min_free: self.min_free,
            context: self.context,
            options: self.options(),
        }
    }

    /// Returns the header, but for the context of its overflow buffer.
    pub(super) fn header(&self) -> Header {
        Header {
            source: self.source,
            bits: self.bits,
            length: self.length,
            eager: self.min_free,
            data: self.offset,
            cookie: self.ignore,
            address: self.address,
            context: self.context,
        }
    }

    pub(super) fn criteria(&self) -> Criteria {
        Criteria {
            source: (self.flags & ANY_SOURCE == 0).then_some(self.source),
            bits: self.bits,
            ignore: self.ignore,
        }
    }

    pub(super) fn options(&self) -> Options {
        Options {
            persistent: self.flags & PERSISTENT != 0,
            manage_local: self.flags & MANAGE_LOCAL != 0,
            put: self.flags & PUT != 0,
            get: self.flags & GET != 0,
            full: self.flags & FULL != 0,
            counting: self.flags & COUNTING != 0,
        }
    }

    /// Notes in which bucket the key of a link is, if there is a place for that: it need not be hashed again then. A
    /// buffer has two links that are not used; a header has none.
    pub(super) fn keep_bucket(&mut self, link: u8, bucket: u32) {
        let keeps = self.is_buffer();
        let place = self.links.get_mut(usize::from(link) + BUCKETS);
        if let Some(place) = place.filter(|_| keeps) {
            place.next = bucket;
        }
    }

    /// Returns what [`Self::keep_bucket`] has noted of a link.
    pub(super) fn bucket(&self, link: u8) -> Option<u32> {
        let place = self.links.get(usize::from(link) + BUCKETS);
        place.filter(|_| self.is_buffer()).map(|place| place.next)
    }

    /// Returns whether it is a buffer in a list.
    fn is_buffer(&self) -> bool {
        matches!(self.list(), List::Priority | List::Overflow | List::Request)
    }

    pub(super) fn list(&self) -> List {
        List::of((self.flags & 7) as u8).unwrap_or(List::Free)
    }

    pub(super) fn set_list(&mut self, list: List) {
        self.flags = (self.flags & !7) | list as u16;
    }

    pub(super) fn class(&self) -> u8 {
        ((self.flags >> CLASS_AT) & 7) as u8
    }

    pub(super) fn set_class(&mut self, class: u8) {
        self.flags = (self.flags & !(7 << CLASS_AT)) | (u16::from(class & 7) << CLASS_AT);
    }
}
