// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ways that messages take between two hosts. Both ends know how long the next one is.

use crate::counts::{self, Counts};
use crate::stream::{Connection, Stream};
use crate::verbs::Verbs;
use crate::{PATIENCE, Result, USAGE};
use std::hint::spin_loop;
use std::net::{TcpListener, TcpStream};
use weft::{Channel, Connect, Port, net};

/// Cells and the bulk ring of a channel, and of one of which there are many. A message that would not
/// leave room for others travels in pieces of a quarter of the ring.
const LARGE: (u32, u32) = (256, 1 << 20);
const SMALL: (u32, u32) = (64, 16 << 10);
/// Bytes of either end's memory of a socket.
const HALF: u32 = 256 << 10;

/// As a way is called.
fn ring(kind: &str) -> Option<(u32, u32)> {
    match kind {
        "channel" => Some(LARGE),
        "small-channel" => Some(SMALL),
        _ => None,
    }
}

/// A way, connected.
pub enum Way {
    /// A channel, how long a piece of a message may be, and what came last. Polled: neither end ever
    /// sleeps.
    Weft { channel: Channel, piece: usize, polled: bool, last: Vec<u8> },
    /// Queue pairs.
    Qp(Box<Verbs>),
    /// A connection of TCP.
    Tcp(Box<Stream<TcpStream>>),
    /// A native socket.
    Socket(Box<Stream<net::Stream>>),
}

impl Way {
    /// Waits for the other end; what is left of the words.
    pub fn serve<'a, 'b>(words: &'a [&'b str]) -> Result<(Self, &'a [&'b str])> {
        Ok(match words {
            ["tcp", address, how, rest @ ..] => {
                let listener = TcpListener::bind(address)?;
                println!("listening");
                (Way::Tcp(Self::stream(listener.accept()?.0, how)?), rest)
            }
            ["socket", port, service, how, rest @ ..] => {
                let listener =
                    net::Listener::bind(&Port::open(port.parse()?)?, service.parse()?, 1)?;
                println!("listening");
                (Way::Socket(Self::stream(listener.accept()?, how)?), rest)
            }
            ["qp", port, service, how, count, rest @ ..] => {
                let number = port.parse()?;
                let port = Port::open(number)?;
                let listener = port.listen(service.parse()?, 1)?;
                println!("listening");
                (Way::qp(&port, number, listener.accept(PATIENCE)?, how, count)?, rest)
            }
            [kind, port, service, how, rest @ ..] => {
                let (_, bulk) = ring(kind).ok_or(USAGE)?;
                let listener = Port::open(port.parse()?)?.listen(service.parse()?, 1)?;
                println!("listening");
                (Way::weft(listener.accept(PATIENCE)?, bulk, how)?, rest)
            }
            _ => return Err(USAGE.into()),
        })
    }

    /// Connects; what is left of the words.
    pub fn connect<'a, 'b>(words: &'a [&'b str]) -> Result<(Self, &'a [&'b str])> {
        Ok(match words {
            ["tcp", address, how, rest @ ..] => {
                (Way::Tcp(Self::stream(TcpStream::connect(address)?, how)?), rest)
            }
            ["socket", port, service, how, rest @ ..] => {
                let to = net::Connect::new(0, service.parse()?).link(0).bytes(HALF);
                let connected = net::Stream::connect(&Port::open(port.parse()?)?, &to)?;
                (Way::Socket(Self::stream(connected, how)?), rest)
            }
            ["qp", port, service, how, count, rest @ ..] => {
                let number = port.parse()?;
                let port = Port::open(number)?;
                let connect = Connect::to_link(0, service.parse()?).cells(SMALL.0).bulk(SMALL.1);
                let channel = port.connect(&connect)?;
                (Way::qp(&port, number, channel, how, count)?, rest)
            }
            [kind, port, service, how, rest @ ..] => {
                let (cells, bulk) = ring(kind).ok_or(USAGE)?;
                let connect = Connect::to_link(0, service.parse()?).cells(cells).bulk(bulk);
                (Way::weft(Port::open(port.parse()?)?.connect(&connect)?, bulk, how)?, rest)
            }
            _ => return Err(USAGE.into()),
        })
    }

    fn stream<C: Connection>(connection: C, how: &str) -> Result<Box<Stream<C>>> {
        Ok(Stream::new(connection, Self::polled(how)?)?.into())
    }

    fn weft(channel: Channel, bulk: u32, how: &str) -> Result<Self> {
        let last = Vec::with_capacity(bulk as usize);
        let piece = bulk as usize / 4;
        Ok(Way::Weft { channel, piece, polled: Self::polled(how)?, last })
    }

    fn qp(port: &Port, number: u32, channel: Channel, how: &str, count: &str) -> Result<Self> {
        let count = count.parse()?;
        if !(1..=1024).contains(&count) {
            return Err(format!("{count} queue pairs: from 1 to 1024").into());
        }
        let mut verbs = Verbs::join(port, channel, how.parse()?, count)?;
        verbs.port = number;
        Ok(Way::Qp(verbs.into()))
    }

    fn polled(how: &str) -> Result<bool> {
        match how {
            "polled" => Ok(true),
            "sleeping" => Ok(false),
            _ => Err(USAGE.into()),
        }
    }

    /// Sends a message.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        match self {
            Way::Tcp(tcp) => tcp.send(message)?,
            Way::Socket(socket) => socket.send(message)?,
            Way::Qp(verbs) => verbs.send(message)?,
            Way::Weft { channel, piece, polled, .. } => {
                for piece in message.chunks(*piece) {
                    if *polled {
                        while !channel.try_send(piece, 0)? {
                            spin_loop();
                        }
                    } else {
                        channel.send(piece, 0, PATIENCE)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends a message that others follow: a way may wait for some of them, or for
    /// [`Self::settle`].
    pub fn queue(&mut self, message: &[u8]) -> Result<()> {
        match self {
            Way::Qp(verbs) => verbs.queue(message),
            Way::Tcp(tcp) => tcp.queue(message),
            Way::Socket(socket) => socket.queue(message),
            // Nothing to share: each message is stores into the peer's memory, and no call.
            Way::Weft { .. } => self.send(message),
        }
    }

    /// Receives a message of just this length.
    pub fn recv(&mut self, message: &mut [u8]) -> Result<()> {
        match self {
            Way::Tcp(tcp) => tcp.recv(message)?,
            Way::Socket(socket) => socket.recv(message)?,
            Way::Qp(verbs) => verbs.recv(message)?,
            Way::Weft { channel, piece, polled, last } => {
                for piece in message.chunks_mut(*piece) {
                    if *polled {
                        while channel.try_recv(last)?.is_none() {
                            spin_loop();
                        }
                    } else {
                        channel.recv(last, PATIENCE)?;
                    }
                    if last.len() != piece.len() {
                        let wrong = format!("{} bytes instead of {}", last.len(), piece.len());
                        return Err(wrong.into());
                    }
                    piece.copy_from_slice(last);
                }
            }
        }
        Ok(())
    }

    /// Sends a message, and receives one of just this length that the other end sends when it has come.
    pub fn exchange(&mut self, message: &[u8], answer: &mut [u8]) -> Result<()> {
        match self {
            Way::Qp(verbs) => verbs.exchange(message, answer),
            _ => {
                self.send(message)?;
                self.recv(answer)
            }
        }
    }

    /// Sends what was queued, and waits until it is known to have arrived, where a way knows.
    pub fn settle(&mut self) -> Result<()> {
        match self {
            Way::Qp(verbs) => verbs.settle(),
            Way::Tcp(tcp) => tcp.flush(),
            Way::Socket(socket) => socket.flush(),
            Way::Weft { .. } => Ok(()),
        }
    }

    /// Waits until the other end has gone, where that can be told from a failure.
    pub fn outlast(&mut self) -> Result<()> {
        match self {
            Way::Qp(verbs) => verbs.until_it_fails().map(drop),
            _ => Ok(()),
        }
    }

    /// What the port of queue pairs has sent, and its number.
    pub fn counts(&self) -> Result<(u32, Counts)> {
        match self {
            Way::Qp(verbs) => Ok((verbs.port, counts::of(verbs.port)?)),
            _ => Err("only what queue pairs send is counted".into()),
        }
    }

    /// The queue pairs of a way that has some.
    pub fn verbs(self) -> Result<Box<Verbs>> {
        match self {
            Way::Qp(verbs) => Ok(verbs),
            _ => Err("only queue pairs can do that".into()),
        }
    }

    /// Writes into the other end's memory, if the way can do that.
    pub fn write(&mut self, at: usize, bytes: usize) -> Result<()> {
        match self {
            Way::Qp(verbs) => verbs.write(at, bytes),
            _ => Err("only queue pairs write into the other end's memory".into()),
        }
    }
}
