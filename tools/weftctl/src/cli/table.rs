// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Columns of text.

/// Lines of cells, each column as wide as its widest cell.
pub fn table(rows: &[Vec<String>], indent: usize) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column| {
        let cells = rows.iter().filter_map(|row| row.get::<usize>(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(&format!("{:indent$}{}\n", "", line.trim_end()));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let text = super::table(&[row(["A", "LONG", "C"]), row(["aaa", "b", ""])], 2);
        assert_eq!(text, "  A    LONG  C\n  aaa  b\n");
    }
}
