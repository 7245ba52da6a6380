// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The picture as SVG: one file that needs no other, light or dark as its reader has
//! it, with the whole in words for readers that do not see it. What a colour says, a letter
//! or a pattern says as well.

use super::fabric::{Fabric, Kind, Link, Role, State, tag};
use super::layout::{Boxed, EDGE, Layout, Rect, Text, Wire, lay, width_of};
use std::fmt::Write;

/// Of hierarchies, each with a pattern; told apart without red and green.
const COLOURS: [(&str, &str); 6] = [
    ("#0072b2", "none"),
    ("#d55e00", "7 3"),
    ("#009e73", "2 3"),
    ("#cc79a7", "10 3 2 3"),
    ("#e69f00", "4 4"),
    ("#56b4e9", "12 4"),
];

/// Classes first as they are on paper, then as they are on a dark screen.
const STYLE: &str = "\
text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;text-anchor:middle;fill:#1b1f24}
.title{font-weight:bold}.left{text-anchor:start}.port{font-size:11px;fill:#57606a}
.page{fill:#ffffff}.back{fill:#ffffff}
.box{fill:#f6f8fa;stroke:#57606a;stroke-width:1.5}.here{stroke-width:3.5}.inner{fill:none}
.switch{fill:#eaeef2}.endpoint{fill:#fff8e6}
.wire{fill:none;stroke:#24292f;stroke-width:2}
.down{stroke:#b42318;stroke-dasharray:3 5}.excluded{stroke:#8a6100;stroke-dasharray:10 5}
.plane{fill:none;stroke-width:2.5}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.port{fill:#9da7b3}.page,.back{fill:#0d1117}
.box{fill:#1c2128;stroke:#9da7b3}.inner{fill:none}.switch{fill:#2a313a}.endpoint{fill:#2e2718}
.wire{stroke:#d0d7de}.down{stroke:#ff8b7f}.excluded{stroke:#e3b341}
}
";

/// Width of a line of the legend's sample.
const SAMPLE: i32 = 44;
const ROW: i32 = 22;

/// Draws a fabric.
pub fn draw(fabric: &Fabric) -> String {
    let layout = lay(fabric);
    let legend = legend(fabric);
    let texts = legend.iter().map(|entry| SAMPLE + 56 + width_of(&entry.text)).max().unwrap_or(0);
    let width = layout.width.max(texts);
    let height = layout.height + legend.len() as i32 * ROW + 12;
    let left = layout.left;
    let mut out = Out(String::new());
    out.line(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left} 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title words\">"
    ));
    out.line(&format!("<title id=\"title\">{}</title>", escape(&fabric.title())));
    out.line(&format!("<desc id=\"words\">{}</desc>", escape(&fabric.words())));
    out.line(&format!("<style>{STYLE}</style>"));
    let page = Rect { x: left, y: 0, w: width, h: height };
    out.rect(&page, "page", 0);
    let title = Text { text: fabric.title(), rect: Rect { x: left + 24, y: 16, w: 0, h: 18 } };
    out.text(&title, "title left");
    for wire in &layout.wires {
        out.wire(fabric, wire);
    }
    // Above all wires, so that a label is never crossed by one.
    for wire in &layout.wires {
        out.rect(&wire.label.rect, "back", 3);
        out.text(&wire.label, "");
    }
    for b in &layout.boxes {
        out.node(fabric, b);
    }
    out.legend(&layout, &legend);
    out.line("</svg>");
    out.0
}

/// A line of the legend: how it is drawn, and what that means.
struct Entry {
    shape: Shape,
    text: String,
}

enum Shape {
    Wire(&'static str),
    Plane(usize),
    Box(Kind, bool),
}

/// What there is of it in the picture.
fn legend(fabric: &Fabric) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut add = |is: bool, shape, text: &str| {
        if is {
            all.push(Entry { shape, text: text.to_owned() });
        }
    };
    let node = |kind| fabric.nodes.iter().any(|node| node.kind == kind);
    let link = |state| fabric.links.iter().any(|link| link.state == state);
    add(node(Kind::Host), Shape::Box(Kind::Host, false), "host");
    add(node(Kind::Switch), Shape::Box(Kind::Switch, false), "switch");
    add(node(Kind::Endpoint), Shape::Box(Kind::Endpoint, false), "endpoint that hosts share");
    let here = fabric.nodes.iter().find(|node| node.here);
    add(here.is_some(), Shape::Box(here.map_or(Kind::Host, |n| n.kind), true), "this host");
    add(link(State::Up), Shape::Wire("wire"), "link; at its ends the numbers of the ports");
    add(link(State::Excluded), Shape::Wire("wire excluded"), "excluded: is up, carries nothing");
    add(link(State::Down), Shape::Wire("wire down"), "down");
    for (n, name) in fabric.hierarchies.iter().enumerate() {
        add(true, Shape::Plane(n), &format!("{}: hierarchy of {name}", tag(n)));
    }
    all
}

fn class(link: &Link) -> &'static str {
    match link.state {
        State::Up => "wire",
        State::Excluded => "wire excluded",
        State::Down => "wire down",
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // There are no others in XML 1.0.
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// What has been written.
struct Out(String);

impl Out {
    fn line(&mut self, text: &str) {
        self.0.push_str(text);
        self.0.push('\n');
    }

    fn rect(&mut self, r: &Rect, class: &str, round: i32) {
        let Rect { x, y, w, h } = r;
        self.line(&format!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" rx=\"{round}\"/>"
        ));
    }

    fn text(&mut self, text: &Text, class: &str) {
        let r = &text.rect;
        let (x, y) = (r.x + r.w / 2, r.y + r.h - 5);
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.line(&format!("<text{class} x=\"{x}\" y=\"{y}\">{}</text>", escape(&text.text)));
    }

    /// A path through points, `aside` to the right.
    fn path(&mut self, points: &[(i32, i32)], aside: i32, class: &str, more: &str) {
        let mut d = String::new();
        for (n, (x, y)) in points.iter().enumerate() {
            let letter = if n == 0 { 'M' } else { 'L' };
            let _ = write!(d, "{letter}{} {y}", x + aside);
        }
        self.line(&format!("<path class=\"{class}\" d=\"{d}\"{more}/>"));
    }

    fn plane(&mut self, points: &[(i32, i32)], aside: i32, hierarchy: usize) {
        let (colour, pattern) = COLOURS[hierarchy % COLOURS.len()];
        let more = format!(" stroke=\"{colour}\" stroke-dasharray=\"{pattern}\"");
        self.path(points, aside, "plane", &more);
    }

    fn wire(&mut self, fabric: &Fabric, wire: &Wire) {
        let Some(link) = fabric.links.get(wire.link) else { return };
        let Some([a, b]) = fabric.nodes_of(link) else { return };
        let [at_a, at_b] = link.ends;
        let what = format!("{} to {}: {}", at_a.of(a), at_b.of(b), link.label());
        self.line(&format!("<g><title>{}</title>", escape(&what)));
        self.path(&wire.points, 0, class(link), "");
        for (n, hierarchy) in link.hierarchies.iter().enumerate() {
            self.plane(&wire.points, 4 * (n as i32 + 1), *hierarchy);
        }
        self.line("</g>");
    }

    fn node(&mut self, fabric: &Fabric, b: &Boxed) {
        let Some(node) = fabric.nodes.get(b.node) else { return };
        let what = format!("{}: {}", node.title(), node.lines().join(", "));
        self.line(&format!("<g><title>{}</title>", escape(&what)));
        self.shape(&b.rect, node.kind, node.here);
        if node.role == Some(Role::Master) {
            let Rect { x, y, w, h } = b.rect;
            // Between the numbers of the ports.
            let inner = Rect { x: x + 5, y: y + EDGE, w: w - 10, h: h - 2 * EDGE };
            self.shape_of(&inner, node.kind, "box inner");
        }
        for (n, line) in b.lines.iter().enumerate() {
            self.text(line, if n == 0 { "title" } else { "" });
        }
        for port in &b.ports {
            self.text(port, "port");
        }
        self.line("</g>");
    }

    fn shape(&mut self, r: &Rect, kind: Kind, here: bool) {
        let kind_class = match kind {
            Kind::Host => "",
            Kind::Switch => " switch",
            Kind::Endpoint => " endpoint",
        };
        let class = format!("box{kind_class}{}", if here { " here" } else { "" });
        self.shape_of(r, kind, &class);
    }

    /// Hosts are round at the corners, switches cut, endpoints sharp.
    fn shape_of(&mut self, r: &Rect, kind: Kind, class: &str) {
        let round = |r: &Rect| 10.min(r.h / 3);
        match kind {
            Kind::Host => self.rect(r, class, round(r)),
            Kind::Endpoint => self.rect(r, class, 0),
            Kind::Switch => {
                let (c, Rect { x, y, w, h }) = (round(r), *r);
                self.line(&format!(
                    "<path class=\"{class}\" d=\"M{} {y}h{}l{c} {c}v{}l-{c} {c}h-{}l-{c} -{c}v-{}z\"/>",
                    x + c,
                    w - 2 * c,
                    h - 2 * c,
                    w - 2 * c,
                    h - 2 * c,
                ));
            }
        }
    }

    fn legend(&mut self, layout: &Layout, legend: &[Entry]) {
        let mut y = layout.height;
        let x = layout.left + 24;
        for entry in legend {
            let middle = y + ROW / 2;
            let line = [(x, middle), (x + SAMPLE, middle)];
            let rect = Rect { x: x + 8, y: y + 3, w: SAMPLE - 16, h: ROW - 6 };
            match entry.shape {
                Shape::Wire(class) => self.path(&line, 0, class, ""),
                Shape::Plane(n) => self.plane(&line, 0, n),
                Shape::Box(kind, here) => self.shape(&rect, kind, here),
            }
            let text = Text {
                text: entry.text.clone(),
                rect: Rect { x: x + SAMPLE + 12, y: y + 2, w: 0, h: ROW - 4 },
            };
            self.text(&text, "left");
            y += ROW;
        }
    }
}
