// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Tests queue pairs between two hosts: `weft-verbs listen PORT SERVICE` on one, `weft-verbs connect
//! PORT SERVICE` on the other, which prints TAP. Each test is a function that both ends run; the end
//! that connected is *active* and asks for things, the other one offers memory and looks at what
//! became of it. They meet by messages over a channel, of link 0, or of link N where PORT is `PORT:N`.
//!
//! With a number from 0 to 7 behind it, at both ends, what moves something is tested by the protocol
//! of that number: 1 pulls requests, 2 data, 4 completions.

mod end;
mod memory;
mod queues;
mod transfers;

use end::{End, PATIENCE, Result};
use std::process::ExitCode;
use weft::{Connect, Port, Protocol};

type Test = fn(&mut End) -> Result<()>;

const TESTS: &[(&str, Test)] = &[
    ("M-1 an STag is an index of the driver's and a key of the user's", memory::stags),
    ("M-2 the owner refuses what rights do not allow", memory::rights),
    ("M-2 the owner refuses what is out of bounds", memory::bounds),
    ("M-1 a window is bound, used and taken back", memory::windows),
    ("M-2 a window allows no more than what it was bound to", memory::windows_bounds),
    ("M-3 a region begins at any tagged offset and address", memory::virtual_addresses),
    ("M-4 a small command needs no memory that was registered for it", memory::small_commands),
    ("M-5 lists of sixteen elements are gathered and scattered", memory::lists),
    ("M-5 memory of another protection domain is refused, here and there", memory::domains),
    ("M-6 messages arrive in order, each in one receive request", queues::order),
    ("M-6 two queue pairs share receive requests", queues::shared_receive_queue),
    ("M-6 a shared receive queue that runs dry loses nothing", queues::dry_shared_queue),
    ("M-6 a queue pair with a shared receive queue tells of its end", queues::end_at_shared_queue),
    ("Q-1 a queue goes round and each request completes once", queues::round_and_round),
    ("Q-2 completions are polled for and waited for", queues::polled_and_waited_for),
    ("Q-3 push/push/push does every operation", transfers::operations),
    ("P-2 a long write arrives whole", transfers::long_write),
    ("P-3 a read of known size", transfers::read),
    ("P-4 read of unknown size", transfers::read_all),
    ("P-5 a peer is named by its hardware id", queues::by_id),
];

/// What every protocol has to do.
const MOVING: &[(&str, Test)] = &[
    ("every operation", transfers::operations),
    ("lists of sixteen elements", memory::lists),
    ("messages in order", queues::order),
    ("a queue goes round", queues::round_and_round),
    ("a long write", transfers::long_write),
    ("a read of known size", transfers::read),
    ("a read of unknown size", transfers::read_all),
];

/// The tests to run, by name.
fn tests(protocol: Option<Protocol>) -> Vec<(String, Test)> {
    let Some(of) = protocol else {
        return TESTS.iter().map(|&(name, test)| (name.into(), test)).collect();
    };
    let way = |pulled| if pulled { "pull" } else { "push" };
    let [requests, data, completions] =
        [of.pull_requests, of.pull_data, of.pull_completions].map(way);
    let named = |&(name, test): &(&str, Test)| {
        (format!("Q-3 {requests}/{data}/{completions}: {name}"), test)
    };
    MOVING.iter().map(named).collect()
}

fn run(arguments: &[&str]) -> Result<bool> {
    const USAGE: &str = "usage: weft-verbs listen|connect PORT SERVICE [PROTOCOL]";
    let (arguments, protocol) = match arguments {
        [most @ .., number] if most.len() == 3 => {
            (most, Some(Protocol::all().nth(number.parse()?).ok_or(USAGE)?))
        }
        all => (all, None),
    };
    let (channel, port, active) = match arguments {
        ["listen", port, service] => {
            let port = Port::open(port.parse()?)?;
            let listener = port.listen(service.parse()?, 1)?;
            println!("listening");
            (listener.accept(PATIENCE)?, port, false)
        }
        ["connect", port, service] => {
            let (port, link) = port.split_once(':').unwrap_or((port, "0"));
            let port = Port::open(port.parse()?)?;
            (port.connect(&Connect::to_link(link.parse()?, service.parse()?))?, port, true)
        }
        _ => return Err(USAGE.into()),
    };
    let tests = tests(protocol);
    let mut end = End { port, channel, active, protocol: protocol.unwrap_or_default() };
    let mut good = true;
    println!("1..{}", tests.len());
    for (number, (name, test)) in (1..).zip(tests) {
        let mine = test(&mut end).err().map(|error| error.to_string());
        // A test has succeeded if it has at both ends; an end that fails leaves what the other one waits for.
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
