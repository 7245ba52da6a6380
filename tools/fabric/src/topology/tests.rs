// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Every rule of a topology, by a file that breaks it.

use super::{End, HostEnd, Node, parse};

fn problems(text: &str) -> Vec<String> {
    let found = parse(text).err().unwrap_or_default();
    found.iter().map(|problem| format!("line {}: {}", problem.line, problem.message)).collect()
}

const TWO: &str = "[[host]]\nname = \"h1\"\n[[host]]\nname = \"h2\"\n";

/// The one problem of two hosts and this link, on line 5.
fn bad_link(link: &str) -> String {
    let found = problems(&format!("{TWO}[[link]]\n{link}\n"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("line 5: "), "{found:?}");
    found[0].clone()
}

#[test]
fn a_link_is_checked() {
    for (link, why) in [
        ("ends = [\"h1:0\", \"h9:0\"]", "no host, endpoint or switch is called \"h9\""),
        ("ends = [\"h1:4\", \"h2:0\"]", "has ports 0 to 3"),
        ("ends = [\"h1\", \"h2:0\"]", "write NODE:PORT"),
        ("ends = [\"h1:0\", \"h2:x\"]", "write NODE:PORT"),
        ("ends = [\"h1:0\", \"h2:256\"]", "write NODE:PORT"),
        ("ends = [\"h1:0\", \"h1:1\"]", "both ends are at h1"),
        ("ends = [\"h1:0\"]", "a link has two"),
        ("ends = [\"h1:0\", \"h2:0\"]\nwidth = 3", "1, 2, 4, 8 or 16"),
        ("ends = [\"h1:0\", \"h2:0\"]\nwidth = 264", "1, 2, 4, 8 or 16"),
        ("ends = [\"h1:0\", \"h2:0\"]\nspeed = 0", "1 to 6"),
        ("ends = [\"h1:0\", \"h2:0\"]\nspeed = 7", "1 to 6"),
    ] {
        let found = bad_link(link);
        assert!(found.contains(why), "{link}: {found}");
    }
}

#[test]
fn what_is_not_understood_is_refused_where_it_stands() {
    for (text, line, why) in [
        (format!("{TWO}[[link]]\nends = [\"h1:0\", \"h2:0\"]\nstate = \"off\"\n"), 7, "off"),
        (format!("{TWO}colour = 1\n"), 5, "colour"),
        ("[[host]]\nname = 1\n".into(), 2, "string"),
        ("[[host]\n".into(), 1, "table"),
    ] {
        let found = problems(&text);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(&format!("line {line}: ")), "{found:?}");
        assert!(found[0].contains(why), "{found:?}");
    }
}

#[test]
fn names_and_hardware_ids_are_unique() {
    let found = problems(
        "[[host]]\nname = \"a\"\nhwid = 5\n[[host]]\nname = \"b\"\nhwid = 5\n\
         [[switch]]\nname = \"a\"\nports = 2\n",
    );
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("host b: hwid 5 is that of host a"));
    assert!(found[1].contains("switch a: the name is taken"));
    assert_eq!(problems("[[host]]\nname = \"a:b\"\n").len(), 1);
    assert_eq!(problems("[[host]]\nname = \"\"\n").len(), 1);
    assert_eq!(problems("[[host]]\nname = \"a\"\nhwid = 0\n").len(), 1);
    assert_eq!(problems(&format!("{TWO}[[switch]]\nname = \"s\"\nports = 65\n")).len(), 1);
    assert!(problems("")[0].contains("no host is named"));
}

#[test]
fn a_port_takes_one_link() {
    let found = problems(&format!(
        "{TWO}[[link]]\nends = [\"h1:0\", \"h2:0\"]\n[[link]]\nends = [\"h1:1\", \"h2:0\"]\n"
    ));
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("line 7: ") && found[0].contains("h2:0 has the link of line 5"));
}

#[test]
fn derived_hardware_ids_stay_and_differ() {
    let hosts = parse(TWO).unwrap().hosts;
    assert_eq!(hosts, parse(TWO).unwrap().hosts);
    assert_ne!(hosts[0].hwid, hosts[1].hwid);
    assert!(hosts.iter().all(|h| h.hwid > 0 && h.hwid < 1 << 53 && !h.hwid_given));
}

const CHAIN: &str = "[[switch]]\nname = \"s1\"\nports = 4\n[[switch]]\nname = \"s2\"\nports = 4\n";

#[test]
fn a_chain_of_switches_joins_two_hosts() {
    let text = format!(
        "{TWO}{CHAIN}\
         [[link]]\nends = [\"s1:3\", \"s2:1\"]\n\
         [[link]]\nends = [\"s2:0\", \"h2:2\"]\n\
         [[link]]\nends = [\"h1:1\", \"s1:0\"]\n"
    );
    let topology = parse(&text).unwrap();
    assert_eq!(topology.paths.len(), 1);
    let path = &topology.paths[0];
    assert_eq!(path.ends, [HostEnd { host: 0, link: 1 }, HostEnd { host: 1, link: 2 }]);
    assert_eq!((path.cables.as_slice(), path.via.as_slice()), (&[2, 0, 1][..], &[0, 1][..]));
    assert_eq!((topology.links_of(0), topology.links_of(1)), (2, 3));
}

#[test]
fn a_link_that_ends_at_a_switch_leads_nowhere() {
    let text = format!("{TWO}{CHAIN}[[link]]\nends = [\"h1:0\", \"s1:0\"]\n");
    assert!(parse(&text).unwrap().paths.is_empty());
}

const STAR: &str = "[[host]]\nname = \"h3\"\n\
     [[link]]\nends = [\"h1:0\", \"s1:0\"]\n[[link]]\nends = [\"h2:0\", \"s1:1\"]\n\
     [[link]]\nends = [\"h3:0\", \"s1:2\"]\n";

#[test]
fn a_switch_with_three_links_routes() {
    let text = format!("{TWO}[[switch]]\nname = \"s1\"\nports = 4\n{STAR}");
    let topology = parse(&text).unwrap();
    assert!(topology.switches[0].routes && topology.paths.is_empty());
    assert_eq!(topology.trunks.len(), 3);
    let (trunk, side) = topology.trunk_at(End { node: Node::Switch(0), port: 2 }).unwrap();
    assert_eq!((topology.trunks[trunk].ends[0].node, side), (Node::Host(2), 1));
}

#[test]
fn a_switch_that_is_not_to_route_joins_two() {
    let text = format!("{TWO}[[switch]]\nname = \"s1\"\nports = 4\nroutes = false\n{STAR}");
    let found = problems(&text);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("line 15: switch s1: h3:0--s1:2 is its third link"), "{found:?}");
}

#[test]
fn a_switch_of_two_links_routes_if_it_is_told_to() {
    let link = "[[link]]\nends = [\"h1:0\", \"s1:0\"]\n[[link]]\nends = [\"s1:1\", \"h2:0\"]\n";
    let switch = "[[switch]]\nname = \"s1\"\nports = 4\n";
    let joins = parse(&format!("{TWO}{switch}{link}")).unwrap();
    assert_eq!((joins.paths.len(), joins.trunks.len()), (1, 1));
    assert_eq!(joins.trunks[0].path, Some(0));
    let routes = parse(&format!("{TWO}{switch}routes = true\n{link}")).unwrap();
    assert_eq!((routes.paths.len(), routes.trunks.len()), (0, 2));
}

#[test]
fn managers_are_hosts() {
    let topology = parse(&format!("managers = [\"h2\"]\n{TWO}")).unwrap();
    assert!(!topology.may_manage(0) && topology.may_manage(1));
    assert!(parse(TWO).unwrap().may_manage(0));
    let found = problems(&format!("managers = [\"h9\"]\n{TWO}"));
    assert!(found[0].contains("line 1: ") && found[0].contains("\"h9\""), "{found:?}");
}

#[test]
fn a_fabric_attests_hardware_ids_unless_it_is_told_not_to() {
    assert!(parse(TWO).unwrap().attests);
    assert!(!parse(&format!("attests = false\n{TWO}")).unwrap().attests);
}

/// A host and a switch that routes, on lines 1 to 6.
const ONE: &str = "[[host]]\nname = \"h\"\n[[switch]]\nname = \"s\"\nports = 4\nroutes = true\n";

#[test]
fn an_endpoint_is_checked() {
    let endpoint = "[[endpoint]]\nname = \"e\"\n";
    for (rest, why) in [
        ("kind = \"disk\"\nves = 1\n", "kind \"disk\" is not known; give \"copy\""),
        ("kind = \"copy\"\nves = 16\n", "16 virtual endpoints (ves); give 1 to 15"),
        ("kind = \"copy\"\nves = 1\nfunctions = 0\n", "0 functions; give 1 to 4"),
        ("kind = \"copy\"\nves = 1\nhwid = -1\n", "hwid -1 is not of 1 to 2^62 - 1"),
        (
            "kind = \"copy\"\nves = 1\nhwid = 4611686018427387904\n",
            "hwid 4611686018427387904 is not of 1 to 2^62 - 1",
        ),
        ("kind = \"copy\"\nves = 1\n[[link]]\nends = [\"s:0\", \"e:1\"]\n", "has port 0 alone"),
        (
            "kind = \"copy\"\nves = 1\n[[link]]\nends = [\"h:0\", \"e:0\"]\n",
            "does not lead to a switch that routes",
        ),
    ] {
        let found = problems(&format!("{ONE}{endpoint}{rest}"));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(why), "{found:?}");
    }
    let alone = format!("{endpoint}kind = \"copy\"\nves = 1\n");
    assert!(problems(&alone)[0].contains("no host is named"));
    let manager = format!("managers = [\"e\"]\n{ONE}{alone}");
    assert!(problems(&manager)[0].contains("no host is called \"e\""));
}

#[test]
fn an_endpoint_is_no_host_and_manages_nothing() {
    let text = format!(
        "{ONE}[[endpoint]]\nname = \"e\"\nkind = \"copy\"\nves = 2\nhwid = 5\nplugged = false\n\
         [[endpoint]]\nname = \"f\"\nkind = \"copy\"\nves = 1\nserial = \"0815\"\n"
    );
    let topology = parse(&text).unwrap();
    let [host, e, f] = [0, 1, 2].map(|n| &topology.hosts[n]);
    assert!(host.plugged && !e.plugged && f.plugged);
    assert_eq!((e.hwid, f.hwid >> 62), ((3 << 62) | 5, 3));
    assert_eq!(topology.switches[0].hwid >> 62, 2, "a switch is none");
    let serial = |n: usize| topology.hosts[n].endpoint.as_ref().unwrap().serial.clone();
    assert_eq!((serial(1), serial(2)), ("e".to_owned(), "0815".to_owned()));
    assert!(topology.may_manage(0) && !topology.may_manage(1));
    assert_eq!(topology.ports(Node::Host(1)), 1);
}
