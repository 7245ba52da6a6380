// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Columns as wide as their widest cell.

/// Lays rows out under a heading, two blanks between columns.
pub fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let width = |n: usize| {
        let cells = rows.iter().map(|row| row[n].chars().count());
        cells.chain([heading[n].chars().count()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = padded.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    };
    let mut text = line(heading);
    for row in rows {
        text.push_str(&line(row.each_ref().map(String::as_str)));
    }
    text
}

/// `yes` or `no`.
pub fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

/// Something that may be missing.
pub fn or_dash(value: Option<&str>) -> String {
    value.unwrap_or("-").into()
}
