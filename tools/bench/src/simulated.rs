// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What the logic of matching takes for peers that are not there, on any machine: sizes of its types, entries that its
//! lists need for so many sources, and addresses as the provider of libfabric keeps them.

use crate::Result;
use crate::table::Table;
use weft::matching::Address;
use weft_proto::matching::endpoint::{Config, Endpoint};
use weft_proto::matching::endpoint_queues::EndpointQueues;
use weft_proto::matching::engine::Engine;
use weft_proto::matching::entry::Entry;
use weft_proto::matching::outcome::Outcome;
use weft_proto::matching::request::{Buffer, Command, Criteria, List, Message, Op, Options, Work};
use weft_proto::matching::storage::NONE;
use weft_proto::matching::{ENTRIES, HEADS};

/// Match bits of receives, and of messages that none of these are for.
const EXPECTED: u64 = 1;
const UNEXPECTED: u64 = 2;
/// Bytes of a message, and of memory for those that wait.
const BYTES: u32 = 64;
const OVERFLOW: u64 = 1 << 30;
/// The hosts among which ranks are.
const HOSTS: u64 = 64;

/// Bytes of a list entry, with its heads in the hash table.
fn entry() -> u64 {
    let heads = size_of::<u32>() as u64 * u64::from(HEADS / ENTRIES);
    size_of::<Entry>() as u64 + heads
}

/// Bytes of an endpoint, in an engine and in the dispatcher.
fn endpoint() -> u64 {
    (size_of::<Endpoint>() + size_of::<EndpointQueues>()) as u64
}

fn buffer(criteria: Criteria, length: u64, waits: bool) -> Buffer {
    Buffer {
        criteria,
        address: 0,
        length,
        offset: 0,
        min_free: if waits { BYTES } else { 0 },
        context: 0,
        options: Options {
            put: true,
            full: true,
            persistent: waits,
            manage_local: waits,
            ..Options::default()
        },
    }
}

fn message(source: u32, bits: u64) -> Message {
    Message {
        op: Op::Put,
        source,
        bits,
        length: BYTES.into(),
        eager: BYTES,
        offset: None,
        data: 0,
        cookie: 0,
        sequence: 0,
        payload: 0,
    }
}

/// Entries that an endpoint needs to have so many peers; and with a receive for each, and a message of each that waits.
fn entries(peers: u32) -> Result<[u32; 2]> {
    let (own, heads) = (vec![Entry::FREE; ENTRIES as usize], vec![NONE; HEADS as usize]);
    let mut engine = Engine::new(own, heads, [1, 2], 0);
    let config = Config { matching: true, space_check: false, hand_over: false, limit: ENTRIES };
    let mut endpoint = Endpoint::new(0, config);
    let mut execute = |work: Work, wanted: fn(&Outcome) -> bool| {
        let reply = engine.execute(&mut endpoint, &work, 0);
        match wanted(&reply.outcome) && !reply.more {
            true => Ok(ENTRIES - engine.free()),
            false => Err(format!("{work:?} ends with {:?}", reply.outcome)),
        }
    };
    let appended: fn(&Outcome) -> bool = |outcome| matches!(outcome, Outcome::Appended);
    let unexpected: fn(&Outcome) -> bool = |outcome| matches!(outcome, Outcome::Unexpected(_));
    let memory = buffer(Criteria::ANY, OVERFLOW, true);
    let append = |list, buffer| Work::Command(Command::Append(list, buffer));
    execute(Work::Command(Command::Enable), |outcome| matches!(outcome, Outcome::State(_)))?;
    let empty = execute(append(List::Overflow, memory), appended)?;
    // Each has sent a message, for which there was a receive.
    let receive = |source| {
        let criteria = Criteria { source: Some(source), bits: EXPECTED, ignore: 0 };
        append(List::Priority, buffer(criteria, BYTES.into(), false))
    };
    let mut met = empty;
    for source in 0..peers {
        execute(receive(source), appended)?;
        let received: fn(&Outcome) -> bool = |outcome| matches!(outcome, Outcome::Receive(_));
        met = execute(Work::Message(message(source, EXPECTED)), received)?;
    }
    let mut busy = met;
    for source in 0..peers {
        execute(receive(source), appended)?;
        busy = execute(Work::Message(message(source, UNEXPECTED)), unexpected)?;
    }
    Ok([met - empty, busy - empty])
}

/// Bytes of this process's heap that are in use.
fn heap() -> u64 {
    // SAFETY: It takes nothing, and counts.
    let info = unsafe { libc::mallinfo2() };
    (info.uordblks + info.hblkhd) as u64
}

/// An address vector with so many ranks.
fn addresses(count: u32) -> Result<Table> {
    let mut table = Table::default();
    for n in 0..u64::from(count) {
        let address = Address { hwid: 1 + n % HOSTS, endpoint: (n / HOSTS) as u16, generation: 1 };
        let index = table.insert(address);
        let source = (address.hwid, address.endpoint);
        if table.get(index) != Some(address) || table.find(source) != Some(index) {
            return Err("an address is not found".into());
        }
    }
    Ok(table)
}

/// Bytes that it takes of a process that uses libfabric. No other thread allocates meanwhile.
fn bytes_of_addresses(count: u32) -> Result<u64> {
    let before = heap();
    let mut table = addresses(count)?;
    let bytes = heap().checked_sub(before).ok_or("addresses take no memory")?;
    match (0..u64::from(count)).all(|index| table.remove(index)) {
        true => Ok(bytes),
        false => Err("an address cannot be removed".into()),
    }
}

/// Says all that.
pub fn measure(peers: &[u32]) -> Result<()> {
    let report = |what: &str, bytes: u64| println!("{{\"what\": \"{what}\", \"bytes\": {bytes}}}");
    report("entry", entry());
    report("endpoint", endpoint());
    for count in peers {
        let [met, busy] = entries(*count)?;
        report(&format!("{count}-peers-idle"), u64::from(met) * entry());
        report(&format!("{count}-peers-busy"), u64::from(busy) * entry());
        report(&format!("{count}-addresses"), bytes_of_addresses(*count)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_that_are_waited_for_take_an_entry_each_and_no_others_any() {
        for peers in [1, 8, 512] {
            assert_eq!(entries(peers).expect("they are enough"), [0, 2 * peers]);
        }
    }

    #[test]
    fn more_peers_than_there_are_entries_for_are_an_error() {
        assert!(entries(ENTRIES / 2 + 1).is_err());
    }

    #[test]
    fn an_address_vector_has_each_rank_once() {
        let mut table = addresses(512).expect("found");
        assert_eq!((table.get(511).is_some(), table.get(512)), (true, None));
        assert!(table.remove(511) && !table.remove(511));
    }
}
