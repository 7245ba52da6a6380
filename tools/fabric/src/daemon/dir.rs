// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The daemon's directory: a lock that makes it the only one, its two sockets,
//! and the generations it may give out, which outlive it.

use rustix::fs::{FlockOperation, flock};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Socket of the ports.
pub const PORT_SOCKET: &str = "port.sock";
/// Socket of the command line.
pub const CONTROL_SOCKET: &str = "control.sock";
const LOCK: &str = "lock";
const GENERATION: &str = "generation";

/// Generations set aside with one write of the file.
const RESERVE: u32 = 1024;

/// The directory, locked for as long as this lives.
pub struct Dir {
    path: PathBuf,
    _lock: File,
    /// Generations up to here are on record as used.
    reserved: u32,
}

impl Dir {
    /// Makes the directory if need be, and takes it.
    pub fn take(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|e| format!("cannot make {shown}: {e}; name another with --dir"))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK))
            .map_err(|e| format!("cannot write to {shown}: {e}; name another with --dir"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            format!("{shown} has a weft-fabric already; stop that one or name another with --dir")
        })?;
        Ok(Dir { path: path.to_owned(), _lock: lock, reserved: 0 })
    }

    /// The generation after which a new daemon begins: later than all those of the
    /// ones before it, by the record and, should that be lost, by the clock.
    pub fn last_generation(&self) -> u32 {
        let recorded = fs::read_to_string(self.path.join(GENERATION)).ok();
        let recorded = recorded.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        recorded.max(u32::try_from(now).unwrap_or(0))
    }

    /// Puts on record that `generation` is used, before any port hears of it.
    pub fn record_generation(&mut self, generation: u32) -> io::Result<()> {
        if generation <= self.reserved {
            return Ok(());
        }
        let upto = generation.saturating_add(RESERVE);
        let new = self.path.join(format!("{GENERATION}.new"));
        fs::write(&new, format!("{upto}\n"))?;
        fs::rename(&new, self.path.join(GENERATION))?;
        self.reserved = upto;
        Ok(())
    }

    /// Listens at a socket of the directory; one left by a dead daemon is replaced.
    pub fn listen(&self, name: &str, kind: SocketType) -> Result<OwnedFd, String> {
        let path = self.path.join(name);
        let fail = |what: &str, e: &dyn std::fmt::Display| {
            format!("{}: cannot {what}: {e}; name another directory with --dir", path.display())
        };
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(fail("replace", &e)),
            _ => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let addr = SocketAddrUnix::new(&path).map_err(|e| fail("be a socket", &e))?;
        let fd = socket_with(AddressFamily::UNIX, kind, flags, None)
            .map_err(|e| fail("make a socket", &e))?;
        bind(&fd, &addr).map_err(|e| fail("bind", &e))?;
        listen(&fd, 64).map_err(|e| fail("listen", &e))?;
        Ok(fd)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        for name in [PORT_SOCKET, CONTROL_SOCKET] {
            let _ = fs::remove_file(self.path.join(name));
        }
    }
}
