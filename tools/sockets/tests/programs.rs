// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Programs under `weft-run`, on this machine alone: as TCP, since there is no transport, and moved, with AF_UNIX in the
//! place of AF_VSOCK (`examples/vsock_stub.rs`). What they do stands in `programs.py`, which is also run without the
//! library: it asks for nothing that TCP does not do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RUN: &str = env!("CARGO_BIN_EXE_weft-run");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs.py");
const HOSTS: &str = "127.0.0.2 2\n127.0.0.3 1 # what connects\n";

/// `weft-run` with the library as it is built for tests.
fn weft_run() -> Command {
    let mut command = Command::new(RUN);
    command.arg("--library").arg(Path::new(RUN).with_file_name("deps").join("libweft_sockets.so"));
    command
}

fn stub() -> PathBuf {
    let path = Path::new(RUN).with_file_name("examples").join("libvsock_stub.so");
    assert!(path.exists(), "{} is built by `cargo test` without --test", path.display());
    path
}

/// Runs a program in its three ways, the last of them with one more word, and returns what was explained then.
fn three_ways(program: &[&str]) -> String {
    let done = |output: Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{program:?}: {said}{}",
            String::from_utf8_lossy(&output.stdout)
        );
        said
    };
    done(Command::new(program[0]).args(&program[1..]).output().unwrap());
    done(weft_run().args(program).output().unwrap());

    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    std::fs::write(&hosts, HOSTS).unwrap();
    let mut command = weft_run();
    command.arg("--explain").arg("--hosts").arg(hosts).args(program).arg("moved");
    done(command.env("LD_PRELOAD", stub()).env("VSOCK_STUB", dir.path()).output().unwrap())
}

fn script(part: &str) -> String {
    three_ways(&["python3", SCRIPT, part])
}

#[test]
fn data_names_and_options_are_those_of_tcp() {
    let said = script("carries");
    assert!(said.contains(": moved to CID 4098"), "{said}");
    assert!(said.contains("stays TCP: other hosts cannot have this address"), "{said}");
    assert!(said.contains("over AF_VSOCK, from CID 4097"), "{said}");
}

#[test]
fn what_is_accepted_is_as_of_tcp() {
    script("accepted");
}

#[test]
fn a_port_where_nothing_listens_refuses() {
    assert!(script("refused").contains("stays TCP: nothing listens on that port of AF_VSOCK"));
}

#[test]
fn what_listens_for_this_host_alone_is_not_moved() {
    let said = script("tcp_alone");
    assert!(said.contains("listen 127.0.0.1:") && said.contains("stays TCP"), "{said}");
}

#[test]
fn sockets_that_do_not_block_work_with_poll_and_epoll() {
    script("nonblocking");
}

#[test]
fn copies_and_flags_of_what_listens() {
    script("copies");
}

#[test]
fn sockets_that_are_known_twice_stay_what_they_are() {
    let said = script("known_twice");
    assert!(
        said.contains("in several epoll sets") && said.contains("another descriptor is the same"),
        "{said}"
    );
}

#[test]
fn what_is_closed_all_at_once_is_not_closed_twice() {
    script("ranges");
}

#[test]
fn servers_of_several_processes() {
    script("forks");
}

#[test]
fn sockets_outlive_exec() {
    script("execs");
}

#[test]
fn signals_end_a_call_or_not() {
    script("signals");
}

#[test]
fn threads_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("cancel");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cancel.c");
    let built =
        Command::new("cc").args(["-o", program.to_str().unwrap(), source]).status().unwrap();
    assert!(built.success());
    let said = three_ways(&[program.to_str().unwrap()]);
    assert!(said.contains("on AF_VSOCK, too"), "{said}");
}

fn run(words: &[&str]) -> (i32, String) {
    let output = weft_run().args(words).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn weft_run_ends_as_the_program_does_and_hands_its_arguments_on() {
    assert_eq!(run(&["sh", "-c", "exit 7"]), (7, String::new()));
    let output = weft_run().args(["sh", "-c", "echo $0 $LD_PRELOAD", "--help"]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.starts_with("--help /") && said.trim_end().ends_with("libweft_sockets.so"),
        "{said}"
    );
}

#[test]
fn weft_run_says_what_cannot_be_run_or_takes_no_library() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8], mode| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let missing = dir.path().join("missing").to_str().unwrap().to_owned();
    let script = file("script", format!("#!{missing}\n").as_bytes(), 0o755);
    let text = file("text", b"hello\n", 0o755);
    let set = file("set", &std::fs::read("/bin/true").unwrap(), 0o755);
    std::os::unix::fs::chown(&set, Some(1), Some(1)).unwrap();
    std::fs::set_permissions(&set, std::fs::Permissions::from_mode(0o4755)).unwrap();
    for (words, status, wanted) in [
        (vec!["no-such-program"], 127, "there is no such program"),
        (vec![&missing], 127, "there is no such program"),
        (vec![&script], 126, "missing"),
        (vec![&text], 126, "neither a program of this machine nor a script"),
        (vec![&set], 126, "set-user-ID"),
        (vec![], 2, "PROGRAM"),
    ] {
        let (code, said) = run(&words);
        assert_eq!(code, status, "{words:?}: {said}");
        assert!(said.contains(wanted), "{words:?}: {said}");
    }
    let output = Command::new(RUN).args(["--library", &missing, "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&missing));
    // Debian's busybox-static, which guests boot from.
    if Path::new("/bin/busybox").exists() {
        let (code, said) = run(&["/bin/busybox", "true"]);
        assert_eq!(code, 126);
        assert!(said.contains("statically linked"), "{said}");
    }
}

#[test]
fn a_wait_that_is_no_number_leaves_connections_with_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let code = "import socket; a = socket.create_server(('127.0.0.1', 0)); \
                s = socket.socket(); s.connect(a.getsockname())";
    let explain = format!("--explain={}", log.display());
    let wait = ["env", "WEFT_SOCKETS_WAIT=soon", "python3", "-c", code];
    assert_eq!(run(&[&[&*explain], &wait[..]].concat()), (0, String::new()));
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("is no number of milliseconds"), "{said}");
}

#[test]
fn ports_that_are_not_named_stay_tcp() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let code = "import socket; s = socket.socket(); s.bind(('', 0)); s.listen()";
    let explain = format!("--explain={}", log.display());
    for (list, wanted) in [("1,2-3", "does not name its port"), ("x", "is no list of ports")] {
        assert_eq!(run(&[&explain, "--ports", list, "python3", "-c", code]), (0, String::new()));
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(said.contains(wanted), "{said}");
    }
}
