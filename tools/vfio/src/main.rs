// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `weft-vfio`: a virtual function in a program's hands.
//!
//! Shows that a VF needs nothing of its PF's driver but the mailbox between them, and can be given
//! away: it is bound to vfio-pci, its memory is behind an IOMMU, and the link to the neighbour's VF,
//! which Weft's own driver has there, comes up and stays so. See Documentation/sriov.rst.

mod end;
mod function;
mod mapping;

use clap::Parser;
use end::End;
use function::{Function, cannot, post, take};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weft_fabric::wire::abi as ext;
use weft_proto::link::{Link, Reason, State, TICK_MS};
use weft_proto::pair::{Assembler, Note, Packed, Via};
use weft_proto::wire::Message;

/// Drives a virtual function of a Weft port, to which vfio-pci is bound, for a while.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The function, as lspci -D shows it: 0000:01:00.2.
    function: String,
    /// The link to bring up.
    #[arg(long, default_value_t = 0)]
    link: u32,
    /// How long it is to stay up, after which this ends well, as it does when the PF asks for it.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How long it may take to come up.
    #[arg(long, default_value_t = 30)]
    timeout: u64,
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let path = PathBuf::from("/sys/bus/pci/devices").join(&arguments.function);
    if !path.exists() {
        return Err(format!("there is no function {}: see lspci -D", arguments.function));
    }
    let function = Function::open(&path)?;
    let (regs, link) = (&function.regs, arguments.link);
    println!("quota: links {:#x}, {} bytes", function.quota.links, function.quota.bytes);
    if function.quota.links.checked_shr(link).unwrap_or(0) & 1 == 0 {
        return Err(format!("its quota has no link {link}"));
    }
    // All events by the first vector.
    regs.write(ext::WEFT_R_EVENT_VECTOR, 0);
    let events = ext::WEFT_EVENT_LINK | ext::WEFT_EVENT_MBOX | ext::WEFT_EVENT_FUNCTION;
    regs.write(ext::WEFT_R_EVENT_MASK, !events);
    regs.write(ext::WEFT_R_CTRL, ext::WEFT_CTRL_ENABLE);

    let mut end = End::new(&function, link);
    let hwid = regs.read64(ext::WEFT_R_HWID);
    let mut machine = Link::new(hwid, regs.read(ext::WEFT_R_GENERATION));
    println!("hardware id {hwid:#018x}");
    let outcome = drive(arguments, &mut machine, &mut end);
    machine.bye(&mut end);
    machine.down(Reason::Removed, &mut end);
    outcome
}

/// Runs the machine until the link has been up for long enough.
fn drive(arguments: &Arguments, machine: &mut Link, end: &mut End<'_>) -> Result<(), String> {
    let begin = Instant::now();
    let regs = &end.function.regs;
    let mut inbox = Assembler::new();
    let (mut interrupts, mut messages, mut trained, mut since) = (0u32, 0u32, None, None);
    loop {
        let tick = Duration::from_millis(TICK_MS);
        interrupts += u32::from(end.function.wait(tick).map_err(cannot("wait"))?);
        // Before it is looked what there is: what comes from here on is another event.
        let events = regs.read(ext::WEFT_R_EVENT);
        if events == u32::MAX {
            return Err("the function does not answer any more".into());
        }
        regs.write(ext::WEFT_R_EVENT, events);
        let now = begin.elapsed().as_millis() as u64 + 1;
        let up = end.is_up();
        if up != trained {
            machine.down(Reason::Link, end);
            trained = up;
        }
        if up.is_some() {
            machine.up(now, end);
        }
        while let Some((bytes, len)) = take(regs) {
            let piece = match Note::parse(bytes.get(..len).unwrap_or_default()) {
                Ok(Note::Piece(piece)) => piece,
                Ok(Note::Ask(asked)) if asked.ask.concerns_users() => {
                    // Messages of the link are answered within this loop: nothing is ever left.
                    post(regs, &Packed::left(asked, 0));
                    println!("asked to finish: nothing is outstanding");
                    return Ok(());
                }
                _ => continue,
            };
            let Ok(Some((via, message))) = inbox.push(piece) else { continue };
            if via != Via::Link(end.link as u8) {
                continue;
            }
            if let Ok(message) = Message::parse(message) {
                messages += 1;
                // What is not for the link itself is for users, and there are none here.
                let _ = machine.message(now, &message, end);
            }
        }
        machine.tick(now, end);
        if machine.state() != State::Ready {
            if since.take().is_some() {
                return Err("the link did not stay up".into());
            }
            if begin.elapsed() >= Duration::from_secs(arguments.timeout) {
                return Err(format!(
                    "the link is {:?} after {} s",
                    machine.state(),
                    arguments.timeout
                ));
            }
        } else if since.get_or_insert_with(Instant::now).elapsed().as_secs() >= arguments.seconds {
            if !end.is_intact() {
                return Err("the link is up, and memory out of reach".into());
            }
            println!("{messages} messages, {interrupts} interrupts, {} lost", end.lost);
            return Ok(());
        }
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft-vfio: {error}");
            ExitCode::FAILURE
        }
    }
}
