// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Where the parts of a picture go, in pixels. Nodes stand in rows, a hop from this
//! host each; the links between two rows, and those within the upper one, are in the
//! gap between them. A gap has as many lanes as its labels need not to touch each
//! other, and no box is in it: so no text is ever on another.

use super::fabric::{End, Fabric};
use super::order;

/// A character of the monospaced font, generously.
const CHAR: i32 = 8;
/// A line of text.
pub const LINE: i32 = 18;
/// Room for a port's number at the edge of a box.
const PORT: i32 = 30;
/// Height of that.
pub const EDGE: i32 = 18;
const MARGIN: i32 = 24;
/// Between two boxes of a row.
const BETWEEN: i32 = 36;
/// A lane of labels.
const LANE: i32 = 24;
/// Between a box and the first lane.
const CLEAR: i32 = 22;
/// Above all: the title.
const HEAD: i32 = 34;

/// A rectangle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    /// Left edge.
    pub x: i32,
    /// Upper edge.
    pub y: i32,
    /// Width.
    pub w: i32,
    /// Height.
    pub h: i32,
}

impl Rect {
    /// Whether they have something in common.
    pub fn meets(&self, other: &Rect) -> bool {
        let apart = self.x + self.w <= other.x
            || other.x + other.w <= self.x
            || self.y + self.h <= other.y
            || other.y + other.h <= self.y;
        !apart
    }
}

/// A text and the room it has; it stands in its middle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// What.
    pub text: String,
    /// Where.
    pub rect: Rect,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boxed {
    /// Which of the nodes.
    pub node: usize,
    /// Its box.
    pub rect: Rect,
    /// Its name, then what else is to be said.
    pub lines: Vec<Text>,
    /// Numbers of ports, at the edges.
    pub ports: Vec<Text>,
}

/// A link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Which of the links.
    pub link: usize,
    /// From corner to corner.
    pub points: Vec<(i32, i32)>,
    /// What is said of it, on it.
    pub label: Text,
}

/// The whole picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where it begins.
    pub left: i32,
    /// Its width, without a legend.
    pub width: i32,
    /// Its height, without a legend.
    pub height: i32,
    /// The nodes, by rows.
    pub boxes: Vec<Boxed>,
    /// The links.
    pub wires: Vec<Wire>,
}

/// How wide a text is.
pub fn width_of(text: &str) -> i32 {
    i32::try_from(text.chars().count()).unwrap_or(i32::MAX / 64).saturating_mul(CHAR)
}

/// A place where a link leaves a node.
struct Plug {
    link: usize,
    end: End,
    /// At the upper edge.
    up: bool,
    x: i32,
}

/// Puts everything into its place.
pub fn lay(fabric: &Fabric) -> Layout {
    let rows = order::rows(fabric);
    let mut boxes = place_boxes(fabric, &rows);
    let width = boxes.iter().map(|b| b.rect.x + b.rect.w + MARGIN).max().unwrap_or(0);
    let width = width.max(width_of(&fabric.title()) + 2 * MARGIN);
    let row_of = |node: usize| rows.iter().position(|row| row.contains(&node)).unwrap_or(0);
    let valid = |n: &usize| fabric.links.get(*n).is_some_and(|l| fabric.nodes_of(l).is_some());
    let links: Vec<usize> = (0..fabric.links.len()).filter(valid).collect();
    let plugs = plugs(fabric, &boxes, &links, &row_of);
    let mut wires = Vec::new();
    let mut y = HEAD + MARGIN;
    for (n, row) in rows.iter().enumerate() {
        let in_row = |b: &&mut Boxed| row.contains(&b.node);
        let height = boxes.iter_mut().filter(in_row).map(|b| b.rect.h).max().unwrap_or(0);
        boxes.iter_mut().filter(in_row).for_each(|b| sink(b, y, height, &plugs));
        y += height;
        let upper =
            |l: &&usize| fabric.links[**l].ends.iter().map(|e| row_of(e.node)).min() == Some(n);
        let its: Vec<Span> = links.iter().filter(upper).map(|l| span(fabric, *l, &plugs)).collect();
        let (found, height) = gap(&its, y);
        wires.extend(found);
        y += height;
    }
    wires.sort_by_key(|wire| wire.link);
    // The label of a link at the edge may need more room than the boxes.
    let labels = || wires.iter().map(|wire| wire.label.rect);
    let left = labels().map(|label| label.x - MARGIN / 2).min().unwrap_or(0).min(0);
    let right = labels().map(|label| label.x + label.w + MARGIN / 2).max().unwrap_or(0).max(width);
    Layout { left, width: right - left, height: y + MARGIN - CLEAR, boxes, wires }
}

/// Boxes side by side, rows in the middle; heights are not theirs yet.
fn place_boxes(fabric: &Fabric, rows: &[Vec<usize>]) -> Vec<Boxed> {
    let ends = || fabric.links.iter().flat_map(|link| link.ends);
    let size = |n: usize| {
        let node = &fabric.nodes[n];
        let lines = node.lines();
        let text = lines.iter().chain([&node.title()]).map(|l| width_of(l)).max().unwrap_or(0);
        let plugs = ends().filter(|end| end.node == n).count() as i32 * PORT;
        (text.max(plugs) + 24, (lines.len() as i32 + 1) * LINE + 2 * EDGE + 14)
    };
    let row_width = |row: &Vec<usize>| {
        let boxes: i32 = row.iter().map(|n| size(*n).0).sum();
        boxes + BETWEEN * (row.len() as i32 - 1)
    };
    let widest = rows.iter().map(row_width).max().unwrap_or(0);
    let mut boxes = Vec::new();
    for row in rows {
        let mut x = MARGIN + (widest - row_width(row)) / 2;
        for n in row {
            let (w, h) = size(*n);
            let rect = Rect { x, y: 0, w, h };
            x += w + BETWEEN;
            let text = |text| Text { text, rect: Rect::default() };
            let lines = std::iter::once(fabric.nodes[*n].title()).chain(fabric.nodes[*n].lines());
            boxes.push(Boxed { node: *n, rect, lines: lines.map(text).collect(), ports: vec![] });
        }
    }
    boxes
}

/// Gives a box its height and its place in the picture, and its texts theirs.
fn sink(b: &mut Boxed, y: i32, height: i32, plugs: &[Plug]) {
    b.rect.y = y;
    b.rect.h = height;
    let block = b.lines.len() as i32 * LINE;
    let mut at = y + (height - block) / 2;
    for line in &mut b.lines {
        let w = width_of(&line.text);
        line.rect = Rect { x: b.rect.x + (b.rect.w - w) / 2, y: at, w, h: LINE };
        at += LINE;
    }
    let its = plugs.iter().filter(|plug| plug.end.node == b.node);
    let edge = |plug: &Plug| if plug.up { y + 1 } else { y + height - EDGE - 1 };
    b.ports = its.filter_map(|plug| port(plug, edge(plug))).collect();
}

fn port(plug: &Plug, y: i32) -> Option<Text> {
    let text = plug.end.port?.to_string();
    let w = width_of(&text);
    Some(Text { text, rect: Rect { x: plug.x - w / 2, y, w, h: EDGE } })
}

/// Where links leave their nodes: at the edge that faces the other end, in the order
/// in which the other ends stand.
fn plugs(
    fabric: &Fabric,
    boxes: &[Boxed],
    links: &[usize],
    row_of: &dyn Fn(usize) -> usize,
) -> Vec<Plug> {
    let middle_of = |node: usize| {
        let found = boxes.iter().find(|b| b.node == node);
        found.map_or(0, |b| b.rect.x + b.rect.w / 2)
    };
    let mut all = Vec::new();
    for b in boxes {
        for up in [true, false] {
            let mut here: Vec<(i32, Option<u32>, usize, End)> = Vec::new();
            for link in links {
                let [a, z] = fabric.links[*link].ends;
                for (end, other) in [(a, z), (z, a)] {
                    let above = row_of(other.node) < row_of(b.node);
                    if end.node == b.node && above == up {
                        here.push((middle_of(other.node), end.port, *link, end));
                    }
                }
            }
            here.sort_by_key(|(x, port, link, _)| (*x, *port, *link));
            let step = b.rect.w / (here.len() as i32 + 1);
            for (n, (_, _, link, end)) in here.into_iter().enumerate() {
                all.push(Plug { link, end, up, x: b.rect.x + step * (n as i32 + 1) });
            }
        }
    }
    all
}

/// A link in its gap: where it begins at the upper row, and where it ends.
struct Span {
    link: usize,
    from: i32,
    to: i32,
    /// It ends at the upper row, too.
    beside: bool,
    label: String,
}

fn span(fabric: &Fabric, link: usize, plugs: &[Plug]) -> Span {
    let mut its: Vec<&Plug> = plugs.iter().filter(|plug| plug.link == link).collect();
    its.sort_by_key(|plug| (plug.up, plug.x, plug.end.port));
    let at = |n: usize| its.get(n).map_or(0, |plug| plug.x);
    let beside = its.iter().all(|plug| !plug.up);
    Span { link, from: at(0), to: at(1), beside, label: fabric.links[link].label() }
}

/// The links of a gap that begins at `top`, and its height: with as few lanes as
/// keep labels apart.
fn gap(spans: &[Span], top: i32) -> (Vec<Wire>, i32) {
    let most = spans.len() as i32;
    for lanes in 0..=most {
        let height = 2 * CLEAR + lanes * LANE;
        if let Some(wires) = fill(spans, top, height, lanes) {
            return (wires, height);
        }
    }
    // With a lane each there is room for all.
    (Vec::new(), 2 * CLEAR)
}

/// Puts each label into the first lane, from the middle outwards, where it touches
/// nothing.
fn fill(spans: &[Span], top: i32, height: i32, lanes: i32) -> Option<Vec<Wire>> {
    let mut taken: Vec<Rect> = Vec::new();
    let mut wires = Vec::new();
    for span in spans {
        let (w, h) = (width_of(&span.label) + 8, LINE);
        let place = |lane: i32| {
            let y = top + CLEAR + lane * LANE + LANE / 2;
            let x = match span.beside {
                true => (span.from + span.to) / 2,
                false => span.from + (span.to - span.from) * (y - top) / height,
            };
            let label = Rect { x: x - w / 2, y: y - h / 2, w, h };
            // A link beside its row lies in its lane as a whole.
            let room = match span.beside {
                true => {
                    let (left, right) = (span.from.min(span.to), span.from.max(span.to));
                    let x = left.min(label.x) - 8;
                    Rect { x, w: right.max(label.x + w) + 8 - x, ..label }
                }
                false => Rect { x: label.x - 4, w: w + 8, ..label },
            };
            (y, label, room)
        };
        let mut order: Vec<i32> = (0..lanes).collect();
        order.sort_by_key(|lane| (2 * lane + 1 - lanes).abs());
        let free = |lane: &i32| taken.iter().all(|rect| !rect.meets(&place(*lane).2));
        let (y, rect, room) = place(order.into_iter().find(free)?);
        taken.push(room);
        let bottom = top + height;
        let points = match span.beside {
            true => vec![(span.from, top), (span.from, y), (span.to, y), (span.to, top)],
            false => vec![(span.from, top), (span.to, bottom)],
        };
        let label = Text { text: span.label.clone(), rect };
        wires.push(Wire { link: span.link, points, label });
    }
    Some(wires)
}
