// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Which file a program is, and whether the dynamic linker would load a library into it: the reasons for which it would
//! not, in silence, are told before.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

const SETUID: u32 = 0o4000;
/// Set-group-ID, and execution by the group: without the latter it means something else.
const SETGID: u32 = 0o2010;
/// Interpreters of interpreters that are followed.
const DEPTH: usize = 4;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;

/// Returns the file of a program: in `PATH`, unless the name has a slash.
pub fn find(name: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file());
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(is_program);
    }
    let dirs = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let can_run = |path: &PathBuf| {
        is_program(path) && fs::metadata(path).is_ok_and(|found| found.mode() & 0o111 != 0)
    };
    std::env::split_paths(&dirs).map(|dir| dir.join(name)).find(can_run)
}

/// Returns why the library would not be loaded into a program, or the program it is a script of.
pub fn check(path: &Path, library: &Path) -> Result<(), String> {
    let mut path = path.to_owned();
    for _ in 0..DEPTH {
        let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        check_rights(&path).map_err(|why| told(&why))?;
        let mut file = File::open(&path).map_err(|error| told(&error))?;
        let mut head = Vec::new();
        Read::by_ref(&mut file).take(256).read_to_end(&mut head).map_err(|error| told(&error))?;
        if let Some(interpreter) = interpreter_of_script(&head) {
            path = interpreter;
            continue;
        }
        let mut wanted = Vec::new();
        let read = File::open(library).and_then(|file| file.take(64).read_to_end(&mut wanted));
        read.map_err(|error| format!("{}: {error}", library.display()))?;
        return check_elf(&head, &wanted, &mut file).map_err(|why| told(&why));
    }
    Ok(())
}

/// The program that a script is run by.
fn interpreter_of_script(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.trim_ascii().split(|byte| byte.is_ascii_whitespace()).next()?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

/// A program with more rights than its caller is not given libraries by that.
fn check_rights(path: &Path) -> Result<(), String> {
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    let as_another = "a program that runs as another user or group takes no library";
    if found.mode() & SETUID != 0 && found.uid() != geteuid().as_raw() {
        return Err(format!("set-user-ID: {as_another}"));
    }
    if found.mode() & SETGID == SETGID && found.gid() != getegid().as_raw() {
        return Err(format!("set-group-ID: {as_another}"));
    }
    let mut room = [0; 64];
    let has_capabilities = rustix::fs::getxattr(path, "security.capability", &mut room).is_ok();
    if has_capabilities && !geteuid().is_root() {
        return Err("it has capabilities of its own, and so takes no library".into());
    }
    Ok(())
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)))
}

/// The kinds, offsets and sizes of what an ELF file of 64 bits consists of.
fn segments<F: Read + Seek>(head: &[u8], file: &mut F) -> Option<Vec<(u32, u64, u64)>> {
    let (at, size, count) = (number(head, 32, 8)?, number(head, 54, 2)?, number(head, 56, 2)?);
    let mut table = vec![0; usize::try_from(size.checked_mul(count)?).ok()?];
    file.seek(SeekFrom::Start(at)).ok()?;
    file.read_exact(&mut table).ok()?;
    let entry = |entry: &[u8]| {
        Some((number(entry, 0, 4)? as u32, number(entry, 8, 8)?, number(entry, 32, 8)?))
    };
    table.chunks(usize::try_from(size).ok()?.max(1)).map(entry).collect()
}

fn piece<F: Read + Seek>(file: &mut F, at: u64, size: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    Read::by_ref(file).take(size.min(4096)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// `library`: the head of its file.
fn check_elf<F: Read + Seek>(head: &[u8], library: &[u8], file: &mut F) -> Result<(), String> {
    if !head.starts_with(b"\x7fELF") {
        return Err("neither a program of this machine nor a script".into());
    }
    // The class, the order of bytes, and the machine.
    if head.get(4..6) != library.get(4..6) || head.get(18..20) != library.get(18..20) {
        return Err("it is for another machine than libweft-sockets.so".into());
    }
    let segments = segments(head, file).ok_or("it is cut off, or no program")?;
    let mut interpreter = None;
    for (kind, at, size) in segments {
        let bytes = match kind {
            PT_INTERP | PT_NOTE => piece(file, at, size).map_err(|error| error.to_string())?,
            _ => continue,
        };
        // The name of a note, behind three numbers.
        if kind == PT_NOTE && bytes.get(12..16) == Some(b"Go\0\0") {
            return Err(
                "a Go program calls the kernel by itself: its connections cannot be moved".into()
            );
        }
        if kind == PT_INTERP {
            interpreter = Some(bytes);
        }
    }
    match interpreter {
        None => Err("statically linked: it takes no library".into()),
        Some(path) if !path.windows(8).any(|part| part == b"ld-linux") => {
            Err("not linked with glibc, which libweft-sockets.so is made for".into())
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// The head of an ELF file, and one segment with these bytes.
    fn elf(kind: u32, bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[18] = 62;
        file[32] = 64;
        file[54] = 56;
        file[56] = 1;
        file[64..68].copy_from_slice(&kind.to_le_bytes());
        file[64 + 8] = 64 + 56;
        file[64 + 32] = bytes.len() as u8;
        file.extend(bytes);
        file
    }

    fn said(kind: u32, bytes: &[u8]) -> Result<(), String> {
        let file = elf(kind, bytes);
        check_elf(&file, &elf(0, b""), &mut Cursor::new(&file))
    }

    #[test]
    fn programs_that_take_no_library_are_told_apart() {
        assert_eq!(said(PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0"), Ok(()));
        assert!(said(PT_INTERP, b"/lib/ld-musl-x86_64.so.1\0").unwrap_err().contains("glibc"));
        assert!(said(1, b"").unwrap_err().contains("statically"));
        assert!(said(PT_NOTE, b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0").unwrap_err().contains("Go"));
    }

    #[test]
    fn other_machines_and_other_files_are_told_apart() {
        let mut file = elf(PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0");
        file[18] = 183;
        assert!(
            check_elf(&file, &elf(0, b""), &mut Cursor::new(&file))
                .unwrap_err()
                .contains("machine")
        );
        assert!(check_elf(b"hello", &elf(0, b""), &mut Cursor::new(b"hello")).is_err());
        let file = elf(PT_INTERP, b"/lib64/ld-linux-x86-64.so.2\0");
        for cut in 0..64 + 56 {
            assert!(
                check_elf(&file[..cut.min(64)], &elf(0, b""), &mut Cursor::new(&file[..cut]))
                    .is_err(),
                "{cut}"
            );
        }
    }

    #[test]
    fn scripts_name_what_they_are_run_by() {
        let found = |text: &[u8]| interpreter_of_script(text);
        assert_eq!(found(b"#!/bin/sh\n"), Some("/bin/sh".into()));
        assert_eq!(found(b"#! /usr/bin/env python3\nimport"), Some("/usr/bin/env".into()));
        assert_eq!(found(b"\x7fELF"), None);
        assert_eq!(found(b"#!\n"), Some("".into()));
    }
}
