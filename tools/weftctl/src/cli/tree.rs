// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `tree`: the nodes of the fabric, as a tree that begins here, or as a picture; the virtual
//! hierarchy of a host.

use super::{Context, End};
use crate::channel::Port;
use crate::failure::{Failure, Kind, plain};
use crate::map;
use crate::multiroot::{Hierarchy, Known, Names, vh};
use crate::tree::{Node, picture, text};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct Args {
    /// Draw it as SVG, into a file or to the standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    svg: Option<PathBuf>,
    /// Show the virtual hierarchy of a host instead: its endpoints and the switches on the
    /// way. HOST is a serial number, a local id, a hardware id, or all [default: this host]
    #[arg(long, value_name = "HOST", num_args = 0..=1, conflicts_with = "svg")]
    vh: Option<Option<String>>,
}

#[derive(Serialize)]
struct Report {
    port: String,
    nodes: Vec<Node>,
    /// Those that this host is told of, its own first.
    hierarchies: Vec<Hierarchy>,
}

#[derive(Serialize)]
struct Hierarchies {
    port: String,
    hierarchies: Vec<Hierarchy>,
}

#[derive(Serialize)]
struct Drawn {
    port: String,
    /// The picture itself, or the file that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    svg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
}

pub fn run(context: &Context, args: &Args) -> Result<(), End> {
    let port = Port::open(&context.port()?)?;
    let name = port.info()?.port;
    if let Some(host) = &args.vh {
        let known = port.known()?;
        let hierarchies = chosen(&port, &known, host.as_deref())?;
        let all = Hierarchies { port: name, hierarchies };
        return context.print(&all, |all| {
            all.hierarchies.iter().map(|tree| vh::text(tree, &known)).collect()
        });
    }
    let (fabric, known) = (port.fabric()?, port.known()?);
    if let Some(file) = &args.svg {
        return draw(context, name, &picture(&fabric, &known), file);
    }
    let nodes = fabric.nodes.iter().map(|node| Node::new(node, &known)).collect();
    let report = Report { port: name, nodes, hierarchies: known.hierarchies.clone() };
    context.print(&report, |_| text(&fabric, &known))
}

/// Which hierarchies are meant.
fn chosen(port: &Port, known: &Known, host: Option<&str>) -> Result<Vec<Hierarchy>, Failure> {
    let own = || known.hierarchies.iter().take(1).cloned().collect();
    let host = match host {
        None => return Ok(own()),
        Some("all") if known.components.is_some() => return Ok(known.hierarchies.clone()),
        // A caller that may not know them says why.
        Some("all") => return port.components().map(|_| own()),
        Some(host) => host,
    };
    let root = Names::new(known.components.as_deref()).find(host, "host");
    let root = match (root, known.components.is_some()) {
        (Ok(root), _) => root,
        (Err(failure), true) => return Err(failure),
        (Err(failure), false) => return Err(port.components().err().unwrap_or(failure)),
    };
    let gone = || Failure::new(Kind::Usage, format!("there is no host {root} in the fabric"));
    let hierarchy = port.hierarchy(root)?.ok_or_else(gone)?;
    Ok(vec![hierarchy])
}

fn draw(context: &Context, port: String, fabric: &map::Fabric, file: &Path) -> Result<(), End> {
    let drawing = map::draw(fabric);
    if file == Path::new("-") {
        let drawn = Drawn { port, svg: Some(drawing), file: None };
        return context.print(&drawn, |drawn| drawn.svg.clone().unwrap_or_default());
    }
    fs::write(file, drawing).map_err(|e| {
        let message = format!("{} cannot be written: {}", file.display(), plain(e));
        Failure::new(Kind::Failed, message)
    })?;
    let drawn = Drawn { port, svg: None, file: Some(file.into()) };
    context.print(&drawn, |_| format!("the fabric is drawn in {}\n", file.display()))
}
