// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Makes bytes for a target: changes of those that it answered as none before.

use super::targets::Target;
use std::collections::BTreeSet;
use std::fmt::Write;

/// As long as bytes become.
const MOST: usize = 2048;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// A number of the kind that breaks programs.
    fn number(&mut self) -> u64 {
        let shift = self.below(64);
        match self.below(6) {
            0 => self.next() % 64,
            1 => 1 << shift,
            2 => (1 << shift) - 1,
            3 => 0u64.wrapping_sub(self.next() % 64),
            4 => (self.next() % 256) << 12,
            _ => self.next(),
        }
    }
}

fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(bytes.len());
    match random.below(8) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.next() as u8,
        // A number where one may be.
        2..=4 => {
            let len = 1 << random.below(4);
            let at = at & !(len - 1);
            let number = random.number().to_le_bytes();
            bytes.resize(bytes.len().max(at + len), 0);
            bytes[at..at + len].copy_from_slice(&number[..len]);
        }
        5 => bytes.truncate(at),
        6 => bytes.extend((0..random.below(64)).map(|_| random.next() as u8)),
        // The end of another one.
        _ => {
            bytes.truncate(at);
            bytes.extend(other.get(at..).unwrap_or_default());
        }
    }
    bytes.truncate(MOST);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes that `hex` says.
pub fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.filter_map(byte).collect()
}

/// Tells which bytes it was if the target panics.
struct Witness<'a>(&'a str, &'a [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: to be kept: {}", self.0, hex(self.1));
        }
    }
}

/// What fuzzing by coverage has found for a target: bytes in hexadecimal, a line each.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/corpus");
    let text = std::fs::read_to_string(format!("{folder}/{name}")).expect("each target has one");
    let corpus: Vec<_> = text.lines().map(unhex).collect();
    assert!(
        corpus.iter().all(|bytes| !bytes.is_empty()),
        "{name}: not hexadecimal"
    );
    corpus
}

/// Tries the corpus, and so many bytes more; `least` answers of different kinds are to be found.
pub fn fuzz(name: &str, target: Target, tries: usize, least: usize) {
    let mut found = BTreeSet::new();
    let mut kept: Vec<Vec<u8>> = vec![vec![0; 128]];
    let mut once = |kept: &mut Vec<Vec<u8>>, bytes: Vec<u8>| {
        let witness = Witness(name, &bytes);
        let answer = target(&bytes);
        drop(witness);
        if found.insert(answer) {
            kept.push(bytes);
        }
    };
    for bytes in corpus(name) {
        once(&mut kept, bytes);
    }
    let mut random = Random(1);
    for _ in 0..tries {
        let mut bytes = kept[random.below(kept.len())].clone();
        let other = kept[random.below(kept.len())].clone();
        for _ in 0..=random.below(6) {
            change(&mut bytes, &other, &mut random);
        }
        once(&mut kept, bytes);
    }
    let answers = found.len();
    println!("{name}: {answers} kinds of answers");
    assert!(answers >= least, "{name}: {answers} kinds of answers");
}
