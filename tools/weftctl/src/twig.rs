// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Lines of a tree, in the manner of `lspci -t`: what stands before each.

/// How far in a line of a tree stands.
pub struct Twig {
    /// What stands before its corner.
    indent: String,
    last: bool,
}

impl Twig {
    /// That of the root.
    pub fn root() -> Self {
        Twig { indent: String::new(), last: true }
    }

    /// That of what hangs below; the last, or one with others below it.
    pub fn next(&self, last: bool) -> Self {
        let bar = match (self.indent.is_empty(), self.last) {
            (true, _) => " ",
            (_, true) => "    ",
            (_, false) => "|   ",
        };
        Twig { indent: format!("{}{bar}", self.indent), last }
    }

    /// What a line begins with.
    pub fn corner(&self) -> String {
        format!("{}{}-", self.indent, if self.last { "\\" } else { "+" })
    }
}
