// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What is in a fabric, as a picture needs it, and how that is said in words.

/// A fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fabric {
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// What joins them.
    pub links: Vec<Link>,
    /// Names of its virtual hierarchies, which nodes and links are in by number.
    pub hierarchies: Vec<String>,
}

/// What a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A host, by its port.
    #[default]
    Host,
    /// A switch that routes.
    Switch,
    /// An endpoint that hosts may share.
    Endpoint,
}

/// What a node is to the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It gives out ids and routes.
    Master,
    /// It obeys the master, and would take its place.
    Standby,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Its hardware id.
    pub hwid: u64,
    /// What else it is called.
    pub name: Option<String>,
    /// What it is.
    pub kind: Kind,
    /// Its local id, if it has one.
    pub lid: Option<u32>,
    /// What it is to the manager, if that is known.
    pub role: Option<Role>,
    /// It is this host.
    pub here: bool,
    /// What is the matter with it.
    pub trouble: Option<String>,
    /// What else is to be said of it.
    pub notes: Vec<String>,
    /// The hierarchies that it is in.
    pub hierarchies: Vec<usize>,
}

/// One end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Which of the nodes.
    pub node: usize,
    /// Which of its ports, if that is known.
    pub port: Option<u32>,
}

/// Whether a link carries something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It does.
    #[default]
    Up,
    /// It could, but is not to.
    Excluded,
    /// It cannot.
    Down,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its two ends.
    pub ends: [End; 2],
    /// PCI Express generation, 0 while unknown.
    pub speed: u32,
    /// Lanes, 0 while unknown.
    pub width: u32,
    /// Whether it carries something.
    pub state: State,
    /// The hierarchies that go over it.
    pub hierarchies: Vec<usize>,
}

/// What a hierarchy is called where there is little room: A to Z, then numbers.
pub fn tag(hierarchy: usize) -> String {
    match u8::try_from(hierarchy) {
        Ok(n @ 0..26) => char::from(b'A' + n).to_string(),
        _ => (hierarchy + 1).to_string(),
    }
}

fn tags(hierarchies: &[usize]) -> String {
    hierarchies.iter().fold(String::new(), |all, n| all + " " + &tag(*n))
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Host => "host",
            Kind::Switch => "switch",
            Kind::Endpoint => "endpoint",
        }
    }
}

impl Node {
    /// "host h1", or by its id.
    pub fn title(&self) -> String {
        match &self.name {
            Some(name) => format!("{} {name}", self.kind.word()),
            None => format!("{} {:#x}", self.kind.word(), self.hwid),
        }
    }

    /// What else stands in its box, line by line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.name.is_some() {
            lines.push(format!("{:#x}", self.hwid));
        }
        let lid = self.lid.map_or("no LID".to_owned(), |lid| format!("LID {lid}"));
        lines.push(match self.role {
            Some(Role::Master) => format!("{lid}, master"),
            Some(Role::Standby) => format!("{lid}, standby"),
            None => lid,
        });
        if !self.hierarchies.is_empty() {
            lines.push(format!("in{}", tags(&self.hierarchies)));
        }
        if self.here {
            lines.push("this host".into());
        }
        lines.extend(self.trouble.clone());
        lines.extend(self.notes.iter().cloned());
        lines
    }
}

impl Link {
    /// "gen4 x8", what is the matter with it, and its hierarchies.
    pub fn label(&self) -> String {
        let rate = match self.speed {
            0 => String::new(),
            speed => format!("gen{speed} x{}", self.width),
        };
        let text = match self.state {
            State::Up => rate,
            State::Excluded => format!("{rate} excluded"),
            State::Down => "down".into(),
        };
        let text = format!("{text}{}", tags(&self.hierarchies));
        let text = text.trim_start();
        if text.is_empty() { "up".into() } else { text.to_owned() }
    }
}

impl End {
    /// "host h1 port 0".
    pub fn of(&self, node: &Node) -> String {
        match self.port {
            Some(port) => format!("{} port {port}", node.title()),
            None => node.title(),
        }
    }
}

impl Fabric {
    /// Both nodes of a link, if there are such.
    pub fn nodes_of(&self, link: &Link) -> Option<[&Node; 2]> {
        let [a, b] = link.ends;
        Some([self.nodes.get(a.node)?, self.nodes.get(b.node)?])
    }

    /// In one line.
    pub fn title(&self) -> String {
        let count = |n: usize, one: &str| match n {
            1 => format!("1 {one}"),
            n => format!("{n} {one}s"),
        };
        let (nodes, links) = (count(self.nodes.len(), "node"), count(self.links.len(), "link"));
        format!("Weft fabric: {nodes}, {links}")
    }

    /// The whole of it in words, for readers that do not see the picture.
    pub fn words(&self) -> String {
        let mut words: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("{}: {}.", node.title(), node.lines().join(", ")))
            .collect();
        for link in &self.links {
            if let Some([a, b]) = self.nodes_of(link) {
                let [at_a, at_b] = link.ends;
                words.push(format!("{} to {}: {}.", at_a.of(a), at_b.of(b), link.label()));
            }
        }
        for (n, name) in self.hierarchies.iter().enumerate() {
            words.push(format!("{} is the hierarchy of {name}.", tag(n)));
        }
        words.join(" ")
    }
}
