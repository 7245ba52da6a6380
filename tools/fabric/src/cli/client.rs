// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line's end of `control.sock`.

use super::{Context, Failure};
use crate::control::{Answer, Reply, Request};
use crate::daemon::CONTROL_SOCKET;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long a daemon may take to answer what it can answer at once; longer than
/// it gives a port.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// A connection to the daemon.
pub struct Client {
    stream: BufReader<UnixStream>,
    dir: PathBuf,
}

impl Client {
    /// Connects to the daemon of the context's directory.
    pub fn connect(context: &Context) -> Result<Self, Failure> {
        let path = context.dir.join(CONTROL_SOCKET);
        let dir = context.dir.clone();
        let shown = dir.display();
        let stream = UnixStream::connect(&path).map_err(|e| {
            Failure::Unreachable(format!(
                "no weft-fabric serves {shown} ({e}); start one with: \
                 weft-fabric run TOPOLOGY --dir {shown}"
            ))
        })?;
        let client = Client { stream: BufReader::new(stream), dir };
        client.wait_at_most(Some(ANSWER_TIME))?;
        Ok(client)
    }

    /// Limits the wait for each answer from now on.
    pub fn wait_at_most(&self, time: Option<Duration>) -> Result<(), Failure> {
        self.stream.get_ref().set_read_timeout(time).map_err(|e| self.lost(&e))
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, request: &Request) -> Result<Answer, Failure> {
        let mut line = serde_json::to_string(request).map_err(|e| self.lost(&e.into()))?;
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).map_err(|e| self.lost(&e))?;
        match self.line()? {
            Some(Reply::Ok(answer)) => Ok(answer),
            Some(Reply::Error(why)) => Err(Failure::Failed(why)),
            None => Err(self.lost(&io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// The next line; `None` when the daemon has ended.
    pub fn line<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        let mut line = String::new();
        match self.stream.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line).map(Some).map_err(|e| {
                Failure::Failed(format!(
                    "the daemon's answer was not understood ({e}); is it of another version?"
                ))
            }),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(e) => Err(self.lost(&e)),
        }
    }

    fn lost(&self, e: &io::Error) -> Failure {
        let shown = self.dir.display();
        Failure::Unreachable(match e.kind() {
            io::ErrorKind::WouldBlock => format!("the weft-fabric of {shown} does not answer"),
            _ => format!("the weft-fabric of {shown} went away: {e}"),
        })
    }
}

/// Sends a request that is answered at once by a daemon that may refuse it.
pub fn ask(context: &Context, request: &Request) -> Result<Answer, Failure> {
    Client::connect(context)?.ask(request)
}

/// An answer that does not belong to its request.
pub fn mismatch<T>(answer: &Answer) -> Result<T, Failure> {
    Err(Failure::Failed(format!(
        "the daemon answered something else ({answer:?}); is it of another version?"
    )))
}
