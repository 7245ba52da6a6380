// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The kernel's side: an instance of tracefs of our own, in which only the two
//! tracepoints are on. Other tracers are not disturbed. It goes when it is
//! dropped.

use crate::failure::{Failure, Kind, plain};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const TRACEFS: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 2] = ["weft_cell", "weft_word"];
/// Room for a burst, for each processor.
const BUFFER_KIB: u32 = 4096;

/// An instance.
pub struct Source {
    folder: PathBuf,
    pipe: File,
    /// What has been read of a line.
    rest: Vec<u8>,
    /// Messages that the kernel had no room for.
    pub lost: u64,
}

fn failed(path: &Path, e: io::Error) -> Failure {
    let kind = match e.kind() {
        io::ErrorKind::PermissionDenied => Kind::Permission,
        _ => Kind::Failed,
    };
    Failure::new(kind, format!("{}: {}", path.display(), plain(e)))
}

impl Source {
    /// From now on messages are traced.
    pub fn open() -> Result<Self, Failure> {
        let root = Path::new(TRACEFS);
        let folder = root.join("instances").join(format!("weftctl-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Failure::new(Kind::Failed, "tracefs is not mounted")
                .hint(format!("mount -t tracefs tracefs {TRACEFS}")),
            _ => failed(&folder, e),
        })?;
        let opened = Self::begin(&folder);
        if opened.is_err() {
            let _ = fs::remove_dir(&folder);
        }
        opened
    }

    fn begin(folder: &Path) -> Result<Self, Failure> {
        let write =
            |path: PathBuf, text: &str| fs::write(&path, text).map_err(|e| failed(&path, e));
        write(folder.join("buffer_size_kb"), &BUFFER_KIB.to_string())?;
        let path = folder.join("trace_pipe");
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let pipe = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let pipe = pipe.map_err(|e| failed(&path, e))?;
        for event in EVENTS {
            let path = folder.join("events/weft").join(event).join("enable");
            if !path.exists() {
                return Err(Failure::new(Kind::NoDevice, "the driver weft is not loaded")
                    .hint("modprobe weft"));
            }
            write(path, "1")?;
        }
        Ok(Source { folder: folder.into(), pipe, rest: vec![], lost: 0 })
    }

    /// Calls `f` with each line there is.
    pub fn lines(&mut self, mut f: impl FnMut(&str)) -> Result<(), Failure> {
        let mut buffer = [0; 65536];
        loop {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self.rest.extend(buffer.get(..count).unwrap_or_default()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(&self.folder.join("trace_pipe"), e)),
            }
            let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let lines: Vec<u8> = self.rest.drain(..whole).collect();
            for line in String::from_utf8_lossy(&lines).lines() {
                self.lost += lost(line);
                f(line);
            }
        }
    }

    /// Waits until there may be lines. A signal ends the wait.
    pub fn wait(&self, timeout: Duration) {
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(1),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
        let _ = poll(&mut fds, Some(&timeout));
    }
}

/// "CPU:0 [LOST 12 EVENTS]"
fn lost(line: &str) -> u64 {
    let count = line.split_once("[LOST ").and_then(|(_, rest)| rest.split_once(" EVENTS]"));
    count.and_then(|(count, _)| count.parse().ok()).unwrap_or(0)
}

impl Drop for Source {
    fn drop(&mut self) {
        for event in EVENTS {
            let _ = fs::write(self.folder.join("events/weft").join(event).join("enable"), "0");
        }
        // The kernel removes an instance when none of its files is open.
        if let Ok(null) = File::open("/dev/null") {
            self.pipe = null;
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_lost_is_counted() {
        assert_eq!(super::lost("CPU:1 [LOST 120 EVENTS]"), 120);
        assert_eq!(super::lost("weft_cell: dev=x"), 0);
    }
}
