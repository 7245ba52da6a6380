// SPDX-License-Identifier: GPL-2.0

//! The layout of a Weft port: the numbers of vectors, doorbells and their pages, and register offsets.
//!
//! Numbers only: this file must not know how anything is used.

use crate::sys::ext;

/// Vectors; those of the doorbells begin at [`DOORBELL_VECTOR`].
pub(super) const LINK_VECTOR: u32 = 0;
pub(super) const MBOX_VECTOR: u32 = 1;
pub(super) const ERROR_VECTOR: u32 = 2;
pub(super) const DOORBELL_VECTOR: u32 = 4;

// `links` is the number of links to neighbours. Their doorbells and pages come first, then the one for
// users of this host, then those of routed links.

/// Doorbells of a link: wake, to make the driver read the rings, and echo, to be rung back.
pub(super) const fn wake(links: usize, link: usize) -> u32 {
    2 * link as u32 + if link < links { 0 } else { 1 }
}
pub(super) const fn echo(links: usize, link: usize) -> u32 {
    wake(links, link) + 1
}
pub(super) const fn bells(links: usize, link: usize) -> u32 {
    1 << wake(links, link) | 1 << echo(links, link)
}

/// Number of the doorbell page of users for `link`, and of that of the kernel.
pub(super) const fn user_page(links: usize, link: usize) -> usize {
    if link < links {
        link
    } else {
        2 * link + 1
    }
}
pub(super) const fn kernel_page(links: usize, link: usize) -> usize {
    if link < links {
        links + link
    } else {
        2 * link + 2
    }
}

/// Doorbell by which users of this host ring for the driver, and its page.
pub(super) const fn kick(links: usize) -> u32 {
    2 * links as u32
}
pub(super) const fn kick_page(links: usize) -> usize {
    2 * links
}

/// Vector of the DMA engine, after those of the doorbells.
pub(super) const fn dma_vector(links: usize) -> u32 {
    DOORBELL_VECTOR + kick(links) + 1
}

/// Vector of all doorbells of routed links.
pub(super) const fn far_vector(links: usize) -> u32 {
    dma_vector(links) + 1
}

// `all` is the number of all links. The doorbells and pages of endpoint slots follow those of the links.

/// Doorbell that the remote function of an endpoint slot rings. The page to ring at the remote function
/// has the same number.
pub(super) const fn endpoint_bell(all: usize, slot: usize) -> u32 {
    (2 * all + 1 + slot) as u32
}

/// Vector of the doorbells of all endpoint slots.
pub(super) const fn endpoint_vector(links: usize) -> u32 {
    far_vector(links) + 1
}

/// The number of gates: pairs of link and virtual plane. Routed traffic arrives through a gate.
pub(super) const GATES: usize = (ext::WEFT_MAX_LINKS * ext::WEFT_VPS) as usize;

/// Descriptors of a ring of the DMA engine, as a power of two.
pub(super) const DMA_ORDER: u32 = 5;
/// Elements of a list of the DMA engine.
pub(super) const DMA_PIECES: usize = 128;

/// Functions that return the offset of register `reg` in group `n` of the groups at a base.
macro_rules! groups {
    ($($name:ident: $base:ident, $stride:ident;)*) => {
        $(pub(super) fn $name(n: usize, reg: u32) -> usize {
            ext::$base as usize + ext::$stride as usize * n + reg as usize
        })*
    };
}

groups! {
    link_reg: WEFT_R_LINK, WEFT_LINK_STRIDE;
    slot_reg: WEFT_R_SLOT, WEFT_SLOT_STRIDE;
    inbound_reg: WEFT_R_INBOUND, WEFT_INBOUND_STRIDE;
    page_reg: WEFT_R_DB_PAGE, WEFT_DB_PAGE_STRIDE;
    vf_reg: WEFT_R_VF, WEFT_VF_STRIDE;
    route_reg: WEFT_R_ROUTE, WEFT_ROUTE_STRIDE;
}

/// Returns the field `mask` of a register's value, shifted down.
pub(super) fn field(value: u32, mask: u32) -> u32 {
    (value & mask) >> mask.trailing_zeros()
}
