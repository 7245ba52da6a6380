// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Numbers as users write them, and quantities as they are shown.

use std::time::Duration;

/// Those behind it are the kernel's.
const LAST_SERVICE: u32 = weft::FIRST_KERNEL_SERVICE - 1;

/// A number, decimal or hexadecimal with 0x.
fn any(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with('+') => u64::from_str_radix(hex, 16),
        _ => text.parse(),
    };
    parsed.map_err(|_| "not a number, decimal or 0x…".into())
}

/// A hardware id; 0 is none.
pub fn hwid(text: &str) -> Result<u64, String> {
    match any(text)? {
        0 => Err("0 is no hardware id".into()),
        hwid => Ok(hwid),
    }
}

/// The number of a service.
pub fn service(text: &str) -> Result<u32, String> {
    match u32::try_from(any(text)?) {
        Ok(number) if (1..=LAST_SERVICE).contains(&number) => Ok(number),
        _ => Err(format!("a service is a number from 1 to {LAST_SERVICE}")),
    }
}

/// Megabytes, of a million bytes, per second.
pub fn rate(bytes: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { bytes as f64 / seconds / 1e6 } else { 0.0 }
}

/// Bytes in the largest unit of which there is one.
pub fn bytes(count: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| count >> shift != 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", count as f64 / (1u64 << shift) as f64),
        None => format!("{count} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_written() {
        assert_eq!(hwid("0xdead"), Ok(0xdead));
        assert_eq!(hwid("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(service("71"), Ok(71));
        for text in ["", "0", "x", "0x", "0x+1", "-1", "18446744073709551616"] {
            assert!(hwid(text).is_err(), "{text}");
        }
        assert_eq!(service("0xfffeffff"), Ok(0xfffe_ffff));
        for text in ["0", "0xffff0000", "4294967296"] {
            assert!(service(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
        assert_eq!(rate(5_000_000, Duration::from_secs(2)), 2.5);
        assert_eq!(rate(1, Duration::ZERO), 0.0);
    }
}
