// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What something can happen to: the module, functions, ports and their links, each by
//! the name that people know it by.

use std::fmt;

/// What something happens to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// The module.
    Module,
    /// A PCI function, by its address.
    Function(String),
    /// A port, by the name of its device file.
    Port(String),
    /// A link of a port.
    Link(String, u32),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Object::Module => f.write_str("weft.ko"),
            Object::Function(address) => f.write_str(address),
            Object::Port(name) => f.write_str(name),
            Object::Link(name, n) => write!(f, "{name} link {n}"),
        }
    }
}
