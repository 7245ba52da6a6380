// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the engines of queue pairs tell each other, message by message, from the
//! driver's tracepoints `weft:weft_cell` and `weft:weft_word`.
//!
//! [`event`] reads their lines, [`sequence`] puts together what belongs to a
//! request, [`picture`] draws it as arrows between initiator and responder,
//! [`source`] gets lines from the kernel. The messages are explained in
//! `Documentation/queues.rst`.

pub mod event;
pub mod picture;
pub mod sequence;
pub mod source;
