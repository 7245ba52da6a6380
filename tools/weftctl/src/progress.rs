// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A bar on the terminal for what takes long.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// What is done sooner needs no bar.
const FIRST: Duration = Duration::from_millis(500);
/// Between two pictures.
const STEP: Duration = Duration::from_millis(100);
const WIDTH: usize = 30;

/// A bar, which disappears when dropped.
pub struct Progress {
    label: String,
    start: Instant,
    first: Option<u64>,
    drawn: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// One that is shown on a terminal, if `wanted`.
    pub fn new(label: &str, wanted: bool) -> Self {
        let shown = wanted && io::stderr().is_terminal();
        Progress { label: label.into(), start: Instant::now(), first: None, drawn: None, shown }
    }

    /// So much of so much is done.
    pub fn at(&mut self, done: u64, all: u64) {
        let first = *self.first.get_or_insert(done);
        let now = Instant::now();
        let due = match self.drawn {
            None => now.saturating_duration_since(self.start) >= FIRST,
            Some(last) => now.saturating_duration_since(last) >= STEP,
        };
        if self.shown && due {
            self.drawn = Some(now);
            let elapsed = now.saturating_duration_since(self.start);
            let line = line(&self.label, done, all, done.saturating_sub(first), elapsed);
            let _ = write!(io::stderr(), "\r{line}\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(label: &str, done: u64, all: u64, moved: u64, elapsed: Duration) -> String {
    let part = if all == 0 { 1.0 } else { (done as f64 / all as f64).min(1.0) };
    let full = (part * WIDTH as f64) as usize;
    let rate = moved as f64 / elapsed.as_secs_f64().max(1e-9);
    let left = match rate > 0.0 {
        true => format!("{:.0} s left", all.saturating_sub(done) as f64 / rate),
        false => "stalled".into(),
    };
    format!(
        "{label:.30} [{}{}] {:3.0} % {:.1} MB/s {left}",
        "#".repeat(full),
        "-".repeat(WIDTH - full),
        part * 100.0,
        rate / 1e6,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_says_how_far_it_is() {
        let half = line("f", 5_000_000, 10_000_000, 4_000_000, Duration::from_secs(2));
        assert_eq!(
            half,
            format!("f [{0}{1}]  50 % 2.0 MB/s 2 s left", "#".repeat(15), "-".repeat(15))
        );
        let none = line("f", 0, 10, 0, Duration::from_secs(2));
        assert!(none.contains("  0 %") && none.contains("stalled"), "{none}");
        let more = line("f", 20, 10, 20, Duration::ZERO);
        assert!(more.contains("100 %"), "{more}");
        assert!(line("f", 0, 0, 0, Duration::ZERO).contains("100 %"));
    }
}
