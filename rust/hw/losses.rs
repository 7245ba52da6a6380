// SPDX-License-Identifier: GPL-2.0

//! What a port tells of data that did not arrive. It must not know what is done about it.

/// Of the links of a port.
pub(crate) trait Losses: Send + Sync {
    /// Whether all that was stored through the attached window has gone where it was to go, and the
    /// neighbour still reaches the arena that it was granted. Else: what is wrong, for people.
    fn intact(&self, link: usize) -> Result<(), &'static str>;

    /// Whether what the neighbour on `link` has written since [`super::Port::grant`] came without a gap:
    /// false if something was dropped, and what was written after it may be there. To be asked before
    /// [`super::Port::withdraw`].
    fn is_sound(&self, link: usize) -> bool;

    /// Counts loads through windows that brought all ones because nothing had answered them. `None`: the
    /// function does not answer either. What was loaded is what is there if the count has not changed
    /// meanwhile.
    fn failed_loads(&self) -> Option<u32>;
}
