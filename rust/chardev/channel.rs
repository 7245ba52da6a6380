// SPDX-License-Identifier: GPL-2.0

//! The ioctls of message channels: they make a file a listener, or one end of a channel.

use super::{
    call::{check, Call},
    file::Role,
};
use crate::{
    channel::{Wanted, MAX_BACKLOG, MAX_TIMEOUT_MS},
    proto::cell::Shape,
    sys::{
        chrdev::Borrowed,
        ext::{
            self, weft_chan_accept, weft_chan_connect, weft_chan_info, weft_chan_kick,
            weft_chan_listen,
        },
    },
};
use kernel::{prelude::*, time::Msecs};

const DEFAULT_TIMEOUT_MS: Msecs = 5000;

/// Checks the number of a service. `EINVAL`: it is none; `EACCES`: it is the kernel's own, at the peer too.
pub(super) fn check_service(service: u32) -> Result {
    match service {
        0 => Err(EINVAL),
        ext::WEFT_SERVICE_KERNEL.. => Err(EACCES),
        _ => Ok(()),
    }
}

/// Returns the number of the link that a caller names, `None` for any.
pub(super) fn link(link: u32) -> Option<usize> {
    match link {
        ext::WEFT_ANY_LINK => None,
        link => Some(link as usize),
    }
}

/// Returns how long a caller waits for its peer.
pub(super) fn timeout(ms: Msecs) -> Msecs {
    match ms {
        0 => DEFAULT_TIMEOUT_MS,
        ms => ms,
    }
}

/// `WEFT_CHAN_LISTEN`.
pub(super) fn listen(call: &Call<'_>, listen: weft_chan_listen) -> Result {
    check(listen.flags == 0)?;
    check((1..=MAX_BACKLOG).contains(&listen.backlog))?;
    check_service(listen.service)?;
    let file = call.file;
    file.node.may_begin()?;
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let backlog = listen.backlog as usize;
        let listener =
            file.channels
                .listen(file.payer.clone(), listen.service, backlog, waiters)?;
        Ok(Role::Listening(listener))
    })
}

/// `WEFT_CHAN_CONNECT`.
pub(super) fn connect(call: &Call<'_>, connect: weft_chan_connect) -> Result {
    check(connect.flags == 0 && connect.reserved == 0)?;
    check(connect.timeout_ms <= MAX_TIMEOUT_MS)?;
    check_service(connect.service)?;
    call.file.node.may_begin()?;
    let wanted = Wanted {
        peer: connect.peer,
        link: link(connect.link),
        service: connect.service,
        shape: Shape::new(connect.cells, connect.bulk).ok_or(EINVAL)?,
        timeout: timeout(connect.timeout_ms),
    };
    let file = call.file;
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let channel =
            file.channels
                .connect(&file.node, &file.payer, call.inside, &wanted, waiters)?;
        Ok(Role::Channel(channel))
    })
}

/// `WEFT_CHAN_ACCEPT`.
pub(super) fn accept(call: &Call<'_>, accept: weft_chan_accept) -> Result {
    check(accept.flags == 0 && accept.reserved == 0)?;
    call.file.node.may_begin()?;
    let listening = Borrowed::get(accept.listen_fd)?;
    let file = call.file;
    let Some(Role::Listening(listener)) = file.role_of(listening.file()) else {
        return Err(EINVAL);
    };
    file.become_role(|| {
        let waiters = file.waiters.clone();
        let channel =
            file.channels
                .accept(&file.node, call.inside, listener, waiters, call.nonblock)?;
        Ok(Role::Channel(channel))
    })
}

/// `WEFT_CHAN_INFO`.
pub(super) fn info(call: &Call<'_>, mut info: weft_chan_info) -> Result {
    check(info.flags == 0)?;
    let size = info.size;
    info = call.file.channel()?.info();
    info.size = size;
    call.write(&info)
}

/// `WEFT_CHAN_KICK`.
pub(super) fn kick(call: &Call<'_>, kick: weft_chan_kick) -> Result {
    check(kick.flags == 0)?;
    call.file.channel()?.kick(&call.file.node)
}
