// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where files arrive: under a temporary name first, under their own when they
//! are whole. Nothing here reaches outside of the folder, whatever the name is.

use super::message::{Code, Id, printable};
use crate::failure::plain;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SUFFIX: &str = ".weft-part";
/// So much of a name is in the temporary one, which must not be longer than 255.
const KEPT: usize = 200;

/// Why a file cannot be taken.
pub type No = (Code, String);

/// An open directory.
#[derive(Clone)]
pub struct Folder {
    dir: Arc<OwnedFd>,
    path: PathBuf,
    force: bool,
    parts: Arc<Mutex<BTreeSet<OsString>>>,
}

fn storage(what: &str, name: &OsStr, e: impl Into<io::Error>) -> No {
    (Code::Storage, format!("cannot {what} {}: {}", printable(name.as_bytes()), plain(e)))
}

/// Checks what a peer calls its file.
pub fn check_name(name: &[u8]) -> Result<&OsStr, No> {
    let no = |why: &str| Err((Code::Name, format!("the name \"{}\" {why}", printable(name))));
    match name {
        b"" => no("is empty"),
        b"." | b".." => no("is that of a directory"),
        _ if name.len() > super::message::MAX_NAME => no("is longer than 255 bytes"),
        _ if name.contains(&b'/') => no("has a / in it"),
        _ if name.contains(&0) => no("has a zero byte in it"),
        _ if name.ends_with(SUFFIX.as_bytes()) => no("is one that weftctl uses for itself"),
        _ => Ok(OsStr::from_bytes(name)),
    }
}

impl Folder {
    /// Opens a directory; `force`: files in it may be replaced.
    pub fn open(path: &Path, force: bool) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Folder { dir: Arc::new(dir), path: path.to_owned(), force, parts: Arc::default() })
    }

    fn parts(&self) -> MutexGuard<'_, BTreeSet<OsString>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, name: &OsStr) {
        let _ = rustix::fs::unlinkat(&*self.dir, name, AtFlags::empty());
    }

    /// Removes all that is not whole, before the process ends in the middle of it.
    /// Nothing is created or named afterwards: a caller that wants to waits for ever.
    pub fn sweep(&self) {
        let parts = self.parts();
        parts.iter().for_each(|name| self.remove(name));
        std::mem::forget(parts);
    }

    /// What a file in it is called by the user.
    pub fn path(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Whether a file of that name and size could be taken.
    pub fn check(&self, name: &OsStr, size: u64) -> Result<(), No> {
        let shown = printable(name.as_bytes());
        match rustix::fs::statat(&*self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => {}
            Err(e) => return Err(storage("look for", name, e)),
            Ok(stat) if rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir() => {
                return Err((Code::Exists, format!("{shown} is a directory there")));
            }
            Ok(_) if self.force => {}
            Ok(_) => return Err((Code::Exists, format!("{shown} exists there already"))),
        }
        if size > super::message::MAX_SIZE {
            return Err((Code::Room, format!("{shown} has {size} bytes; that is too large")));
        }
        // A file system that does not say how large it is has 0 blocks.
        if let Ok(fs) = rustix::fs::fstatvfs(&*self.dir) {
            let free = fs.f_bavail.saturating_mul(fs.f_frsize);
            if fs.f_blocks != 0 && size > free {
                return Err((
                    Code::Room,
                    format!("{shown} has {size} bytes; {free} are free there"),
                ));
            }
        }
        Ok(())
    }

    /// Starts a file.
    pub fn create(&self, name: &OsStr, id: Id) -> Result<Part, No> {
        let bytes = name.as_bytes();
        let mut temporary = b".".to_vec();
        temporary.extend_from_slice(bytes.get(..KEPT).unwrap_or(bytes));
        let id = u128::from_be_bytes(id.0);
        temporary.extend_from_slice(format!(".{id:032x}{SUFFIX}").as_bytes());
        let temporary = OsStr::from_bytes(&temporary).to_owned();
        // One of an earlier run is of no use: what is in it was not remembered.
        let mut parts = self.parts();
        self.remove(&temporary);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        let file = rustix::fs::openat(&*self.dir, &temporary, flags, mode)
            .map_err(|e| storage("create", &temporary, e))?;
        parts.insert(temporary.clone());
        drop(parts);
        Ok(Part { folder: self.clone(), temporary, file: File::from(file), done: false })
    }
}

/// A file that is not whole yet; when dropped, it is removed.
pub struct Part {
    folder: Folder,
    temporary: OsString,
    /// To write to.
    pub file: File,
    done: bool,
}

impl Part {
    /// Gives the file its name, once its content has reached the disk.
    pub fn commit(mut self, name: &OsStr) -> Result<(), No> {
        self.file.sync_all().map_err(|e| storage("write", name, e))?;
        let dir = &*self.folder.dir;
        let mut parts = self.folder.parts();
        let renamed = self.rename(name);
        if renamed.is_ok() {
            parts.remove(&self.temporary);
        }
        drop(parts);
        match renamed {
            Ok(()) => self.done = true,
            Err(Errno::EXIST) => {
                let shown = printable(name.as_bytes());
                return Err((Code::Exists, format!("{shown} was created there meanwhile")));
            }
            Err(e) => return Err(storage("create", name, e)),
        }
        // Some file systems cannot; the file is in place all the same.
        let _ = rustix::fs::fsync(dir);
        Ok(())
    }

    fn rename(&self, name: &OsStr) -> rustix::io::Result<()> {
        let dir = &*self.folder.dir;
        if self.folder.force {
            return rustix::fs::renameat(dir, &self.temporary, dir, name);
        }
        let exclusive = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(dir, &self.temporary, dir, name, exclusive) {
            // 9p and others have links only.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(dir, &self.temporary, dir, name, AtFlags::empty())?;
                rustix::fs::unlinkat(dir, &self.temporary, AtFlags::empty())
            }
            done => done,
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.done {
            let mut parts = self.folder.parts();
            self.folder.remove(&self.temporary);
            parts.remove(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn folder(force: bool) -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let folder = Folder::open(dir.path(), force).expect("folder");
        (dir, folder)
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let long = [b'x'; 256];
        let names: [&[u8]; 8] =
            [b"", b".", b"..", b"../x", b"a/b", b"/etc/passwd", b"a\0b", b".x.00.weft-part"];
        for name in names.into_iter().chain([&long[..]]) {
            assert!(check_name(name).is_err(), "{}", printable(name));
        }
        for name in [&b"a b"[..], b"...", b"-x", b"\xff\xfe", b"new\nline", &long[..255]] {
            assert_eq!(check_name(name).expect("a name"), OsStr::from_bytes(name));
        }
    }

    #[test]
    fn the_longest_name_works() {
        let (dir, folder) = folder(false);
        let name = "n".repeat(255);
        let part = folder.create(name.as_ref(), Id([0xff; 16])).expect("part");
        part.commit(name.as_ref()).expect("commit");
        assert!(dir.path().join(name).exists());
    }

    #[test]
    fn what_exists_is_replaced_by_force_only() {
        for force in [false, true] {
            let (dir, folder) = folder(force);
            let mut part = folder.create("f".as_ref(), Id([1; 16])).expect("part");
            part.file.write_all(b"new").expect("write");
            std::fs::write(dir.path().join("f"), "old").expect("write");
            assert_eq!(folder.check("f".as_ref(), 1).is_ok(), force);
            assert_eq!(part.commit("f".as_ref()).is_ok(), force);
            let want = if force { "new" } else { "old" };
            assert_eq!(std::fs::read_to_string(dir.path().join("f")).expect("read"), want);
            assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
        }
    }

    #[test]
    fn a_link_in_the_way_is_not_followed() {
        let (dir, folder) = folder(true);
        let (other, _) = self::folder(false);
        let victim = other.path().join("victim");
        std::fs::write(&victim, "precious").expect("write");
        std::os::unix::fs::symlink(&victim, dir.path().join("f")).expect("link");
        let part = folder.create("f".as_ref(), Id([1; 16])).expect("part");
        part.commit("f".as_ref()).expect("commit");
        assert_eq!(std::fs::read_to_string(victim).expect("read"), "precious");
    }

    #[test]
    fn a_sweep_leaves_nothing_half() {
        let (dir, folder) = folder(false);
        let part = folder.create("f".as_ref(), Id([1; 16])).expect("part");
        folder.create("g".as_ref(), Id([2; 16])).and_then(|p| p.commit("g".as_ref())).expect("g");
        folder.sweep();
        let names = std::fs::read_dir(dir.path()).expect("list");
        assert_eq!(names.map(|e| e.expect("entry").file_name()).collect::<Vec<_>>(), ["g"]);
        // Would wait for ever.
        std::mem::forget(part);
    }

    #[test]
    fn absurd_sizes_and_directories_are_refused() {
        let (dir, folder) = folder(true);
        std::fs::create_dir(dir.path().join("d")).expect("mkdir");
        assert!(matches!(folder.check("d".as_ref(), 1), Err((Code::Exists, _))));
        for size in [u64::MAX, 1 << 56, (1 << 56) - 1] {
            assert!(matches!(folder.check("f".as_ref(), size), Err((Code::Room, _))), "{size}");
        }
    }
}
