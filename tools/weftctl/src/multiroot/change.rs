// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which assignments an order of the administrator comes to.

use super::assignment::{Assignment, State};
use super::hwid::Hwid;
use super::known::Known;
use super::name::{Names, Which};
use crate::failure::{Failure, Kind};

/// Virtual endpoints that a text of assignments can name.
const MOST_VES: u32 = 256;

/// The assignments that `assign ENDPOINT[.VE] HOST` adds; what is another host's is taken only by
/// `force`. Without VE one that the host is to have, and has not got yet, is asked for again:
/// a caller that tries once more does not want two.
pub fn assign(
    known: &Known,
    target: &str,
    host: &str,
    force: bool,
) -> Result<Vec<Assignment>, Failure> {
    let names = Names::new(known.components.as_deref());
    let (endpoint, which) = names.target(target)?;
    let root = names.find(host, "host")?;
    let ves = known.component(endpoint).map(|component| component.ves);
    let of = |ve: u32| known.assignments.iter().find(|w| (w.endpoint, w.ve) == (endpoint, ve));
    let chosen: Vec<u32> = match (which, ves) {
        (Which::One(ve), Some(ves)) if u32::from(ve) >= ves => {
            return Err(no_such_ve(&names, endpoint, ves));
        }
        (Which::One(ve), _) => vec![ve.into()],
        (Which::All, Some(ves)) => (0..ves.min(MOST_VES)).collect(),
        (Which::All, None) => {
            let message = format!("endpoint {} was not found", names.of(endpoint));
            let hint = "how many virtual endpoints it has is not known: name each, as .0";
            return Err(Failure::new(Kind::Usage, message).hint(hint));
        }
        // Before it is found it has at least one.
        (Which::Any, ves) => {
            let waits = |ve: &u32| {
                of(*ve).is_some_and(|assignment| {
                    assignment.root == root && assignment.state.is_some_and(is_open)
                })
            };
            let all = || 0..ves.map_or(MOST_VES, |ves| ves.min(MOST_VES));
            let free = || all().find(|ve| of(*ve).is_none());
            vec![
                all()
                    .find(waits)
                    .or_else(free)
                    .ok_or_else(|| none_is_free(known, &names, endpoint))?,
            ]
        }
    };
    let others =
        chosen.iter().filter_map(|ve| of(*ve)).filter(|assignment| assignment.root != root);
    if let (Some(assignment), false) = (others.min_by_key(|assignment| assignment.ve), force) {
        let (ve, other) = (names.ve(endpoint, assignment.ve), names.of(assignment.root));
        let message = format!("{ve} is to be host {other}'s");
        let hint = format!("`weftctl withdraw {ve}` first, or --force takes it away from there");
        return Err(Failure::new(Kind::Failed, message).hint(hint));
    }
    Ok(chosen.into_iter().map(|ve| Assignment { endpoint, ve, root, state: None }).collect())
}

/// Whether the host has not got it yet.
fn is_open(state: State) -> bool {
    state != State::Done
}

fn no_such_ve(names: &Names<'_>, endpoint: Hwid, ves: u32) -> Failure {
    let has = match ves {
        1 => "1 virtual endpoint, 0".into(),
        ves => format!("{ves} virtual endpoints, 0 to {}", ves.saturating_sub(1)),
    };
    Failure::new(Kind::Usage, format!("endpoint {} has {has}", names.of(endpoint)))
}

fn none_is_free(known: &Known, names: &Names<'_>, endpoint: Hwid) -> Failure {
    let owners = known.owners(endpoint);
    let of = |root: Option<Hwid>| root.map_or("no host".into(), |root| names.of(root));
    let all: Vec<_> =
        owners.iter().map(|owner| format!(".{} is {}'s", owner.ve, of(owner.root))).collect();
    let name = names.of(endpoint);
    let failure = Failure::new(Kind::Failed, format!("endpoint {name} has nothing free"));
    match all.as_slice() {
        [] => failure.hint("it has no virtual endpoint"),
        all => failure.hint(format!("{}; `weftctl withdraw {name}.0` frees one", all.join(", "))),
    }
}

/// The assignments that `withdraw ENDPOINT[.VE]` takes back; without .VE all of the endpoint.
pub fn withdraw(known: &Known, target: &str) -> Result<Vec<Assignment>, Failure> {
    let names = Names::new(known.components.as_deref());
    let (endpoint, which) = names.target(target)?;
    let meant = |assignment: &&Assignment| match which {
        Which::One(ve) => assignment.ve == u32::from(ve),
        Which::Any | Which::All => true,
    };
    let of = known.assignments.iter().filter(|assignment| assignment.endpoint == endpoint);
    let taken: Vec<Assignment> = of.filter(meant).copied().collect();
    match (taken.is_empty(), which, known.component(endpoint)) {
        (true, Which::One(ve), Some(found)) if u32::from(ve) >= found.ves => {
            Err(no_such_ve(&names, endpoint, found.ves))
        }
        _ => Ok(taken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::multiroot::known::Component;

    const EP: Hwid = Hwid(0xc000_0000_0000_0001);

    fn known() -> Known {
        let component = |kind: &str, hwid, name: &str, ves| Component {
            kind: kind.into(),
            hwid,
            ves,
            serial_number: name.into(),
            ..Component::default()
        };
        let components = vec![
            component("host", Hwid(1), "rc1", 0),
            component("host", Hwid(2), "rc2", 0),
            component("endpoint", EP, "ep1", 3),
        ];
        let assignment = |ve, root| Assignment { endpoint: EP, ve, root: Hwid(root), state: None };
        let assignments = vec![assignment(0, 1), assignment(2, 2)];
        Known { components: Some(components), assignments, ..Known::default() }
    }

    fn ves(assignments: Result<Vec<Assignment>, Failure>) -> Result<Vec<u32>, String> {
        assignments.map(|all| all.iter().map(|w| w.ve).collect()).map_err(|f| f.to_string())
    }

    #[test]
    fn mr_3_an_order_names_the_virtual_endpoints() {
        let known = known();
        let assign = |target: &str, host: &str, force| ves(assign(&known, target, host, force));
        assert_eq!(assign("ep1", "rc1", false), Ok(vec![1]), "the first that is free");
        assert_eq!(assign("ep1.1", "rc1", false), Ok(vec![1]));
        assert_eq!(assign("ep1.0", "rc1", false), Ok(vec![0]), "it has it");
        assert_eq!(assign("ep1.all", "rc1", true), Ok(vec![0, 1, 2]));
        for (target, words) in [
            ("ep1.2", "ep1.2 is to be host rc2's: `weftctl withdraw ep1.2` first, or --force"),
            ("ep1.all", "ep1.2 is to be host rc2's"),
            ("ep1.3", "has 3 virtual endpoints, 0 to 2"),
            ("0xc000000000000009.all", "was not found"),
        ] {
            let said = assign(target, "rc1", false).expect_err(target);
            assert!(said.contains(words), "{said}");
        }
        // What will come.
        assert_eq!(assign("0xc000000000000009", "0x9", false), Ok(vec![0]));

        assert_eq!(ves(withdraw(&known, "ep1")), Ok(vec![0, 2]));
        assert_eq!(ves(withdraw(&known, "ep1.2")), Ok(vec![2]));
        assert_eq!(ves(withdraw(&known, "ep1.1")), Ok(vec![]));
        let said = ves(withdraw(&known, "ep1.3")).expect_err("there is no such");
        assert!(said.contains("has 3 virtual endpoints, 0 to 2"), "{said}");
        // An assignment that never could be is taken back all the same.
        let assignment =
            Assignment { endpoint: EP, ve: 9, root: Hwid(1), state: Some(State::NoVe) };
        let known = Known { assignments: vec![assignment], ..known };
        assert_eq!(ves(withdraw(&known, "ep1.9")), Ok(vec![9]));
    }

    #[test]
    fn mr_3_a_host_that_tries_again_does_not_get_another_one() {
        let mut known = known();
        for (state, wanted) in [(State::Done, 1), (State::NoRoot, 0), (State::Waits, 0)] {
            known.assignments[0].state = Some(state);
            assert_eq!(ves(assign(&known, "ep1", "rc1", false)), Ok(vec![wanted]), "{state:?}");
            assert_eq!(ves(assign(&known, "ep1", "rc2", false)), Ok(vec![1]), "another host's");
        }
    }

    #[test]
    fn what_has_nothing_free_says_whose_it_is() {
        let mut known = known();
        known.assignments.push(Assignment { endpoint: EP, ve: 1, root: Hwid(1), state: None });
        for assignment in &mut known.assignments {
            assignment.state = Some(super::super::State::Done);
        }
        let said = ves(assign(&known, "ep1", "rc1", false)).expect_err("full");
        let wanted = "endpoint ep1 has nothing free: .0 is rc1's, .1 is rc1's, .2 is rc2's; \
                      `weftctl withdraw ep1.0` frees one";
        assert_eq!(said, wanted);
    }
}
