// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The payload of a message, as its sender has it: in one piece of memory, or in several.
//!
//! This file is independent of where it is stored.

use super::window::Window;

/// A payload.
pub trait Payload {
    /// Returns its length in bytes.
    fn bytes(&self) -> usize;

    /// Stores it at `at`, a multiple of 8, as [`Window::write`] does.
    fn store<W: Window>(&self, window: &W, at: usize);
}

impl Payload for [u8] {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn store<W: Window>(&self, window: &W, at: usize) {
        window.write(at, self);
    }
}

/// A payload in pieces, one behind the other.
#[derive(Clone)]
pub struct Pieces<I>(pub I);

impl<'a, I: Iterator<Item = &'a [u8]> + Clone> Payload for Pieces<I> {
    fn bytes(&self) -> usize {
        // More than any message has, if they do not fit into a number.
        self.0
            .clone()
            .fold(0usize, |sum, piece| sum.saturating_add(piece.len()))
    }

    fn store<W: Window>(&self, window: &W, mut at: usize) {
        // The word that a piece has begun, and how many bytes of it there are.
        let (mut word, mut held) = ([0; 8], 0);
        for mut piece in self.0.clone() {
            if held > 0 {
                let (first, rest) = piece.split_at(piece.len().min(word.len() - held));
                word[held..held + first.len()].copy_from_slice(first);
                held += first.len();
                piece = rest;
                if held < word.len() {
                    continue;
                }
                window.write(at, &word);
                at += word.len();
            }
            let (whole, begun) = piece.split_at(piece.len() & !7);
            window.write(at, whole);
            at += whole.len();
            word[..begun.len()].copy_from_slice(begun);
            held = begun.len();
        }
        window.write(at, &word[..held]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::fence::Fence;
    use core::cell::RefCell;

    /// Words that were stored, with their places.
    struct Stored(RefCell<Vec<(usize, u64)>>);

    impl Window for Stored {
        fn store(&self, at: usize, word: u64) {
            self.0.borrow_mut().push((at, word));
        }

        fn wmb(&self, _: Fence) {}

        fn mb(&self, _: Fence) {}
    }

    fn stored(payload: &(impl Payload + ?Sized)) -> (usize, Vec<(usize, u64)>) {
        let window = Stored(RefCell::new(vec![]));
        payload.store(&window, 64);
        (payload.bytes(), window.0.into_inner())
    }

    #[test]
    fn pieces_are_stored_as_the_whole_is() {
        for len in 0..=26 {
            let whole: Vec<u8> = (1..=len).collect();
            let want = stored(whole.as_slice());
            for first in 0..=whole.len() {
                for second in first..=whole.len() {
                    let pieces = [&whole[..first], &whole[first..second], &whole[second..]];
                    assert_eq!(stored(&Pieces(pieces.into_iter())), want, "{pieces:?}");
                }
            }
        }
    }
}
