// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A daemon in a directory of its own, and ports that are no QEMU: real sockets,
//! memfds and eventfds. Everything waits for what it expects, up to a deadline
//! that only a failure reaches.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod pcim;
pub mod queue;
pub mod world;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg,
    sendmsg, socket_with,
};
use serde_json::Value;
use std::io::{BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use weft_fabric::wire::{PACKET_BYTES, Packet, abi::*};

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const RAM: u64 = 1 << 20;

pub const TWO: &str = r#"
host = [{ name = "h1", hwid = 11, blade = "A" }, { name = "h2" }]
link = [{ ends = ["h1:0", "h2:1"], speed = 5, width = 16 }]
"#;

/// A running daemon, killed when dropped.
pub struct Daemon {
    pub child: Child,
    pub dir: PathBuf,
    _temp: TempDir,
}

pub fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft-fabric"));
    command.args(args).stdin(Stdio::null());
    command
}

impl Daemon {
    pub fn start(topology: &str) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("fabric");
        std::fs::write(temp.path().join("topology.toml"), topology).unwrap();
        Daemon { child: Self::spawn(&dir), dir, _temp: temp }
    }

    /// Another one in the same directory, after the death of this one.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = Self::spawn(&self.dir);
    }

    fn spawn(dir: &Path) -> Child {
        let mut child = command(&["run"])
            .arg(dir.with_file_name("topology.toml"))
            .arg("--dir")
            .arg(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }

    pub fn cli(&self, args: &[&str]) -> Output {
        command(args).arg("--dir").arg(&self.dir).output().unwrap()
    }

    /// Output of a command that must succeed, as JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let out = self.cli(&[args, &["--json"]].concat());
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).unwrap()
    }

    pub fn events(&self) -> Events {
        let stream = UnixStream::connect(self.dir.join("control.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        (&stream).write_all(b"{\"command\":\"events\"}\n").unwrap();
        let mut events = Events(BufReader::new(stream));
        assert_eq!(events.next()["ok"], "done");
        events
    }

    /// Open descriptors of the daemon.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    pub fn alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The daemon's events from now on.
pub struct Events(BufReader<UnixStream>);

impl Events {
    pub fn next(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Skips to the next event of this name.
    pub fn until(&mut self, name: &str) -> Value {
        loop {
            let event = self.next();
            if event["event"] == name {
                return event;
            }
        }
    }
}

/// A memfd as QEMU makes it.
pub fn memory(bytes: u64) -> OwnedFd {
    let fd = memfd_create("weft-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    fd
}

pub fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap()
}

/// Something received.
pub struct Got {
    pub packet: Packet,
    pub fds: Vec<OwnedFd>,
}

/// A connection to `port.sock`.
pub struct Port {
    pub fd: OwnedFd,
    pub fds: Vec<OwnedFd>,
}

impl Port {
    pub fn connect(daemon: &Daemon) -> Self {
        let flags = SocketFlags::CLOEXEC;
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
        let addr = SocketAddrUnix::new(daemon.dir.join("port.sock")).unwrap();
        connect(&fd, &addr).unwrap();
        Port { fd, fds: vec![memory(RAM), memory(WEFT_FAB_DOORBELL_BYTES.into()), event()] }
    }

    pub fn hello_packet(name: &str) -> Packet {
        Packet {
            kind: WEFT_FAB_HELLO,
            arg: [WEFT_FAB_VERSION.into(), 0, RAM, 0, 0, 0],
            data: name.into(),
            ..Packet::default()
        }
    }

    /// Connected and welcomed; the WELCOME comes along.
    pub fn join(daemon: &Daemon, name: &str) -> (Self, Packet) {
        let port = Port::connect(daemon);
        port.send_with(&Port::hello_packet(name), &port.fds.iter().collect::<Vec<_>>());
        let welcome = port.expect(WEFT_FAB_WELCOME);
        (port, welcome)
    }

    pub fn enable(&self) {
        self.say(WEFT_FAB_ENABLE, 0, [1, 0, 0, 0, 0, 0], &[]);
    }

    pub fn say(&self, kind: u32, link: u16, arg: [u64; 6], data: &[u8]) {
        self.send_with(&Packet { kind, link, arg, data: data.to_vec() }, &[]);
    }

    pub fn send_with(&self, packet: &Packet, fds: &[&OwnedFd]) {
        self.send_raw(&packet.encode(), fds).unwrap();
    }

    pub fn send_raw(&self, bytes: &[u8], fds: &[&OwnedFd]) -> Result<usize, Errno> {
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        sendmsg(&self.fd, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    }

    /// The next message; `None` at the end of the connection.
    pub fn receive(&self) -> Option<Got> {
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        let time = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        assert_ne!(poll(&mut fds, Some(&time)).unwrap(), 0, "nothing came");
        let mut bytes = [0; PACKET_BYTES + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(
            &self.fd,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        let got = match got {
            Ok(got) if got.bytes > 0 => got,
            Ok(_) | Err(Errno::CONNRESET) => return None,
            Err(e) => panic!("{e}"),
        };
        let fds = control.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => vec![],
        });
        let fds = fds.collect();
        Some(Got { packet: Packet::decode(&bytes[..got.bytes]).unwrap(), fds })
    }

    /// Skips to the next message of this type.
    pub fn expect_with_fds(&self, kind: u32) -> Got {
        loop {
            let got = self.receive().unwrap_or_else(|| panic!("closed before message {kind}"));
            if got.packet.kind == kind {
                return got;
            }
        }
    }

    pub fn expect(&self, kind: u32) -> Packet {
        self.expect_with_fds(kind).packet
    }

    /// Skips to the end of the connection; the last message before it.
    pub fn expect_end(&self) -> Option<Packet> {
        let mut last = None;
        while let Some(got) = self.receive() {
            last = Some(got.packet);
        }
        last
    }
}

/// h1 and h2 of [`TWO`] with their link up.
pub fn linked(daemon: &Daemon) -> (Port, Port) {
    let (h1, _) = Port::join(daemon, "h1");
    let (h2, _) = Port::join(daemon, "h2");
    h1.enable();
    h2.enable();
    h1.expect(WEFT_FAB_LINK_UP);
    h2.expect(WEFT_FAB_LINK_UP);
    (h1, h2)
}

/// Data of an INBOUND with one segment.
pub fn segment(offset: u64, len: u64) -> Vec<u8> {
    [offset.to_ne_bytes(), len.to_ne_bytes()].concat()
}
