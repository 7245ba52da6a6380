// SPDX-License-Identifier: GPL-2.0 OR MIT

//! What no manager can do without: see "Lower bounds" in `Documentation/manager.rst`.

use crate::{rng::Rng, scale::Scale};
use serde::Serialize;
use weft_proto::nm::scale::state::SHORTEST;

/// Nodes from which distances are measured.
const SAMPLES: usize = 48;

/// Least messages, bytes and rounds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bound {
    /// Messages over all links.
    pub messages: f64,
    /// Bytes of those.
    pub bytes: f64,
    /// Rounds until the last node has its id.
    pub rounds: u64,
}

/// The bound of a fabric all of whose nodes are on, and all links up.
pub fn of(scale: &Scale, seed: u64) -> Bound {
    let nodes = scale.nodes.len();
    let mut rng = Rng::new(seed);
    let samples = SAMPLES.min(nodes);
    let mut news = 0.0;
    for n in 0..samples {
        let node = if samples == nodes { n } else { rng.below(nodes as u64) as usize };
        news += news_at(&scale.distances(node));
    }
    let news = nodes as f64 * news / samples.max(1) as f64;
    let master = (0..nodes).min_by_key(|node| scale.hwids[*node]).unwrap_or(0);
    let far = scale.distances(master);
    let farthest = far.iter().filter(|d| **d != u32::MAX).max().copied().unwrap_or(0);
    let hellos = 2 * scale.topology.links().len();
    let tree = 2 * nodes.saturating_sub(1);
    let messages = hellos as f64 + news + tree as f64;
    Bound { messages, bytes: messages * SHORTEST as f64, rounds: 2 * u64::from(farthest) }
}

/// How often, in the mean over all placements of ids, the lowest id within d links of a node is another
/// than that within d - 1: with the chance that the lowest of the ball lies in its shell. The first shell
/// is left out, for that is told by the hellos.
fn news_at(far: &[u32]) -> f64 {
    let mut shells: Vec<u64> = Vec::new();
    for d in far.iter().filter(|d| **d != u32::MAX) {
        let d = *d as usize;
        if shells.len() <= d {
            shells.resize(d + 1, 0);
        }
        shells[d] += 1;
    }
    let mut ball = 0;
    let mut news = 0.0;
    for (d, shell) in shells.iter().enumerate() {
        ball += shell;
        if d >= 2 {
            news += *shell as f64 / ball as f64;
        }
    }
    news
}
