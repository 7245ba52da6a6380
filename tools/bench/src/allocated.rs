// SPDX-License-Identifier: GPL-2.0 OR MIT

//! How much memory the driver has, to the byte: the kernel's own events tell of each allocation and of its end, and its
//! list of areas of memory that is contiguous by its addresses alone.
//!
//! An allocation is the module's by the place that has asked for it; or it is one of Rust's, by functions of the
//! kernel that hardly anything else calls, and nothing in these guests meanwhile. What of the driver is pages, or is
//! allocated by the kernel for it, is not in here.

use crate::{PATIENCE, Result};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::thread;
use std::time::{Duration, Instant};

const TRACING: &str = "/sys/kernel/tracing";
const EVENTS: [&str; 2] = ["kmalloc", "kfree"];
const AREAS: &str = "/proc/vmallocinfo";
const PAGE: u64 = 4096;
/// Functions that allocate for Rust: with their names the places begin from which the allocator was called.
const HELPERS: [&str; 4] =
    ["rust_helper_", "krealloc_node_align", "kvrealloc_node_align", "vrealloc_node_align"];
const MODULE: &str = "[weft]";
/// What nothing has changed for so many looks does not change any more.
const LOOKS: usize = 8;
const BETWEEN: Duration = Duration::from_millis(20);

/// Whether memory is the driver's, by the place that has allocated it.
fn is_ours(place: &str) -> bool {
    HELPERS.iter().any(|helper| place.starts_with(helper)) || place.contains(MODULE)
}

/// The value of `name=`.
fn value<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// What is allocated, by its address.
#[derive(Default)]
struct Ledger {
    there: HashMap<u64, u64>,
    bytes: u64,
}

impl Ledger {
    /// Notes an event, as the kernel writes it. Others than these are passed over.
    fn note(&mut self, line: &str) -> Result<()> {
        if line.contains(" LOST ") || line.contains("[LOST") {
            return Err(format!("the kernel has lost events: {line}").into());
        }
        let allocates = line.contains(": kmalloc: ");
        if !allocates && !line.contains(": kfree: ") {
            return Ok(());
        }
        let odd = || format!("an event of the kernel is not as expected: {line}");
        let at = value(line, "ptr").ok_or_else(odd)?;
        let at = u64::from_str_radix(at.trim_start_matches("0x"), 16);
        // No memory is at "(null)": that is freed as well.
        let Ok(at) = at else { return Ok(()) };
        // What is allocated where something was, has been freed in a way that tells nothing. What is large is told of
        // twice, with its own place at last.
        self.bytes -= self.there.remove(&at).unwrap_or(0);
        let place = line.split_once("call_site=").map(|(_, place)| place).ok_or_else(odd)?;
        let place = place.split_once(" ptr=").map(|(place, _)| place).ok_or_else(odd)?;
        if allocates && is_ours(place) {
            let bytes: u64 = value(line, "bytes_alloc").ok_or_else(odd)?.parse()?;
            self.there.insert(at, bytes);
            self.bytes += bytes;
        }
        Ok(())
    }
}

/// Bytes of the driver's areas.
fn areas(list: &str) -> u64 {
    let ours = list.lines().filter(|line| line.split_ascii_whitespace().skip(2).any(is_ours));
    let pages = ours.filter_map(|line| value(line, "pages")?.parse::<u64>().ok());
    PAGE * pages.sum::<u64>()
}

/// Bytes of mappings of files of the driver, in a list of mappings of a process.
fn mappings(list: &str) -> u64 {
    let ours = list.lines().filter(|line| line.contains(" /dev/weft"));
    let spans = ours.filter_map(|line| line.split_ascii_whitespace().next()?.split_once('-'));
    let address = |word| u64::from_str_radix(word, 16).ok();
    spans.filter_map(|(from, to)| address(to)?.checked_sub(address(from)?)).sum()
}

/// Listens to the kernel, until it is dropped.
pub struct Kernel {
    events: File,
    /// What was read, and not noted, as its line is not whole.
    rest: Vec<u8>,
    ledger: Ledger,
}

fn set(file: &str, value: &str) -> Result<()> {
    let path = format!("{TRACING}/{file}");
    fs::write(&path, value).map_err(|e| format!("{path}: {e}").into())
}

fn tell(on: bool) -> Result<()> {
    for event in EVENTS {
        set(&format!("events/kmem/{event}/enable"), if on { "1" } else { "0" })?;
    }
    Ok(())
}

impl Kernel {
    /// What is allocated from here on is told of.
    pub fn new() -> Result<Self> {
        // Addresses, not what stands for them: that of two may be the same.
        set("options/hash-ptr", "0")?;
        let events = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(format!("{TRACING}/trace_pipe"))?;
        tell(true)?;
        Ok(Kernel { events, rest: Vec::new(), ledger: Ledger::default() })
    }

    /// Notes what was told since. To be called often: the kernel keeps some thousands.
    pub fn listen(&mut self) -> Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = match self.events.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e.into()),
            };
            self.rest.extend_from_slice(buffer.get(..count).unwrap_or_default());
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                self.ledger.note(&String::from_utf8_lossy(&line))?;
            }
        }
    }

    /// Bytes that the driver has, and those of this process's mappings of it: more or less than before this was made.
    fn bytes(&mut self) -> Result<u64> {
        self.listen()?;
        let mapped = mappings(&fs::read_to_string("/proc/self/maps")?);
        Ok(self.ledger.bytes + areas(&fs::read_to_string(AREAS)?) + mapped)
    }

    /// The same, when what was begun is over.
    pub fn settled(&mut self) -> Result<u64> {
        let start = Instant::now();
        let (mut last, mut looks) = (self.bytes()?, 0);
        while looks < LOOKS {
            if PATIENCE.is_some_and(|limit| start.elapsed() > limit) {
                return Err("the driver does not come to rest".into());
            }
            thread::sleep(BETWEEN);
            let now = self.bytes()?;
            looks = if now == last { looks + 1 } else { 0 };
            last = now;
        }
        Ok(last)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // That it goes on costs time, and nothing else.
        let _ = tell(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lines: &[&str]) -> Ledger {
        let mut ledger = Ledger::default();
        for line in lines {
            ledger.note(line).expect("as the kernel writes them");
        }
        ledger
    }

    const HEAD: &str = "  weft-bench-77  [000] .....  12.345678: kmalloc: call_site=";
    const FREE: &str = "  kworker/0:1-9  [000] .....  12.4: kfree: call_site=kvfree+0x2f/0x40 ptr=";

    fn allocates(place: &str, at: &str, bytes: u32) -> String {
        format!(
            "{HEAD}{place} ptr={at} bytes_req=5 bytes_alloc={bytes} gfp_flags=GFP_KERNEL node=-1"
        )
    }

    #[test]
    fn what_is_freed_does_not_count() {
        let first = allocates("rust_helper_krealloc_node_align+0x2f/0x40", "ffff8880", 64);
        let second = allocates("weft_client_add+0x1/0x9 [weft]", "ffff8900", 128);
        let ledger = after(&[&first, &second]);
        assert_eq!(ledger.bytes, 192);
        let ledger = after(&[&first, &second, &format!("{FREE}ffff8880")]);
        assert_eq!(ledger.bytes, 128);
        let ledger = after(&[&format!("{FREE}ffff8900"), &second, &format!("{FREE}(null)")]);
        assert_eq!(ledger.bytes, 128);
    }

    #[test]
    fn others_do_not_count_nor_what_was_before_where_they_are() {
        let ours = allocates("kvrealloc_node_align_noprof+0x2f/0x40", "ffff8880", 64);
        let theirs = allocates("load_elf_binary+0x2f/0x40", "ffff8880", 4096);
        assert_eq!(after(&[&theirs]).bytes, 0);
        assert_eq!(after(&[&theirs, &ours, &ours]).bytes, 64);
        assert_eq!(after(&[&theirs, &ours, &format!("{FREE}ffff8880")]).bytes, 0);
        assert_eq!(after(&[&ours, &theirs]).bytes, 0);
    }

    #[test]
    fn lost_events_and_odd_ones_are_errors() {
        let mut ledger = Ledger::default();
        assert!(ledger.note("CPU:0 [LOST 12 EVENTS]").is_err());
        assert!(ledger.note(&format!("{HEAD}weft_a+0x1/0x2 [weft] bytes_alloc=9")).is_err());
        assert!(ledger.note(&format!("{HEAD}weft_a+0x1/0x2 [weft] ptr=ff80 bytes_req=9")).is_err());
        assert!(ledger.note("# tracer: nop").is_ok());
        assert_eq!(ledger.bytes, 0);
    }

    #[test]
    fn areas_are_those_of_the_driver() {
        let list = "0xffffc900-0xffffc905   20480 copy_process+0x1/0x2 pages=4 vmalloc N0=4\n\
                    0xffffc910-0xffffc919 2101248 vrealloc_node_align_noprof+0x1/0x2 pages=512 vmalloc\n\
                    0xffffc920-0xffffc929    8192 weft_map+0x1/0x2 [weft] pages=1 vmap\n\
                    0xffffc930-0xffffc939    8192 weft_io+0x1/0x2 [weft] phys=0xfe000000 ioremap\n";
        assert_eq!(areas(list), 513 * 4096);
    }

    #[test]
    fn mappings_are_those_of_the_driver() {
        let list = "7f0000000000-7f0000021000 rw-s 00000000 00:06 99    /dev/weft0\n\
                    7f0000021000-7f0000023000 rw-s 00000000 00:06 100   /dev/weft1\n\
                    7f0000030000-7f0000040000 r-xp 00000000 00:1f 3     /mnt/tools/weft-bench\n";
        assert_eq!(mappings(list), 0x23000);
    }
}
