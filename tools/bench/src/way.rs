// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The ways that messages take between two hosts. Both ends know how long the next one is.

use crate::{Result, USAGE};
use std::hint::spin_loop;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;
use weft::{Channel, Connect, Port};

/// No host is that slow.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(120));

/// The bulk ring of a channel. A message that would not leave room for others travels in pieces of
/// a quarter of it.
const BULK: u32 = 1 << 20;
const PIECE: usize = BULK as usize / 4;

/// A way, connected.
pub enum Way {
    /// A channel, and what came last. Polled: nobody ever sleeps.
    Weft { channel: Channel, polled: bool, last: Vec<u8> },
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
            _ => return Err(USAGE.into()),
        })
    }

    fn tcp(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Way::Tcp(stream))
    }

    fn weft(channel: Channel, how: &str) -> Result<Self> {
        let polled = match how {
            "polled" => true,
            "sleeping" => false,
            _ => return Err(USAGE.into()),
        };
        Ok(Way::Weft { channel, polled, last: Vec::with_capacity(BULK as usize) })
    }

    /// Sends a message.
    pub fn send(&mut self, message: &[u8]) -> Result<()> {
        match self {
            Way::Tcp(stream) => stream.write_all(message)?,
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

    /// Receives a message of just this length.
    pub fn recv(&mut self, message: &mut [u8]) -> Result<()> {
        match self {
            Way::Tcp(stream) => stream.read_exact(message)?,
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
}
