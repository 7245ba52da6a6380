// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What completion and the manual have to know of a program: everything that its
//! own help names. Shared by the tests of all programs.

use std::path::{Path, PathBuf};
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
        let mut words = line.split([' ', ',', '[']).filter(|word| !word.is_empty());
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

fn file(name: &str) -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../completion");
    top.join(name).to_string_lossy().into_owned()
}

/// What bash offers behind `words` for a word that begins with `begun`; `None`: there is no
/// bash.
fn bash(program: &Path, words: &[&str], begun: &str) -> Option<Vec<String>> {
    let script = format!(
        "source '{}'; COMP_WORDS=({} '{begun}'); COMP_CWORD={}; _weft; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        file("weft.bash"),
        words.join(" "),
        words.len(),
    );
    shell(program, &["bash", "--norc", "-c"], &script).map(|out| lines(&out))
}

/// The same, where there has to be one.
pub fn bash_offers(program: &Path, words: &[&str], begun: &str) -> Vec<String> {
    bash(program, words, begun).expect("there is no bash")
}

/// Each subcommand and option is offered, by every shell that there is; by bash in
/// any case.
pub fn completion_knows(program: &Path) {
    let entries = all(program, &[]);
    let by_bash = |words: &[String], begun: &str| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        bash(program, &words, begun)
    };
    assert!(by_bash(&entries[0].words, "").is_some(), "there is no bash");
    offers_all(&entries, &by_bash);

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

/// What manuals name besides: another name of an option, and options of `groupadd` and `redis-server`.
const OTHERS: [&str; 4] = ["--peer", "--system", "--bind", "--protected-mode"];

/// The manual names each subcommand and option, and no option that there is not.
pub fn manual_knows(program: &Path, page: &str) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Documentation/man").join(page);
    let text = std::fs::read_to_string(&page).expect("the manual").replace("\\-", "-");
    let entries = all(program, &[]);
    for Entry { words, commands, options } in &entries {
        for word in commands.iter().filter(|c| *c != "help").chain(options) {
            assert!(text.contains(word), "{} does not know {word} of {words:?}", page.display());
        }
    }
    let is_known = |word: &str| entries.iter().any(|entry| entry.options.iter().any(|o| o == word));
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '-');
    for word in words.filter(|word| word.starts_with("--") && word.len() > 2) {
        let known = is_known(word) || OTHERS.contains(&word);
        assert!(known, "{}: there is no option {word}", page.display());
    }
}

/// Every file below a path.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if let Ok(entries) = std::fs::read_dir(path) {
        entries.flatten().for_each(|entry| files(&entry.path(), found));
    } else {
        found.push(path.into());
    }
}

/// Every `program command --option` that stands in backticks in messages and documentation
/// is one.
pub fn texts_know(program: &Path) {
    let entries = all(program, &[]);
    let name = entries[0].words[0].clone();
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for path in ["weft/src", "weftctl/src", "fabric/src"] {
        files(&top.join("tools").join(path), &mut found);
    }
    for path in ["rust", "Documentation", "README.md"] {
        files(&top.join(path), &mut found);
    }
    let mut count = 0;
    for file in &found {
        let Ok(text) = std::fs::read_to_string(file) else { continue };
        for part in text.split(&format!("`{name} ")).skip(1) {
            let said = part.split('`').next().unwrap_or_default();
            let mut at = &entries[0];
            for word in said.split_whitespace() {
                let word = word.split('=').next().unwrap_or_default();
                let below = [at.words.as_slice(), &[word.to_owned()]].concat();
                let plain = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
                let wrong = format!("{}: `{name} {said}`: no {word}", file.display());
                match entries.iter().find(|entry| entry.words == below) {
                    Some(entry) => at = entry,
                    None if word.starts_with("--") && word.len() > 2 => {
                        assert!(at.options.iter().any(|option| option == word), "{wrong}");
                    }
                    // A value, or what stands for one.
                    None if at.commands.is_empty() || !plain || word.starts_with('-') => {}
                    None => panic!("{wrong}"),
                }
            }
            count += 1;
        }
    }
    assert!(count > 5, "where are the texts?");
}
