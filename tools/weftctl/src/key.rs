// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The pre-shared key of a port's fabric, by the files that the driver has of its
//! manager in sysfs. Knows nothing of how it is shown.

use crate::channel::no_port;
use crate::failure::{Failure, Kind, plain};
use serde::Serialize;
use std::fs;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes of text that a key is looked for in.
const MOST_TEXT: u64 = 4096;
/// Bytes of a key.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 32..=64;

/// By what a port believes messages of managers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Authentication {
    /// The port.
    pub port: String,
    /// `fabric` and `key`; neither: by nothing.
    pub authenticated: Vec<String>,
    /// Messages that were refused, as they are not sealed with the key.
    pub messages_refused: u64,
    /// How the key of another host does not match: `none`, `here`, `there` or `differs`.
    pub key_mismatch: String,
    /// Hardware id of that host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_mismatch_hwid: Option<String>,
}

/// A key, as hexadecimal digits. It is overwritten when it is dropped.
pub struct Key(Vec<u8>);

impl Key {
    /// Of a file, or of what else can be read.
    pub fn read(from: impl Read, name: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| {
            Failure::new(Kind::Usage, format!("{name}: {what}"))
                .hint("a key is 64 to 128 hexadecimal digits: `openssl rand -hex 32 >FILE`")
        };
        let mut key = Key(Vec::with_capacity(MOST_TEXT as usize + 1));
        from.take(MOST_TEXT + 1)
            .read_to_end(&mut key.0)
            .map_err(|e| Failure::new(Kind::Failed, format!("{name}: {}", plain(e))))?;
        let text = key.0.trim_ascii();
        if text.is_empty() {
            return Err(wrong("there is no key in it"));
        }
        if !text.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong("not only hexadecimal digits"));
        }
        if text.len() % 2 != 0 || !KEY_BYTES.contains(&(text.len() / 2)) {
            return Err(wrong(&format!("{} hexadecimal digits", text.len())));
        }
        Ok(key)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.fill(0);
        black_box(&self.0);
    }
}

/// The manager of a port.
pub struct Manager {
    port: String,
    dir: PathBuf,
}

impl Manager {
    /// Of a device file, /dev/weftN.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        Self::below(Path::new("/sys/class/weft"), path)
    }

    fn below(class: &Path, path: &Path) -> Result<Self, Failure> {
        let port = path.display().to_string();
        let device = class.join(path.file_name().unwrap_or_default()).join("device");
        if !device.is_dir() {
            return Err(no_port(path));
        }
        let dir = device.join("manager");
        if !dir.is_dir() {
            let what = format!("{port} has no manager, so it is told nothing by others");
            return Err(Failure::new(Kind::Usage, what)
                .hint("the port of the first function of an endpoint has one: `weftctl list`"));
        }
        Ok(Manager { port, dir })
    }

    /// By what it believes others.
    pub fn authentication(&self) -> Result<Authentication, Failure> {
        let read = |name: &str| -> Result<String, Failure> {
            let text = fs::read_to_string(self.dir.join(name));
            Ok(text.map_err(|e| self.failure(&e))?.trim().to_owned())
        };
        let by = read("authenticated")?;
        let mismatch = read("key_mismatch")?;
        let hwid = read("key_mismatch_hwid")?;
        Ok(Authentication {
            port: self.port.clone(),
            authenticated: by.split('+').filter(|by| *by != "nothing").map(String::from).collect(),
            messages_refused: read("messages_refused")?.parse().unwrap_or(0),
            key_mismatch_hwid: (mismatch != "none").then_some(hwid),
            key_mismatch: mismatch,
        })
    }

    /// Gives it this key.
    pub fn set(&self, key: &Key) -> Result<(), Failure> {
        fs::write(self.dir.join("key"), &key.0).map_err(|e| self.failure(&e))
    }

    /// Takes the key from it.
    pub fn clear(&self) -> Result<(), Failure> {
        fs::write(self.dir.join("key"), "\n").map_err(|e| self.failure(&e))
    }

    fn failure(&self, e: &io::Error) -> Failure {
        const ENODEV: i32 = 19;
        let failed = |kind, what: String| Failure::new(kind, format!("{}: {what}", self.port));
        match (e.kind(), e.raw_os_error()) {
            (io::ErrorKind::PermissionDenied, _) => {
                failed(Kind::Permission, plain(io::Error::from(e.kind())))
                    .hint("a key is root's to give (CAP_SYS_ADMIN)")
            }
            (io::ErrorKind::NotFound, _) => {
                failed(Kind::Failed, "this weft.ko knows no keys".into())
            }
            (_, Some(ENODEV)) => failed(Kind::NoDevice, "the port does not answer".into()),
            _ => failed(Kind::Failed, plain(io::Error::from(e.kind()))),
        }
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hexadecimal_digits_and_nothing_else() {
        let read = |text: &str| Key::read(text.as_bytes(), "file").map(|key| key.0.len());
        let digits = "0123456789abcDEF".repeat(9);
        for count in [64, 66, 128] {
            let text = format!("{}\n", &digits[..count]);
            assert_eq!(read(&text).ok(), Some(count + 1));
        }
        for (text, why) in [
            ("\n", "no key"),
            (&digits[..62], "62 hexadecimal digits"),
            (&digits[..65], "65 hexadecimal digits"),
            (&digits[..130], "130 hexadecimal digits"),
            ("secret", "not only"),
        ] {
            let failure = read(text).expect_err("a failure");
            assert_eq!(failure.kind, Kind::Usage);
            assert!(failure.message.contains(why), "{}", failure.message);
            assert!(!failure.message.contains(text.trim()) || text == "\n", "it tells the key");
        }
    }

    #[test]
    fn what_a_port_believes_others_by_is_read_from_its_files() {
        let top = std::env::temp_dir().join(format!("weftctl-key-{}", std::process::id()));
        let dir = top.join("weft0/device/manager");
        fs::create_dir_all(&dir).expect("a folder");
        fs::create_dir_all(top.join("weft1/device")).expect("a folder");
        let say = |name: &str, text: &str| fs::write(dir.join(name), text).expect("a file");
        say("authenticated", "fabric+key\n");
        say("messages_refused", "7\n");
        say("key_mismatch", "differs\n");
        say("key_mismatch_hwid", "0x0000000000000002\n");
        let manager = Manager::below(&top, Path::new("/dev/weft0")).expect("a manager");
        let now = manager.authentication().expect("it is there");
        assert_eq!(now.authenticated, ["fabric", "key"]);
        assert_eq!((now.messages_refused, now.key_mismatch.as_str()), (7, "differs"));
        assert_eq!(now.key_mismatch_hwid.as_deref(), Some("0x0000000000000002"));
        say("authenticated", "nothing\n");
        say("key_mismatch", "none\n");
        let now = manager.authentication().expect("it is there");
        assert!(now.authenticated.is_empty() && now.key_mismatch_hwid.is_none());
        let text = "ab".repeat(32);
        manager.set(&Key::read(text.as_bytes(), "x").expect("a key")).expect("it is set");
        assert_eq!(fs::read_to_string(dir.join("key")).expect("it is there"), text);
        manager.clear().expect("it is cleared");
        assert_eq!(fs::read_to_string(dir.join("key")).expect("it is there"), "\n");
        let none = Manager::below(&top, Path::new("/dev/weft1")).err().expect("no manager");
        assert_eq!(none.kind, Kind::Usage);
        let none = Manager::below(&top, Path::new("/dev/weft2")).err().expect("no port");
        assert_eq!(none.kind, Kind::NoDevice);
        fs::remove_dir_all(top).expect("it goes");
    }
}
