// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Orders of the administrator: replaces the assignments by such that hold what is ordered,
//! other programs that do so at the same time, and waits until it has come to pass. Knows
//! nothing of how orders are written.

use crate::channel::{Port, Taken};
use crate::failure::{Failure, Kind};
use crate::multiroot::{Assignment, Known, Names, State, assignment, remedy};
use std::time::{Duration, Instant};
use weft::Assignments;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// What takes longer is told of.
const SOON: Duration = Duration::from_secs(1);

/// So much of a line that is no assignment is shown.
const LINE: usize = 60;

/// What is ordered of a port, until when, and where to tell how it goes.
pub struct Order<'a> {
    port: &'a Port,
    until: Instant,
    quiet_until: Instant,
    say: &'a dyn Fn(&str),
}

impl<'a> Order<'a> {
    /// One that has so much time.
    pub fn new(port: &'a Port, timeout: Duration, say: &'a dyn Fn(&str)) -> Self {
        let now = Instant::now();
        let until = now + timeout;
        Order { port, until, quiet_until: now + SOON, say }
    }

    /// Replaces the assignments by what `change` makes of them; what `change` has said, and what
    /// was known then.
    pub fn change<T>(
        &self,
        change: impl Fn(&Known, &mut Assignments) -> Result<T, Failure>,
    ) -> Result<(T, Known), Failure> {
        loop {
            let mut assignments = self.port.assignments()?;
            let known = self.known(&assignments)?;
            let before = assignments.text.clone();
            let changed = change(&known, &mut assignments)?;
            if assignments.text == before {
                return Ok((changed, known));
            }
            match self.put(&mut assignments)? {
                Some(Taken::NoAssignment(line)) => {
                    let failure = no_assignment(&assignments.text, line);
                    let message = format!("line {line} of the assignments: {}", failure.message);
                    return Err(Failure { message, ..failure });
                }
                Some(Taken::NoRoom(_)) => return Err(no_room(assignments.text.len())),
                Some(_) => return Ok((changed, known)),
                None => {}
            }
        }
    }

    /// Replaces the assignments by a text, whatever they were.
    pub fn replace(&self, text: &[u8]) -> Result<Taken, Failure> {
        loop {
            let mut assignments = Assignments { text: text.to_vec(), ..self.port.assignments()? };
            if let Some(taken) = self.put(&mut assignments)? {
                return Ok(taken);
            }
        }
    }

    /// Tries to; `None`: to be tried again with what there is now.
    fn put(&self, assignments: &mut Assignments) -> Result<Option<Taken>, Failure> {
        let late = |hint| {
            let what = "the assignments could not be replaced in time";
            Failure::new(Kind::Failed, what).hint(hint)
        };
        match self.port.set_assignments(assignments)? {
            Taken::Stale if self.is_late() => Err(late("another program does so all the time")),
            Taken::Stale => Ok(None),
            Taken::NoMaster if self.is_late() => {
                Err(late("the fabric has no master: `weftctl diagnose` says why"))
            }
            Taken::NoMaster => {
                std::thread::sleep(PAUSE);
                Ok(None)
            }
            taken => Ok(Some(taken)),
        }
    }

    /// What an order has to know: names, and what is assigned.
    fn known(&self, assignments: &Assignments) -> Result<Known, Failure> {
        let components = Some(self.port.components()?);
        let statuses = self.port.assignment_statuses()?;
        let mut all: Vec<Assignment> = assignments.all().map(Assignment::from).collect();
        for assignment in &mut all {
            let status = statuses.iter().find(|status| status.is(assignment));
            assignment.state = Some(status.and_then(|status| status.state).unwrap_or(State::Waits));
        }
        all.sort_by_key(|assignment| (assignment.endpoint, assignment.ve));
        Ok(Known { assignments: all, components, hierarchies: Vec::new() })
    }

    /// Waits until assignments are fulfilled, or will not be without help. What became
    /// of each.
    pub fn fulfilled(
        &self,
        wanted: &[Assignment],
        known: &Known,
    ) -> Result<Vec<Assignment>, Failure> {
        let names = Names::new(known.components.as_deref());
        let mut told = None;
        loop {
            let statuses = self.port.assignment_statuses()?;
            let state = |assignment: &Assignment| {
                let status = statuses.iter().find(|status| status.is(assignment));
                status.and_then(|status| status.state).unwrap_or(State::Waits)
            };
            let all: Vec<Assignment> =
                wanted.iter().map(|w| Assignment { state: Some(state(w)), ..*w }).collect();
            let waits = |waiting: &&Assignment| waiting.state.is_some_and(assignment::passes);
            let Some(first) = all.iter().find(waits).filter(|_| !self.is_late()) else {
                return Ok(all);
            };
            let state = first.state;
            if told != Some((*first, state)) && Instant::now() >= self.quiet_until {
                told = Some((*first, state));
                let (ve, host) = (names.ve(first.endpoint, first.ve), names.of(first.root));
                let why = state.map(|state| state.to_string()).unwrap_or_default();
                (self.say)(&format!("{ve} is not host {host}'s yet: {why}"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until hosts have let go of what was theirs.
    pub fn let_go(&self, taken: &[Assignment], known: &Known) -> Result<(), Failure> {
        let names = Names::new(known.components.as_deref());
        let mut told = false;
        loop {
            let mut held = None;
            for assignment in taken {
                // A host that is not there has nothing.
                let has = self.port.hierarchy(assignment.root)?;
                if has.is_some_and(|tree| tree.has(assignment.endpoint, assignment.ve)) {
                    held = Some(assignment);
                    break;
                }
            }
            let Some(assignment) = held else { return Ok(()) };
            let (ve, host) =
                (names.ve(assignment.endpoint, assignment.ve), names.of(assignment.root));
            let what = format!("{ve} is withdrawn, and host {host} has not let go of it yet");
            if self.is_late() {
                let hint = "it is asked again; what holds it up, `weftctl diagnose` says there";
                return Err(Failure::new(Kind::Unreachable, what).hint(hint));
            }
            if !told && Instant::now() >= self.quiet_until {
                told = true;
                (self.say)(&what);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// Why a text was not taken, by one of its lines.
pub fn no_assignment(text: &[u8], line: u32) -> Failure {
    let of = text.split(|b| *b == b'\n').nth(line.saturating_sub(1) as usize);
    let of = String::from_utf8_lossy(of.unwrap_or_default());
    let shown: String = of.chars().take(LINE).collect();
    let more = if shown.len() < of.len() { " …" } else { "" };
    let what =
        format!("is no assignment, or gives away what a line before it has: {shown:?}{more}");
    Failure::new(Kind::Usage, what).hint(
        "a line is ENDPOINT.VE HOST, all in hexadecimal without 0x, as c000a7.0 1; `weftctl tree` \
         shows hardware ids",
    )
}

/// There is no room for a text.
pub fn no_room(bytes: usize) -> Failure {
    let what =
        format!("no room for assignments of {bytes} bytes, {} at most", Assignments::MOST_BYTES);
    Failure::new(Kind::Failed, what)
        .hint("leave out comments, and `weftctl withdraw` what will not come back")
}

/// The failure of assignments that were not fulfilled; `None`: they were.
pub fn unfulfilled(all: &[Assignment], known: &Known) -> Option<Failure> {
    let names = Names::new(known.components.as_deref());
    let open = || all.iter().filter(|assignment| assignment.state != Some(State::Done));
    let assignment = open().next()?;
    let state = assignment.state.unwrap_or(State::Waits);
    let (ve, host) = (names.ve(assignment.endpoint, assignment.ve), names.of(assignment.root));
    let kind = match state {
        State::NoEndpoint | State::NoRoot | State::NoWay | State::NoLid | State::NotTaken => {
            Kind::Unreachable
        }
        _ => Kind::Failed,
    };
    let more = match open().count().saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more: `weftctl assignments`)"),
    };
    let message = format!("{ve} is to be host {host}'s, and is not: {state}{more}");
    Some(Failure::new(kind, message).hint(remedy::mend(assignment, known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_no_assignment_is_shown_as_far_as_it_helps() {
        let text = [b"8.0 2\n\x1b[31mred\n".to_vec(), vec![b'x'; 4000]].concat();
        let said = |line| no_assignment(&text, line).message;
        assert!(said(2).ends_with(r#"has: "\u{1b}[31mred""#), "{}", said(2));
        assert!(said(3).ends_with(&format!("has: {:?} …", "x".repeat(LINE))), "{}", said(3));
    }
}
