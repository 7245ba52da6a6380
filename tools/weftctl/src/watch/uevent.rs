// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The kernel's own events: a socket on which it tells everybody what comes, goes
//! and changes, and which of that is about Weft.

use super::event::What;
use super::object::Object;
use crate::diagnose::collect::IDS;
use crate::diagnose::snapshot::Family;
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recvfrom, socket_with};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The group of the kernel itself; udev has another.
const KERNEL: u32 = 1;
/// More than the kernel puts into one.
const LARGEST: usize = 16 << 10;

/// An event, as the kernel sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uevent {
    action: String,
    env: BTreeMap<String, String>,
}

/// What was read from the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// An event.
    Event(Uevent),
    /// Some came faster than they were read, and are lost.
    Lost,
}

/// The socket.
pub struct Socket(OwnedFd);

impl Socket {
    /// Listens. Every user may, but not in a network namespace of its own.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::DGRAM;
        let socket = socket_with(AddressFamily::NETLINK, kind, flags, Some(KOBJECT_UEVENT))?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL))?;
        Ok(Socket(socket))
    }

    /// The next event; `None`: there is none yet.
    pub fn next(&self) -> io::Result<Option<Heard>> {
        let mut bytes = [0; LARGEST];
        loop {
            match recvfrom(&self.0, &mut bytes[..], RecvFlags::empty()) {
                Ok((length, _, from)) => {
                    let from = from.and_then(|from| SocketAddrNetlink::try_from(from).ok());
                    // A program with the rights can send to the group, too.
                    let kernel = from.is_some_and(|from| from.pid() == 0);
                    let message = bytes.get(..length).filter(|_| kernel);
                    if let Some(event) = message.and_then(parse) {
                        return Ok(Some(Heard::Event(event)));
                    }
                }
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => return Ok(Some(Heard::Lost)),
                Err(e) => return Err(e.into()),
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// "action@path", then "NAME=VALUE", each with a zero byte behind it.
fn parse(message: &[u8]) -> Option<Uevent> {
    let mut texts = message.split(|b| *b == 0).map(String::from_utf8_lossy);
    let head = texts.next()?;
    let (action, _) = head.split_once('@')?;
    let pair = |text: std::borrow::Cow<'_, str>| {
        let (name, value) = text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    Some(Uevent { action: action.to_owned(), env: texts.filter_map(pair).collect() })
}

impl Uevent {
    fn get(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// What of Weft it is about, if it is.
    fn object(&self) -> Option<Object> {
        match self.get("SUBSYSTEM")? {
            "weft" => Some(Object::Port(self.get("DEVNAME")?.rsplit('/').next()?.to_owned())),
            "module" => (self.get("DEVPATH")? == "/module/weft").then_some(Object::Module),
            "pci" => {
                let driver = self.get("DRIVER").unwrap_or_default();
                let ours = [Family::Weft, Family::Ivshmem].iter().any(|f| f.driver() == driver);
                let id = self.get("PCI_ID").unwrap_or_default();
                let known = IDS.iter().any(|(vendor, device, family)| {
                    *family == Family::Weft && format!("{vendor:04X}:{device:04X}") == id
                });
                let address = self.get("PCI_SLOT_NAME")?.to_owned();
                (ours || known).then_some(Object::Function(address))
            }
            _ => None,
        }
    }

    /// What happened to what, if it is about Weft.
    pub fn told(&self) -> Option<(Object, What)> {
        let ours = self.env.iter().filter(|(name, _)| name.starts_with("WEFT_"));
        let says = ours.map(|(name, value)| (name.clone(), value.clone())).collect();
        Some((self.object()?, What::Kernel { action: self.action.clone(), says }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(message: &str) -> Option<String> {
        let (object, what) = parse(message.replace('|', "\0").as_bytes())?.told()?;
        let What::Kernel { action, says } = what else { return None };
        Some(format!("{object} {action} {says:?}"))
    }

    #[test]
    fn what_is_about_weft_is_told() {
        let cases = [
            (
                "add@/devices/x/weft/weft0|ACTION=add|SUBSYSTEM=weft|DEVNAME=weft0|MAJOR=240|",
                Some("weft0 add {}"),
            ),
            (
                "change@/devices/x|SUBSYSTEM=pci|PCI_ID=1234:7EF7|PCI_SLOT_NAME=0000:01:00.0|WEFT_HWID=0x7|",
                Some("0000:01:00.0 change {\"WEFT_HWID\": \"0x7\"}"),
            ),
            (
                "bind@/devices/x|SUBSYSTEM=pci|DRIVER=weft-ivshmem|PCI_ID=1AF4:1110|PCI_SLOT_NAME=0000:02:00.0|",
                Some("0000:02:00.0 bind {}"),
            ),
            ("add@/module/weft|SUBSYSTEM=module|DEVPATH=/module/weft|", Some("weft.ko add {}")),
            ("add@/module/weftx|SUBSYSTEM=module|DEVPATH=/module/weftx|", None),
            ("bind@/devices/x|SUBSYSTEM=pci|DRIVER=e1000|PCI_ID=8086:100E|PCI_SLOT_NAME=0|", None),
            ("libudev|SUBSYSTEM=weft|DEVNAME=weft0|", None),
            ("add@x", None),
            ("", None),
        ];
        for (message, wanted) in cases {
            assert_eq!(told(message).as_deref(), wanted, "{message}");
        }
    }
}
