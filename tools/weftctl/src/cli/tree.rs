// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `tree`: who is in the fabric, as a tree that begins here, or as a picture.

use super::{Context, End};
use crate::channel::Port;
use crate::failure::{Failure, Kind, plain};
use crate::map;
use crate::tree::{Node, picture, text};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};
use weft::Fabric;

#[derive(clap::Args)]
pub struct Args {
    /// Draw it as SVG, into a file or to the standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    svg: Option<PathBuf>,
}

#[derive(Serialize)]
struct Report {
    port: String,
    nodes: Vec<Node>,
    #[serde(skip)]
    fabric: Fabric,
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
    let fabric = port.fabric()?;
    let port = port.info()?.port;
    if let Some(file) = &args.svg {
        return draw(context, port, &fabric, file);
    }
    let nodes = fabric.nodes.iter().map(Node::from).collect();
    let report = Report { port, nodes, fabric };
    context.print(&report, |report| text(&report.fabric))
}

fn draw(context: &Context, port: String, fabric: &Fabric, file: &Path) -> Result<(), End> {
    let drawing = map::draw(&picture(fabric));
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
