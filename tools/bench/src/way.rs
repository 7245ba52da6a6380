// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ways that messages take between two hosts. Both ends know how long the next one is.

use crate::counts::{self, Counts};
use crate::verbs::Verbs;
use crate::{PATIENCE, Result, USAGE};
use std::hint::spin_loop;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use weft::{Channel, Connect, Port};

/// The bulk ring of a channel. A message that would not leave room for others travels in pieces of
/// a quarter of it.
const BULK: u32 = 1 << 20;
const PIECE: usize = BULK as usize / 4;

/// A way, connected.
pub enum Way {
    /// A channel, and what came last. Polled: neither end ever sleeps.
    Weft { channel: Channel, polled: bool, last: Vec<u8> },
    /// Queue pairs.
    Qp(Box<Verbs>),
    /// A connection, which does not wait for more to send.
    Tcp(TcpStream),
}

impl Way {
    /// Waits for the other end; what is left of the words.
    pub fn serve<'a, 'b>(words: &'a [&'b str]) -> Result<(Self, &'a [&'b str])> {
        Ok(match words {
            ["tcp", address, rest @ ..] => {
                let listener = TcpListener::bind(address)?;
                println!("listening");
                (Way::tcp(listener.accept()?.0)?, rest)
            }
            ["channel", port, service, how, rest @ ..] => {
                let listener = Port::open(port.parse()?)?.listen(service.parse()?, 1)?;
                println!("listening");
                (Way::weft(listener.accept(PATIENCE)?, how)?, rest)
            }
            ["qp", port, service, how, count, rest @ ..] => {
                let number = port.parse()?;
                let port = Port::open(number)?;
                let listener = port.listen(service.parse()?, 1)?;
                println!("listening");
                (Way::qp(&port, number, listener.accept(PATIENCE)?, how, count)?, rest)
            }
            _ => return Err(USAGE.into()),
        })
    }

    /// Connects; what is left of the words.
    pub fn connect<'a, 'b>(words: &'a [&'b str]) -> Result<(Self, &'a [&'b str])> {
        Ok(match words {
            ["tcp", address, rest @ ..] => (Way::tcp(TcpStream::connect(address)?)?, rest),
            ["channel", port, service, how, rest @ ..] => {
                let connect = Connect::to_link(0, service.parse()?).bulk(BULK);
                (Way::weft(Port::open(port.parse()?)?.connect(&connect)?, how)?, rest)
            }
            ["qp", port, service, how, count, rest @ ..] => {
                let number = port.parse()?;
                let port = Port::open(number)?;
                let channel = port.connect(&Connect::to_link(0, service.parse()?))?;
                (Way::qp(&port, number, channel, how, count)?, rest)
            }
            _ => return Err(USAGE.into()),
        })
    }

    fn tcp(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Way::Tcp(stream))
    }

    fn weft(channel: Channel, how: &str) -> Result<Self> {
        let last = Vec::with_capacity(BULK as usize);
        Ok(Way::Weft { channel, polled: Self::polled(how)?, last })
    }

    fn qp(port: &Port, number: u32, channel: Channel, how: &str, count: &str) -> Result<Self> {
        let count = count.parse()?;
        if !(1..=1024).contains(&count) {
            return Err(format!("{count} queue pairs: from 1 to 1024").into());
        }
        let mut verbs = Verbs::join(port, channel, Self::polled(how)?, count)?;
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
            Way::Tcp(stream) => stream.write_all(message)?,
            Way::Qp(verbs) => verbs.send(message)?,
            Way::Weft { channel, polled, .. } => {
                for piece in message.chunks(PIECE) {
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
            _ => self.send(message),
        }
    }

    /// Receives a message of just this length.
    pub fn recv(&mut self, message: &mut [u8]) -> Result<()> {
        match self {
            Way::Tcp(stream) => stream.read_exact(message)?,
            Way::Qp(verbs) => verbs.recv(message)?,
            Way::Weft { channel, polled, last } => {
                for piece in message.chunks_mut(PIECE) {
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

    /// Waits until everything that was sent is known to have arrived, where a way knows.
    pub fn settle(&mut self) -> Result<()> {
        match self {
            Way::Qp(verbs) => verbs.settle(),
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
