// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Sleeps until something happens, and says what. A file is first watched and then
//! read, so what changes in between is not missed; all else is read again whenever
//! one file, or the kernel, tells of a change.

use super::event::{Event, What, between};
use super::object::Object;
use super::state::{Place, State, places};
use super::uevent::{Heard, Socket};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const STOP: u64 = 0;
const KERNEL: u64 = 1;
const FILE: u64 = 2;

/// By port, and by the name of the file below its directory.
type Files = BTreeMap<(String, String), File>;

/// Why there is nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// Something may have happened.
    Told,
    /// It was time.
    Late,
    /// It is to end.
    Stopped,
}

/// What is watched.
pub struct Watcher {
    root: PathBuf,
    only: Option<String>,
    epoll: OwnedFd,
    kernel: Option<Socket>,
    files: Files,
    known: BTreeMap<Object, State>,
    /// Addresses of the ports that were there.
    addresses: BTreeMap<String, Option<String>>,
}

impl Watcher {
    /// Watches the ports of the host whose file system is at `root`, or one of them,
    /// which need not be there yet. When `stop` can be read, it is to end.
    pub fn new(root: PathBuf, only: Option<String>, stop: impl AsFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        watch(&epoll, &stop, STOP, epoll::EventFlags::IN)?;
        let kernel = Socket::open().ok();
        if let Some(socket) = &kernel {
            watch(&epoll, socket, KERNEL, epoll::EventFlags::IN)?;
        }
        let (files, known, addresses) = Default::default();
        Ok(Watcher { root, only, epoll, kernel, files, known, addresses })
    }

    /// Whether the kernel tells of ports that come and go.
    pub fn hears_kernel(&self) -> bool {
        self.kernel.is_some()
    }

    /// How many of them there are.
    pub fn ports(&self) -> usize {
        self.known.keys().filter(|object| matches!(object, Object::Port(_))).count()
    }

    /// Sleeps until something may have happened.
    pub fn wait(&self, until: Option<Instant>) -> io::Result<Woken> {
        let mut ready = Vec::with_capacity(16);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let time = left.map(timespec).transpose()?;
            match epoll::wait(&self.epoll, spare_capacity(&mut ready), time.as_ref()) {
                Ok(0) => return Ok(Woken::Late),
                Ok(_) if ready.iter().any(|event| event.data.u64() == STOP) => {
                    return Ok(Woken::Stopped);
                }
                Ok(_) => return Ok(Woken::Told),
                // Signals that end this come by `stop`.
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// What has happened since the last time; the first time, what there is.
    pub fn look(&mut self) -> io::Result<Vec<Event>> {
        let mut all = self.heard()?;
        let found = places(&self.root);
        let found: Vec<_> = found.iter().filter(|place| self.wants(&place.name)).collect();
        let mut now = BTreeMap::new();
        let mut files = BTreeMap::new();
        for place in &found {
            self.addresses.insert(place.name.clone(), place.address());
            self.open(place, &mut files)?;
            now.extend(place.read());
        }
        // Those of ports that are gone are closed: they would be ready for ever.
        self.files = files;
        all.extend(between(&self.known, &now));
        self.known = now;
        let time_ms = now_ms();
        Ok(all.into_iter().map(|(object, what)| Event { time_ms, object, what }).collect())
    }

    fn wants(&self, port: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == port)
    }

    /// What the kernel has told. If something of it is lost, the look that follows
    /// shows what it came to.
    fn heard(&self) -> io::Result<Vec<(Object, What)>> {
        let mut all = Vec::new();
        let Some(socket) = &self.kernel else { return Ok(all) };
        while let Some(heard) = socket.next()? {
            let Heard::Event(event) = heard else { continue };
            all.extend(event.told().filter(|(object, _)| self.concerns(object)));
        }
        Ok(all)
    }

    fn concerns(&self, object: &Object) -> bool {
        let Some(only) = &self.only else { return true };
        match object {
            Object::Module => false,
            Object::Function(address) => {
                self.addresses.get(only).is_some_and(|of| of.as_ref() == Some(address))
            }
            Object::Port(name) | Object::Link(name, _) => name == only,
        }
    }

    /// Watches what there is to be watched of a port. Reading says that one has seen
    /// what was told so far, and that may be that a link has come: what was there is
    /// looked up once more behind it.
    fn open(&mut self, place: &Place, files: &mut Files) -> io::Result<()> {
        let mut told = place.told();
        loop {
            self.open_all(place, &told, files)?;
            let again = place.told();
            if again == told {
                return Ok(());
            }
            told = again;
        }
    }

    fn open_all(&mut self, place: &Place, told: &[String], files: &mut Files) -> io::Result<()> {
        for name in told {
            let key = (place.name.clone(), name.clone());
            if files.contains_key(&key) {
                continue;
            }
            if let Some(file) = self.files.remove(&key).filter(seen) {
                files.insert(key, file);
                continue;
            }
            let Ok(file) = File::open(place.dir.join(&key.1)) else { continue };
            watch(&self.epoll, &file, FILE, epoll::EventFlags::PRI)?;
            if seen(&file) {
                files.insert(key, file);
            }
        }
        Ok(())
    }
}

fn watch(epoll: &OwnedFd, file: &impl AsFd, token: u64, what: epoll::EventFlags) -> io::Result<()> {
    Ok(epoll::add(epoll, file, epoll::EventData::new_u64(token), what)?)
}

/// Whether it could be read: not that of a port that is gone.
fn seen(file: &File) -> bool {
    loop {
        match file.read_at(&mut [0; 64], 0) {
            Ok(_) => return true,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}

fn timespec(left: Duration) -> io::Result<Timespec> {
    Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput.into())
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
