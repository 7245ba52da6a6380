// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The kernel's log, as far as it goes back, by /dev/kmsg.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A record is at most this long.
const RECORD: usize = 8192;

/// The texts of all records, oldest first.
pub fn read(path: &Path) -> io::Result<Vec<String>> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut file = OpenOptions::new().read(true).custom_flags(nonblock).open(path)?;
    let mut buf = vec![0; RECORD];
    let mut log = Vec::new();
    loop {
        match file.read(&mut buf) {
            Ok(0) => break,
            Ok(count) => log.extend_from_slice(buf.get(..count).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            // Records were overwritten before they were read: go on with those that are left.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(texts(&String::from_utf8_lossy(&log)))
}

/// `6,339,5140900,-;text`, and lines that begin with a space: their dictionary.
fn texts(log: &str) -> Vec<String> {
    let text = |line: &str| Some(line.split_once(';')?.1.to_owned());
    log.lines().filter(|line| !line.starts_with(' ')).filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn records_become_texts() {
        let log = "6,1,5,-;weft: one; two\n SUBSYSTEM=pci\n4,2,6,c;three\nnonsense\n";
        assert_eq!(super::texts(log), ["weft: one; two", "three"]);
    }
}
