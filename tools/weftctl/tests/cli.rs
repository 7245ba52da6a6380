// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The program on a host without ports: exit statuses, messages, JSON.

#![allow(clippy::expect_used)]

use std::path::Path;
use std::process::{Command, Output};

fn weftctl(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weftctl"));
    command.args(words).output().expect("weftctl runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Has to end with `status` and to say all of `words`, in plain language.
fn refused(words: &[&str], status: i32, wanted: &[&str]) {
    let output = weftctl(words);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {said}");
    for word in wanted {
        assert!(said.contains(word), "{words:?} does not say {word:?}: {said}");
    }
    for ugly in ["panicked", "os error", "Error {"] {
        assert!(!said.contains(ugly), "{words:?}: {said}");
    }
}

/// A port that no host has.
const MISSING: &str = "/dev/weft4000000";

const COMMANDS: [&[&str]; 16] = [
    &["list"],
    &["show"],
    &["ports"],
    &["send", "/proc/self/status"],
    &["recv", "/"],
    &["ping"],
    &["ping", "--serve"],
    &["wait"],
    &["vf"],
    &["tree"],
    &["tree", "--vh"],
    &["assign", "ep1", "rc1"],
    &["withdraw", "ep1.0"],
    &["assignments"],
    &["slots"],
    &["announce", "s1", "2"],
];

#[test]
fn without_the_port_every_command_says_how_to_get_it() {
    for words in COMMANDS {
        let all = [&["--port", MISSING], words].concat();
        refused(&all, 3, &[MISSING, "module", "lspci -d 1234:7ef7"]);
    }
    refused(&["show", MISSING], 3, &[MISSING, "module"]);
    refused(&["--port", "weft4000000", "list"], 3, &[MISSING]);
}

#[test]
fn without_the_module_every_command_says_how_to_load_it() {
    let names = std::fs::read_dir("/dev").expect("/dev").filter_map(Result::ok);
    let ports = names.filter(|entry| entry.file_name().to_string_lossy().starts_with("weft"));
    if Path::new("/sys/module/weft").exists() || ports.count() > 0 {
        // Such a host is not without.
        return;
    }
    for words in COMMANDS {
        refused(words, 3, &["/dev/weft*", "modprobe weft", "insmod weft.ko"]);
    }
}

#[test]
fn what_is_not_a_port_is_no_port() {
    refused(&["--port", "/dev/null", "show"], 3, &["/dev/null"]);
}

#[test]
fn a_source_that_cannot_be_sent_is_named() {
    refused(&["send", "/nowhere/file"], 1, &["/nowhere/file", "No such file"]);
    refused(&["send", "/proc"], 1, &["/proc", "regular file"]);
    let dir = tempfile::tempdir().expect("temporary directory");
    let fifo = dir.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("fifo");
    refused(&["send", fifo.to_str().expect("a path")], 1, &["regular file"]);
}

#[test]
fn wrong_arguments_are_named() {
    let cases: [(&[&str], &str); 25] = [
        (&["bogus"], "bogus"),
        (&[], "Usage"),
        (&["send"], "FILE"),
        (&["send", "f", "--to", "zero"], "zero"),
        (&["send", "f", "--to", "0"], "hardware id"),
        (&["send", "f", "--service", "0"], "service"),
        (&["send", "f", "--timeout", "-1"], "-1"),
        (&["recv", "--once", "--count", "2"], "--count"),
        (&["recv", "d", "--output", "f"], "--output"),
        (&["ping", "--serve", "--count", "2"], "--count"),
        (&["wait", "--state", "up"], "up"),
        (&["list", "--port", "x"], "weftN"),
        (&["events", "--count", "0"], "--count"),
        (&["ports", "--watch", "0"], "0.1 seconds"),
        (&["vf", "set", "0", "0"], "NAME=VALUE"),
        (&["vf", "set", "0", "0", "state=1"], "apertures"),
        (&["vf", "set", "0", "0", "bytes=8Q"], "8Q"),
        (&["vf", "set", "0", "0", "slots=1", "slots=2"], "twice"),
        (&["assign", "ep1"], "HOST"),
        (&["assign", "ep1", "rc1", "--no-wait", "--timeout", "1"], "--no-wait"),
        (&["withdraw"], "ENDPOINT"),
        (&["assignments", "--save", "f", "--restore", "f"], "--restore"),
        (&["tree", "--svg", "--vh"], "--vh"),
        (&["announce", "s1"], "PORT"),
        (&["announce", "s1", "first"], "first"),
    ];
    for (words, wanted) in cases {
        refused(words, 2, &[wanted]);
    }
}

#[test]
fn failures_are_json_as_well() {
    let output = weftctl(&["--json", "--port", MISSING, "list"]);
    assert_eq!(output.status.code(), Some(3));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["ok"], false);
    assert_eq!(json["status"], 3);
    assert!(json["error"].as_str().expect("error").contains(MISSING));
    assert!(json["hint"].as_str().expect("hint").contains("lspci"));

    // Each file that fails has an object of its own.
    let output = weftctl(&["--json", "send", "/nowhere/a", "/nowhere/b"]);
    assert_eq!(output.status.code(), Some(1));
    let lines = text(&output.stdout);
    let files: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let names: Vec<_> = files.iter().map(|f| f["file"].as_str().expect("a name")).collect();
    assert_eq!(names, ["/nowhere/a", "/nowhere/b"]);
}

#[test]
fn exit_statuses_are_in_the_help() {
    let output = weftctl(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for status in
        ["0 done", "1 failed", "2 wrong usage", "3 no port", "4 permission", "5 peer", "6 "]
    {
        assert!(help.contains(status), "{status}: {help}");
    }
}
