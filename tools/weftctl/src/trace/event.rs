// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Lines of the tracepoints. Knows nothing of what messages mean.

/// What one is in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Has the work request.
    Initiator,
    /// Carries it out.
    Responder,
}

impl Role {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Role::Initiator => Role::Responder,
            Role::Responder => Role::Initiator,
        }
    }
}

/// A message that was sent or taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in microseconds of the kernel's clock.
    pub at: u64,
    /// PCI address of the port.
    pub device: String,
    /// Link of the port.
    pub link: u32,
    /// By this end; otherwise it was taken.
    pub sent: bool,
    /// Queue pair of this end, 0 if it is of none.
    pub own: u32,
    /// Queue pair of the receiver.
    pub qpn: u32,
    /// Low bits of the request's number.
    pub psn: u16,
    /// What the receiver is in the request; `None`: it is about the queue pair.
    pub to: Option<Role>,
    /// Its name.
    pub name: String,
    /// What it carries or speaks of.
    pub what: What,
}

/// What is behind the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A cell: so many bytes of data.
    Cell(u64),
    /// A completion word: a part, or why.
    Word(u32),
}

/// The value of `name=value`.
fn value<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    word.strip_prefix(name)?.strip_prefix('=')
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// "12.345678:", in microseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.strip_suffix(':')?.split_once('.')?;
    if fraction.len() != 6 {
        return None;
    }
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)
}

/// Reads a line of `trace` or `trace_pipe`. `None`: it is another one.
pub fn parse(line: &str) -> Option<Event> {
    let (before, is_cell, after) = [(" weft_cell: ", true), (" weft_word: ", false)]
        .into_iter()
        .find_map(|(name, is_cell)| {
            let (before, after) = line.split_once(name)?;
            Some((before, is_cell, after))
        })?;
    let at = time(before.split_whitespace().next_back()?)?;
    let mut words = after.split_whitespace();
    let mut next = |name| value(words.next()?, name);
    let device = next("dev")?.to_owned();
    let link = number(next("link")?)?;
    let sent = match words.next()? {
        "sent" => true,
        "taken" => false,
        _ => return None,
    };
    let mut next = |name| value(words.next()?, name);
    let (own, qpn) = (number(next("own")?)?, number(next("qpn")?)?);
    let psn = u16::try_from(number(next("psn")?)?).ok()?;
    let to = match next("to")? {
        "initiator" => Some(Role::Initiator),
        "responder" => Some(Role::Responder),
        _ => None,
    };
    let name = next(if is_cell { "op" } else { "code" })?.to_owned();
    let what = match is_cell {
        true => What::Cell(next("bytes")?.parse().ok()?),
        false => What::Word(number(next("detail")?)?),
    };
    Some(Event { at, device, link, sent, own, qpn, psn, to, name, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = "   kworker/u8:2-31  [001] .....  32.555746: weft_cell: dev=0000:02:00.0 link=0 \
                    taken own=0x20001 qpn=0x20001 psn=7 to=responder op=SEND_LONG bytes=100000";
        let event = Event {
            at: 32_555_746,
            device: "0000:02:00.0".into(),
            link: 0,
            sent: false,
            own: 0x20001,
            qpn: 0x20001,
            psn: 7,
            to: Some(Role::Responder),
            name: "SEND_LONG".into(),
            what: What::Cell(100_000),
        };
        assert_eq!(parse(line), Some(event.clone()));
        let line = " x-1 [000] d..1. 32.555746: weft_word: dev=0000:02:00.0 link=0 sent own=0x20001 \
                    qpn=0x1 psn=7 to=initiator code=NAK detail=5";
        let nak = Event {
            sent: true,
            qpn: 1,
            to: Some(Role::Initiator),
            name: "NAK".into(),
            what: What::Word(5),
            ..event
        };
        assert_eq!(parse(line), Some(nak));
    }

    #[test]
    fn others_are_not() {
        for line in [
            "",
            "# tracer: nop",
            "CPU:0 [LOST 12 EVENTS]",
            " x-1 [000] ..... 1.000000: weft_chan_state: dev=a id=1 from=0 to=1 reason=0",
            " x-1 [000] ..... 1.000000: weft_cell: dev=a link=0 sent own=1",
            " x-1 [000] ..... 1.5: weft_word: dev=a link=0 sent own=1 qpn=1 psn=1 to=either code=ACK \
             detail=0",
            " x-1 [000] ..... 1.000000: weft_word: dev=a link=0 sent own=1 qpn=1 psn=65536 \
             to=initiator code=ACK detail=0",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
