// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Which row a node is in, and in which order the nodes of a row stand: a row a hop
//! from this host, in each row beside each other what is joined to the same.

use super::fabric::Fabric;
use std::collections::VecDeque;

/// How often rows are put into order by those beside them.
const SWEEPS: usize = 8;

/// The nodes, by number, row by row. Those that cannot be reached stand below.
pub fn rows(fabric: &Fabric) -> Vec<Vec<usize>> {
    let neighbours = neighbours(fabric);
    let row_of = distances(fabric, &neighbours);
    let count = row_of.iter().max().map_or(0, |most| most + 1);
    let mut rows = vec![Vec::new(); count];
    for node in by_id(fabric) {
        rows[row_of[node]].push(node);
    }
    let mut place = vec![0.0; fabric.nodes.len()];
    spread(&rows, &mut place);
    for sweep in 0..SWEEPS {
        // Down by those above, then up by those below.
        let upwards = sweep % 2 == 1;
        for n in 0..count {
            let n = if upwards { count - 1 - n } else { n };
            let beside = if upwards { n + 1 } else { n.wrapping_sub(1) };
            let middle = |node: usize| {
                let near = neighbours[node].iter().filter(|other| row_of[**other] == beside);
                let near: Vec<f64> = near.map(|other| place[*other]).collect();
                match near.len() {
                    0 => place[node],
                    count => near.iter().sum::<f64>() / count as f64,
                }
            };
            let mut row: Vec<(f64, usize)> = rows[n].iter().map(|m| (middle(*m), *m)).collect();
            // Stable: those without a preference stay.
            row.sort_by(|a, b| a.0.total_cmp(&b.0));
            rows[n] = row.into_iter().map(|(_, node)| node).collect();
            spread(&rows[n..=n], &mut place);
        }
    }
    rows
}

/// Numbers of the nodes, the lowest hardware id first.
fn by_id(fabric: &Fabric) -> Vec<usize> {
    let mut all: Vec<usize> = (0..fabric.nodes.len()).collect();
    all.sort_by_key(|n| fabric.nodes[*n].hwid);
    all
}

fn neighbours(fabric: &Fabric) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); fabric.nodes.len()];
    for link in fabric.links.iter().filter(|link| fabric.nodes_of(link).is_some()) {
        let [a, b] = link.ends.map(|end| end.node);
        all[a].push(b);
        all[b].push(a);
    }
    all
}

/// In hops from this host; what it does not reach begins below all else.
fn distances(fabric: &Fabric, neighbours: &[Vec<usize>]) -> Vec<usize> {
    let mut row_of: Vec<Option<usize>> = vec![None; fabric.nodes.len()];
    let here = fabric.nodes.iter().position(|node| node.here);
    let mut first = 0;
    for start in here.into_iter().chain(by_id(fabric)) {
        if row_of[start].is_some() {
            continue;
        }
        row_of[start] = Some(first);
        let mut next = VecDeque::from([(start, first)]);
        while let Some((node, row)) = next.pop_front() {
            for other in &neighbours[node] {
                if row_of[*other].is_none() {
                    row_of[*other] = Some(row + 1);
                    next.push_back((*other, row + 1));
                }
            }
        }
        first = row_of.iter().flatten().max().map_or(0, |most| most + 1);
    }
    row_of.into_iter().flatten().collect()
}

/// Where in its row each node stands, from 0 to 1.
fn spread(rows: &[Vec<usize>], place: &mut [f64]) {
    for row in rows {
        for (n, node) in row.iter().enumerate() {
            place[*node] = (n as f64 + 0.5) / row.len() as f64;
        }
    }
}
