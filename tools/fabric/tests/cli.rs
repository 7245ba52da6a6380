// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The command line: exit statuses, JSON, and what it says when it fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../completion/check.rs"]
#[allow(dead_code)]
mod check;
mod common;

use common::{Daemon, Port, TWO, command, linked};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Output, Stdio};
use weft_fabric::control::COUNTERS;
use weft_fabric::wire::abi::*;

const PROGRAM: &str = env!("CARGO_BIN_EXE_weft-fabric");

fn status(out: &Output) -> i32 {
    out.status.code().expect("it was not killed")
}

fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

fn stdout(out: &Output) -> String {
    String::from_utf8(out.stdout.clone()).unwrap()
}

#[test]
fn wrong_usage_is_2_with_help_at_hand() {
    for args in [
        &["no-such-command"][..],
        &[],
        &["link", "set", "h1:0"],
        &["link", "set", "h1:0", "--speed", "x"],
        &["trace", "h1", "maybe"],
        &["adversarial", "h1", "on", "--seed", "x"],
        &["wait", "--timeout", "-1"],
        &["inject"],
        &["inject", "mailbox", "h1:0"],
        &["inject", "flap", "h1:0", "--count", "-1"],
        &["inject", "clear", "all"],
        &["run"],
    ] {
        let out = command(args).output().unwrap();
        assert_eq!(status(&out), 2, "{args:?}");
        assert!(stderr(&out).contains("--help"), "{args:?}: {}", stderr(&out));
    }
    for args in [&["--help"][..], &["run", "--help"], &["link", "set", "--help"], &["--version"]] {
        assert_eq!(status(&command(args).output().unwrap()), 0);
    }
}

#[test]
fn no_daemon_is_3_and_says_how_to_start_one() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().to_str().unwrap();
    for args in [
        &["status"][..],
        &["link", "down", "h1:0"],
        &["trace", "h1", "on"],
        &["counters", "h1"],
        &["host", "list"],
        &["wait"],
        &["events"],
        &["inject", "list"],
        &["inject", "all-ones", "h1"],
        &["stop"],
    ] {
        let out = command(args).args(["--dir", dir, "--json"]).output().unwrap();
        assert_eq!(status(&out), 3, "{args:?}");
        assert!(stderr(&out).contains("weft-fabric run TOPOLOGY --dir"));
        let told: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(told["ok"], false);
        assert!(told["error"].as_str().unwrap().contains(dir));
    }
}

#[test]
fn the_directory_is_that_of_the_user_by_default() {
    let temp = tempfile::tempdir().unwrap();
    let out = command(&["status"]).env("XDG_RUNTIME_DIR", temp.path()).output().unwrap();
    assert!(stderr(&out).contains(temp.path().join("weft-fabric").to_str().unwrap()));
    let out = command(&["status"]).env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert!(stderr(&out).contains("/run/weft-fabric"));
}

#[test]
fn check_names_file_line_and_remedy() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("t.toml");
    let file = file.to_str().unwrap();
    std::fs::write(file, TWO).unwrap();
    let out = command(&["check", file]).output().unwrap();
    assert_eq!(status(&out), 0);
    assert!(stdout(&out).contains("hosts: 2"));
    let out = command(&["check", file, "--json"]).output().unwrap();
    let told: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&told["ok"], &told["links"]), (&json!(true), &json!([["h1:0", "h2:1"]])));

    std::fs::write(file, "[[host]]\nname = \"a\"\n[[link]]\nends = [\"a:0\", \"b:0\"]\n").unwrap();
    let out = command(&["check", file]).output().unwrap();
    assert_eq!(status(&out), 1);
    assert!(
        stdout(&out).starts_with(&format!("{file}:3: link a:0--b:0: no host, endpoint or switch"))
    );
    let out = command(&["check", file, "--json"]).output().unwrap();
    assert_eq!(status(&out), 1);
    let told: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&told["ok"], &told["problems"][0]["line"]), (&json!(false), &json!(3)));
    let out = command(&["run", file, "--dir"]).arg(temp.path().join("d")).output().unwrap();
    assert_eq!(status(&out), 1);
    assert!(stderr(&out).contains(&format!("weft-fabric: {file}:3: link a:0--b:0: ")));
    let out = command(&["check", "/no/such/file"]).output().unwrap();
    assert_eq!(status(&out), 1);

    // What is said of the whole file has no line.
    std::fs::write(file, "").unwrap();
    let out = command(&["check", file]).output().unwrap();
    assert_eq!(stdout(&out), format!("{file}: no host is named; add [[host]] with a name\n"));
    assert_eq!(stderr(&out), format!("weft-fabric: {file}: 1 problem\n"));
}

const SHARED: &str = r#"
    host = [{ name = "h1" }, { name = "h2" }]
    switch = [{ name = "s1", ports = 12, routes = true }]
    endpoint = [{ name = "ep1", kind = "copy", ves = 2 }]
    link = [
        { ends = ["h1:0", "s1:0"] },
        { ends = ["h2:0", "s1:11"] },
        { ends = ["s1:2", "ep1:0"] },
    ]
"#;

#[test]
fn an_endpoint_or_a_switch_in_place_of_a_host_is_refused_by_name() {
    let daemon = Daemon::start(SHARED);
    for (args, why) in [
        (&["trace", "ep1", "on"][..], "ep1 is an endpoint, which has no device of QEMU's"),
        (&["adversarial", "ep1", "on"], "name a host: h1, h2"),
        (&["counters", "ep1"], "ep1 is an endpoint"),
        (&["inject", "dma-error", "ep1"], "ep1 is an endpoint"),
        (&["inject", "flap", "h1:0"], "h1:0: faults are of links between two hosts"),
        (&["inject", "flap", "s1:2"], "weft-fabric link down s1:2 switches the cable off"),
        (&["inject", "flap", "x:0"], "no host, endpoint or switch is called \"x\""),
        (&["route", "set", "ep1", "3", "1"], "ep1 is an endpoint, which has the tables"),
        (&["vp", "show", "h1"], "h1 is a host; VP tables are those of switches"),
        (&["vp", "show", "ep1"], "ep1 is an endpoint; VP tables"),
        (&["plug", "ep1"], "weft-fabric unplug ep1 pulls it out"),
    ] {
        let out = daemon.cli(args);
        assert_eq!(status(&out), 1, "{args:?}");
        assert!(stderr(&out).contains(why), "{args:?}: {}", stderr(&out));
    }
    assert_eq!(daemon.json(&["inject", "list"])["faults"], json!([]));
    for (node, said) in [("h1", "host h1, "), ("ep1", "endpoint ep1, "), ("s1", "switch s1, ")] {
        assert!(stdout(&daemon.cli(&["route", "show", node])).starts_with(said));
    }
}

#[test]
fn completion_offers_what_the_topology_names() {
    let daemon = Daemon::start(SHARED);
    let dir = daemon.dir.to_str().unwrap().to_owned();
    for (words, begun, wanted) in [
        (&["plug"][..], "", &["h1", "h2", "s1", "ep1"][..]),
        (&["inject", "all-ones"], "", &["h1", "h2"]),
        (&["route", "walk"], "h", &["h1", "h2"]),
        (&["vp", "show"], "", &["s1"]),
        (&["route", "show"], "e", &["ep1"]),
        (&["link", "down"], "s1:1", &["s1:11"]),
    ] {
        let line: Vec<_> = ["weft-fabric", "--dir", &dir].iter().chain(words).copied().collect();
        let mut offered = check::bash_offers(Path::new(PROGRAM), &line, begun);
        let mut wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
        offered.sort();
        wanted.sort();
        assert_eq!(offered, wanted, "{words:?} {begun}");
    }
}

#[test]
fn status_shows_hosts_and_links_before_and_after() {
    let daemon = Daemon::start(TWO);
    let before = daemon.json(&["status"]);
    assert_eq!(before["nodes"][0]["name"], "h1");
    assert_eq!(before["nodes"][0]["hwid"], 11);
    assert_eq!(before["nodes"][0]["connected"], false);
    assert_eq!(before["links"][0]["why_down"], "h1 is not connected");
    let (h1, _h2) = linked(&daemon);
    let after = daemon.json(&["status"]);
    let generation = after["nodes"][0]["generation"].as_u64().unwrap();
    assert!(generation > 0);
    assert_eq!(after["nodes"][0]["enabled"], true);
    assert_eq!(
        after["links"][0],
        json!({
            "ends": ["h1:0", "h2:1"], "via": [], "up": true, "why_down": null,
            "speed": 5, "width": 16, "max_speed": 5, "max_width": 16,
        })
    );
    let text = stdout(&daemon.cli(&["status"]));
    assert!(text.contains("h1:0 ==== gen5 x16 ==== h2:1"), "{text}");
    assert!(text.contains(&generation.to_string()), "{text}");
    assert!(stdout(&daemon.cli(&["host", "list"])).contains("h1    11"));
    assert_eq!(daemon.json(&["host", "list"])[0]["blade"], "A");
    drop(h1);
}

#[test]
fn links_are_switched_and_limited() {
    let daemon = Daemon::start(TWO);
    let (h1, h2) = linked(&daemon);
    daemon.json(&["link", "set", "h1:0", "--speed", "3", "--width", "4"]);
    let info = h1.expect(WEFT_FAB_LINK_INFO);
    assert_eq!(info.arg, [3, 4, 0, 1, 5, 16]);
    assert_eq!(h2.receive().unwrap().packet.kind, WEFT_FAB_LINK_INFO, "the link stayed up");
    let cable = &daemon.json(&["status"])["cables"][0];
    assert_eq!((&cable["speed"], &cable["max_speed"]), (&json!(3), &json!(5)));

    daemon.json(&["link", "down", "h2:1"]);
    h1.expect(WEFT_FAB_LINK_DOWN);
    let text = stdout(&daemon.cli(&["status"]));
    assert!(text.contains("h1:0--h2:1 is switched off"), "{text}");
    daemon.json(&["link", "up", "h2:1"]);
    let up = h1.expect(WEFT_FAB_LINK_UP);
    assert_eq!(up.arg[..2], [3, 4]);

    for (args, why) in [
        (&["link", "set", "h1:0", "--speed", "6"][..], "1 to 5"),
        (&["link", "set", "h1:0", "--width", "3"], "1, 2, 4, 8, 16"),
        (&["link", "set", "h1:0", "--power", "auto"], "links without a host"),
        (&["link", "down", "h1:3"], "no link ends at h1:3"),
        (&["link", "down", "h7:0"], "called \"h7\""),
        (&["link", "down", "h1"], "NODE:PORT"),
        (&["trace", "h7", "on"], "called \"h7\""),
        (&["adversarial", "h7", "on"], "called \"h7\""),
        (&["wait", "h7"], "called \"h7\""),
    ] {
        let out = daemon.cli(args);
        assert_eq!(status(&out), 1, "{args:?}");
        assert!(stderr(&out).contains(why), "{args:?}: {}", stderr(&out));
    }
}

#[test]
fn switches_between_hosts_are_shown_and_slow_the_link() {
    let daemon = Daemon::start(
        r#"
        host = [{ name = "h1" }, { name = "h2" }]
        switch = [{ name = "s1", ports = 4 }]
        link = [
            { ends = ["h1:0", "s1:0"], speed = 5, width = 4 },
            { ends = ["s1:3", "h2:1"], speed = 3, width = 16, state = "down" },
        ]
        "#,
    );
    let (h1, _) = Port::join(&daemon, "h1");
    let (h2, _) = Port::join(&daemon, "h2");
    h1.enable();
    h2.enable();
    daemon.json(&["link", "up", "s1:3"]);
    assert_eq!(h2.expect(WEFT_FAB_LINK_UP).arg[..3], [3, 4, 1]);
    let text = stdout(&daemon.cli(&["status"]));
    assert!(text.contains("h1:0 ====( s1 )==== gen3 x4 ==== h2:1"), "{text}");
}

#[test]
fn a_link_between_switches_is_shown_to_follow_its_traffic() {
    let daemon = Daemon::start(
        r#"
        host = [{ name = "h1" }]
        switch = [{ name = "s1", ports = 4, routes = true }, { name = "s2", ports = 4, routes = true }]
        link = [
            { ends = ["h1:0", "s1:0"] },
            { ends = ["s1:1", "s2:1"], power = "auto" },
        ]
        "#,
    );
    let line = "  cable s1:1--s2:1: gen4 x8 of gen4 x8, as its traffic asks\n";
    let text = stdout(&daemon.cli(&["status"]));
    assert!(text.contains(line), "{text}");
    daemon.json(&["link", "set", "s2:1", "--power", "performance", "--speed", "3"]);
    let status = daemon.json(&["status"]);
    assert_eq!(status["cables"][1]["power"], "performance");
    assert_eq!(
        (&status["links"][1]["speed"], &status["links"][1]["width"]),
        (&json!(3), &json!(8))
    );
    assert!(!stdout(&daemon.cli(&["status"])).contains("as its traffic asks"));
}

#[test]
fn counters_are_asked_of_the_port() {
    let daemon = Daemon::start(TWO);
    let out = daemon.cli(&["counters", "h1"]);
    assert_eq!(status(&out), 1);
    assert!(stderr(&out).contains("h1 is not connected"));

    let (h1, _) = Port::join(&daemon, "h1");
    let ask = |args: &[&str]| {
        let child = command(args)
            .arg("--dir")
            .arg(&daemon.dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        (child, h1.expect(WEFT_FAB_COUNTERS_GET))
    };
    let answer = |request: u64, values: &[u64]| {
        let data: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        h1.say(WEFT_FAB_COUNTERS, 0, [request, 0, 0, 0, 0, 0], &data);
    };
    let values: Vec<u64> = (0..COUNTERS.len() as u64).map(|n| n * n).collect();

    let (child, get) = ask(&["counters", "h1", "--json", "--clear"]);
    assert_eq!(get.arg[1], 1);
    // One to the request of another does not count.
    answer(get.arg[0] + 1, &[1; WEFT_COUNTERS as usize]);
    answer(get.arg[0], &values);
    let out = child.wait_with_output().unwrap();
    let told: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(told["node"], "h1");
    for (n, name) in COUNTERS.iter().enumerate() {
        assert_eq!(told["counters"][name], values[n], "{name}");
    }

    let (child, get) = ask(&["counters", "h1"]);
    assert_eq!(get.arg[1], 0);
    answer(get.arg[0], &values);
    let text = stdout(&child.wait_with_output().unwrap());
    assert!(text.contains("remaps                    196"), "{text}");

    let (child, get) = ask(&["counters", "h1"]);
    answer(get.arg[0], &values[1..]);
    let out = child.wait_with_output().unwrap();
    assert_eq!(status(&out), 1);
    let short = format!("{} counters", COUNTERS.len() - 1);
    assert!(stderr(&out).contains(&short));

    // It takes the daemon's 8 s to give up on a port that is silent.
    let (child, _) = ask(&["counters", "h1"]);
    let out = child.wait_with_output().unwrap();
    assert_eq!(status(&out), 1);
    assert!(stderr(&out).contains("did not tell its counters in 8 s"));

    let (child, _) = ask(&["counters", "h1"]);
    drop(h1);
    let out = child.wait_with_output().unwrap();
    assert!(stderr(&out).contains("went away"), "{}", stderr(&out));
}

#[test]
fn faults_are_injected_listed_and_cleared() {
    let daemon = Daemon::start(TWO);
    let (h1, _h2) = linked(&daemon);
    assert_eq!(stdout(&daemon.cli(&["inject", "list"])), "no faults\n");
    assert_eq!(
        stdout(&daemon.cli(&["inject", "mailbox", "drop", "h1:0", "--every", "3"])),
        "fault 1\n"
    );
    assert_eq!(daemon.json(&["inject", "memory-gone", "h2"]), json!({"number": 2}));
    assert_eq!(
        daemon.json(&["inject", "list"])["faults"],
        json!([
            {"number": 1, "kind": "mailbox", "end": "h1:0", "does": "drop", "count": null,
             "every": 3, "left": null},
            {"number": 2, "kind": "memory_gone", "node": "h2", "left": null},
        ])
    );
    let text = stdout(&daemon.cli(&["inject", "list"]));
    assert!(text.contains("1       -     mailbox messages of h1:0 dropped, one in 3"), "{text}");
    let again = daemon.cli(&["inject", "memory-gone", "h2"]);
    assert_eq!(status(&again), 1);
    assert!(stderr(&again).contains("fault 2 does that already"), "{}", stderr(&again));
    let nowhere = daemon.cli(&["inject", "stuck-doorbell", "h1:3"]);
    assert!(stderr(&nowhere).contains("no link ends at h1:3"));
    let refused = daemon.cli(&["inject", "vpd", "h3"]);
    assert!(stderr(&refused).contains("no component is called h3"), "{}", stderr(&refused));
    let host = daemon.cli(&["inject", "stalled-endpoint", "h2"]);
    assert!(stderr(&host).contains("h2 is no endpoint"), "{}", stderr(&host));
    assert!(stderr(&daemon.cli(&["inject", "clear", "9"])).contains("there is no fault 9"));
    assert_eq!(daemon.json(&["inject", "clear", "1"]), json!({"ok": true}));
    assert_eq!(daemon.json(&["inject", "list"])["faults"][0]["number"], 2);
    assert_eq!(daemon.json(&["inject", "clear"]), json!({"ok": true}));
    assert_eq!(daemon.json(&["inject", "list"])["faults"], json!([]));
    drop(h1);
}

#[test]
fn wait_returns_when_it_has_come_true() {
    let daemon = Daemon::start(TWO);
    let out = daemon.cli(&["wait", "h1", "--timeout", "0.05"]);
    assert_eq!(status(&out), 1);
    assert_eq!(stderr(&out), "weft-fabric: timed out; h1 is not connected\n");
    // Longer than a second: what it waits for is said meanwhile.
    let out = daemon.cli(&["wait", "h1", "--timeout", "1.5"]);
    assert_eq!(status(&out), 1);
    let lines = ["waiting: h1 is not connected", "timed out; h1 is not connected"];
    let expected = lines.map(|line| format!("weft-fabric: {line}\n")).concat();
    assert_eq!(stderr(&out), expected);

    let waiter = |args: &[&str]| {
        let mut stream = UnixStream::connect(daemon.dir.join("control.sock")).unwrap();
        // Known to be waiting once the status, asked before, has been answered.
        stream.write_all(b"{\"command\":\"status\"}\n").unwrap();
        let nodes = serde_json::to_string(args).unwrap();
        let wait = format!("{{\"command\":\"wait\",\"nodes\":{nodes},\"links\":true}}\n");
        stream.write_all(wait.as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        reader.read_line(&mut String::new()).unwrap();
        reader
    };
    let mut waiting = waiter(&["h1"]);
    let (h1, _h2) = linked(&daemon);
    let mut line = String::new();
    waiting.read_line(&mut line).unwrap();
    assert_eq!(line, "{\"ok\":\"done\"}\n");
    assert_eq!(status(&daemon.cli(&["wait", "--links"])), 0);

    // A link that is switched off is not waited for, one that is down is.
    daemon.json(&["link", "down", "h1:0"]);
    assert_eq!(status(&daemon.cli(&["wait", "--links"])), 0);
    daemon.json(&["link", "up", "h1:0"]);
    h1.say(WEFT_FAB_ENABLE, 0, [0; 6], &[]);
    h1.expect(WEFT_FAB_LINK_DOWN);
    h1.expect(WEFT_FAB_LINK_UP);
    h1.expect(WEFT_FAB_LINK_DOWN);
    let out = daemon.cli(&["wait", "--links", "--timeout", "0"]);
    assert_eq!(status(&out), 1);
    assert!(stderr(&out).contains("h1 has not enabled its port"), "{}", stderr(&out));
}

#[test]
fn events_follow_what_happens() {
    let daemon = Daemon::start(TWO);
    let mut events = daemon.events();
    let (h1, _h2) = linked(&daemon);
    let connected = events.until("connected");
    assert_eq!((&connected["node"], &connected["hwid"]), (&json!("h1"), &json!(11)));
    assert!(connected["time_ms"].as_u64().unwrap() > 1_600_000_000_000);
    assert_eq!(events.until("link_up")["ends"], json!(["h1:0", "h2:1"]));
    h1.say(WEFT_FAB_RESET, 0, [0; 6], &[]);
    assert_eq!(events.until("link_down")["why"], "h1 was reset");
    assert_eq!(events.until("reset")["node"], "h1");
    drop(h1);
    assert_eq!(events.until("gone")["why"], "the connection ended");

    // The command shows the same, until the daemon ends.
    let mut child = command(&["events", "--json", "--dir"])
        .arg(&daemon.dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    // Until it is known to listen, there must be something to hear.
    while line.is_empty() {
        daemon.json(&["trace", "h2", "on"]);
        daemon.json(&["trace", "h2", "off"]);
        if !lines.fill_buf_now().is_empty() {
            lines.read_line(&mut line).unwrap();
        }
    }
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["event"], "trace");
    assert_eq!(status(&daemon.cli(&["stop"])), 0);
    lines.read_to_string(&mut line).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// What a pipe holds, without waiting for more.
trait Now {
    fn fill_buf_now(&mut self) -> &[u8];
}

impl Now for BufReader<std::process::ChildStdout> {
    fn fill_buf_now(&mut self) -> &[u8] {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let none = Timespec::default();
        let mut fds = [PollFd::new(self.get_ref(), PollFlags::IN)];
        if self.buffer().is_empty() && poll(&mut fds, Some(&none)).unwrap() == 0 {
            return &[];
        }
        self.fill_buf().unwrap()
    }
}

#[test]
fn requests_that_make_no_sense_are_answered() {
    let mut daemon = Daemon::start(TWO);
    let mut stream = UnixStream::connect(daemon.dir.join("control.sock")).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for line in ["", "{}", "[1]", "\u{0}", "{\"command\":\"dance\"}", "{\"command\":\"wait\"}"] {
        writeln!(stream, "{line}").unwrap();
        let mut answer = String::new();
        reader.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("{\"error\":\"not a request"), "{line}: {answer}");
    }
    // Longer than any request: refused, and the connection closed.
    let _ = stream.write_all(&[b'x'; 70_000]);
    let mut rest = String::new();
    let _ = reader.read_to_string(&mut rest);
    assert!(daemon.alive());
    // Requests may come in a row, and their sender may stop sending.
    let mut stream = UnixStream::connect(daemon.dir.join("control.sock")).unwrap();
    stream.write_all(b"{\"command\":\"wait\",\"nodes\":[\"h1\"],\"links\":false,\"timeout_ms\":10}\n{\"command\":\"status\"}\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut all = String::new();
    stream.read_to_string(&mut all).unwrap();
    let lines: Vec<_> = all.lines().collect();
    assert!(lines.len() == 2 && lines[0].contains("timed out") && lines[1].contains("status"));
}

#[test]
fn one_daemon_a_directory_and_a_dead_one_is_replaced() {
    let mut daemon = Daemon::start(TWO);
    let topology = daemon.dir.parent().unwrap().join("topology.toml");
    let again = || command(&["run"]).arg(&topology).arg("--dir").arg(&daemon.dir).output().unwrap();
    let out = again();
    assert_eq!(status(&out), 1);
    assert!(stderr(&out).contains("has a weft-fabric already"), "{}", stderr(&out));

    daemon.restart();
    assert_eq!(status(&daemon.cli(&["status"])), 0);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    assert!(daemon.dir.join("control.sock").exists());
    assert_eq!(status(&daemon.cli(&["status"])), 3);
    daemon.restart();
    assert_eq!(status(&daemon.cli(&["stop"])), 0);
    assert!(!daemon.dir.join("control.sock").exists() && !daemon.dir.join("port.sock").exists());
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));

    let long = daemon.dir.join("x".repeat(100));
    let out = command(&["run"]).arg(&topology).arg("--dir").arg(long).output().unwrap();
    assert_eq!(status(&out), 1);
    assert!(stderr(&out).contains("--dir"), "{}", stderr(&out));
}

#[test]
fn a_signal_ends_it_in_order() {
    let mut daemon = Daemon::start(TWO);
    let (h1, _) = Port::join(&daemon, "h1");
    let pid = rustix::process::Pid::from_child(&daemon.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(daemon.child.wait().unwrap().code(), Some(0));
    assert!(!daemon.dir.join("port.sock").exists());
    h1.expect_end();
}
