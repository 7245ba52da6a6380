// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What completion and the manual have to know of a program: everything that its
//! own help names. Shared by the tests of both programs.

use std::path::Path;
use std::process::{Command, Stdio};

/// A command with its options, as its help has them.
#[derive(Debug)]
pub struct Entry {
    /// The program and its subcommands.
    pub words: Vec<String>,
    /// Subcommands.
    pub commands: Vec<String>,
    /// Long options.
    pub options: Vec<String>,
}

/// The command and all below it, by their `--help`.
pub fn all(program: &Path, words: &[&str]) -> Vec<Entry> {
    let out = Command::new(program).args(words).arg("--help").output().expect("it runs");
    assert!(out.status.success(), "{words:?} --help");
    let help = String::from_utf8(out.stdout).expect("text");
    let part = |title: &'static str| {
        let lines = help.lines().skip_while(move |line| *line != title).skip(1);
        lines.take_while(|line| line.starts_with(' ') || line.is_empty())
    };
    let first = |line: &str| line.split_whitespace().next().map(String::from);
    let command = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let commands: Vec<_> = part("Commands:").filter(command).filter_map(first).collect();
    let option = |line: &str| {
        let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
        let word = words.find(|word| word.starts_with("--") || !word.starts_with('-'))?;
        word.starts_with("--").then(|| word.to_owned())
    };
    let options = part("Options:").filter_map(option).collect();
    let name = program.file_name().expect("a name").to_string_lossy().into_owned();
    let own = std::iter::once(name).chain(words.iter().map(|w| w.to_string())).collect();
    let mut entries = vec![Entry { words: own, commands: commands.clone(), options }];
    for next in commands.iter().filter(|c| *c != "help") {
        entries.extend(all(program, &[words, &[next.as_str()]].concat()));
    }
    entries
}

/// What a shell prints for a script, with the program in its path; `None`: the
/// shell is not installed.
fn shell(program: &Path, command: &[&str], script: &str) -> Option<String> {
    let dir = program.parent().expect("a folder").to_string_lossy().into_owned();
    let path = std::env::var("PATH").unwrap_or_default();
    let spawned = Command::new(command[0])
        .args(&command[1..])
        .arg(script)
        .env("PATH", format!("{dir}:{path}"))
        .stdin(Stdio::null())
        .output();
    let out = match spawned {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return None,
        other => other.expect("the shell runs"),
    };
    assert!(out.status.success(), "{command:?} {script}: {}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8(out.stdout).expect("text"))
}

/// What is offered after `words` for a word that begins with `begun`.
type Offer<'a> = &'a dyn Fn(&[String], &str) -> Option<Vec<String>>;

fn offers_all(entries: &[Entry], offer: Offer<'_>) {
    for Entry { words, commands, options } in entries {
        for (begun, wanted) in [("", commands), ("--", options)] {
            let Some(offered) = offer(words, begun) else { return };
            for word in wanted {
                assert!(offered.contains(word), "{words:?} {begun}: no {word} in {offered:?}");
            }
        }
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(String::from).collect()
}

/// Each subcommand and option is offered, by every shell that there is; by bash in
/// any case.
pub fn completion_knows(program: &Path) {
    let file = |name: &str| {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../completion");
        top.join(name).to_string_lossy().into_owned()
    };
    let entries = all(program, &[]);
    let bash = |words: &[String], begun: &str| {
        let all = words.join(" ");
        let script = format!(
            "source '{}'; COMP_WORDS=({all} '{begun}'); COMP_CWORD={}; _weft; \
             printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            file("weft.bash"),
            words.len(),
        );
        shell(program, &["bash", "--norc", "-c"], &script).map(|out| lines(&out))
    };
    assert!(bash(&entries[0].words, "").is_some(), "there is no bash");
    offers_all(&entries, &bash);

    // Without a terminal: what would be added is printed.
    let zsh = |words: &[String], begun: &str| {
        let script = format!(
            "compdef() {{ : }}; compadd() {{ print -l -- ${{@[2,-1]}} }}; _files() {{ : }}; \
             words=({all} '{begun}'); CURRENT={n}; source '{file}'",
            all = words.join(" "),
            n = words.len() + 1,
            file = file("weft.zsh"),
        );
        shell(program, &["zsh", "-f", "-c"], &script).map(|out| lines(&out))
    };
    offers_all(&entries, &zsh);

    let fish = |words: &[String], begun: &str| {
        let line = format!("{} {begun}", words.join(" "));
        let script = format!("source '{}'; complete -C '{line}'", file("weft.fish"));
        let out = shell(program, &["fish", "--no-config", "-c"], &script)?;
        Some(out.lines().filter_map(|l| l.split('\t').next()).map(String::from).collect())
    };
    offers_all(&entries, &fish);
}

/// The manual names each subcommand and option.
pub fn manual_knows(program: &Path, page: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Documentation/man").join(page);
    let text = std::fs::read_to_string(&page).expect("the manual").replace("\\-", "-");
    for Entry { words, commands, options } in all(program, &[]) {
        for word in commands.iter().filter(|c| *c != "help").chain(&options) {
            assert!(text.contains(word), "{} does not know {word} of {words:?}", page.display());
        }
    }
}
