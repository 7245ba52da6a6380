// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Addresses as text, `FI_ADDR_STR`: `weft://hwid/endpoint/generation`, in hexadecimal.
//!
//! All are of one length, as programs put what `fi_getname()` gave behind each other.

use weft::matching::Address;

/// Bytes of an address, with the 0 at its end.
#[cfg(test)]
pub const BYTES: usize = "weft://0123456789abcdef/0123/01234567".len() + 1;
const SCHEME: &str = "weft://";

/// Writes an address.
pub fn name(address: &Address) -> String {
    format!("{SCHEME}{:016x}/{:04x}/{:08x}", address.hwid, address.endpoint, address.generation)
}

/// Reads one. Leading zeros may be missing.
pub fn parse(text: &str) -> Option<Address> {
    let mut parts = text.strip_prefix(SCHEME)?.split('/');
    let mut next = || {
        let digits = parts.next()?;
        // What the parser of numbers takes besides.
        if digits.starts_with('+') {
            return None;
        }
        u64::from_str_radix(digits, 16).ok()
    };
    let (hwid, endpoint, generation) = (next()?, next()?, next()?);
    let address = Address {
        hwid,
        endpoint: endpoint.try_into().ok()?,
        generation: generation.try_into().ok()?,
    };
    parts.next().is_none().then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_their_names_say() {
        for (hwid, endpoint, generation) in [(0, 0, 0), (0x1234, 5, 6), (u64::MAX, 2047, u32::MAX)]
        {
            let address = Address { hwid, endpoint, generation };
            let name = name(&address);
            assert_eq!(name.len() + 1, BYTES);
            assert_eq!(parse(&name), Some(address));
        }
        assert_eq!(parse("weft://2/1/3"), Some(Address { hwid: 2, endpoint: 1, generation: 3 }));
    }

    #[test]
    fn other_text_is_no_address() {
        let none = [
            "",
            "weft://",
            "weft://1",
            "weft://1/2",
            "weft://1/2/",
            "weft://1/2/3/",
            "weft://1/2/3/4",
            "weft://1/10000/3",
            "weft://1/2/100000000",
            "weft://10000000000000000/2/3",
            "weft://+1/2/3",
            "weft://x/2/3",
            "fi://1/2/3",
            " weft://1/2/3",
            "10.0.0.1",
        ];
        for text in none {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
