// SPDX-License-Identifier: GPL-2.0

//! The ioctls of sockets: they make a file a socket, or what listens for some.

use super::{
    call::{check, Call},
    channel::{check_service, link, timeout},
    file::Role,
};
use crate::{
    channel::MAX_TIMEOUT_MS,
    socket::Wanted,
    sys::{
        chrdev::Borrowed,
        ext::{
            self, weft_sock_accept, weft_sock_connect, weft_sock_info, weft_sock_listen,
            weft_sock_shutdown,
        },
    },
};
use kernel::prelude::*;

/// `WEFT_SOCK_LISTEN`.
pub(super) fn listen(call: &Call<'_>, listen: weft_sock_listen) -> Result {
    check(listen.flags == 0)?;
    check((1..=ext::WEFT_SOCK_MAX_BACKLOG).contains(&listen.backlog))?;
    check_service(listen.service)?;
    let file = call.file;
    file.node.may_begin()?;
    file.become_role(|| {
        let (waiters, backlog) = (file.waiters.clone(), listen.backlog as usize);
        let listener = file
            .sockets
            .listen(&file.payer, listen.service, backlog, waiters)?;
        Ok(Role::SocketListening(listener))
    })
}

/// `WEFT_SOCK_CONNECT`.
pub(super) fn connect(call: &Call<'_>, connect: weft_sock_connect) -> Result {
    check(connect.flags == 0 && connect.reserved == 0)?;
    check(connect.timeout_ms <= MAX_TIMEOUT_MS)?;
    check_service(connect.service)?;
    call.file.node.may_begin()?;
    let bytes = match connect.bytes {
        0 => ext::WEFT_SOCK_DEFAULT_BYTES,
        bytes => bytes,
    };
    let wanted = Wanted {
        peer: connect.peer,
        link: link(connect.link),
        service: connect.service,
        data: 0,
        shape: Wanted::shape(connect.protocol, bytes)?,
        timeout: timeout(connect.timeout_ms),
    };
    let file = call.file;
    let mut answered = Ok(());
    file.become_role(|| {
        let over = (&*file.node, &*file.engine);
        let by = (&*file.payer, call.inside);
        let waiters = file.waiters.clone();
        let (socket, result) = file
            .sockets
            .connect(over, by, &wanted, waiters, call.nonblock)?;
        answered = result;
        Ok(Role::Socket(socket))
    })?;
    answered
}

/// `WEFT_SOCK_ACCEPT`.
pub(super) fn accept(call: &Call<'_>, accept: weft_sock_accept) -> Result {
    check(accept.flags == 0 && accept.reserved == 0)?;
    call.file.node.may_begin()?;
    let listening = Borrowed::get(accept.listen_fd)?;
    let file = call.file;
    let Some(Role::SocketListening(listener)) = file.role_of(listening.file()) else {
        return Err(EINVAL);
    };
    file.become_role(|| {
        let over = (&*file.node, &*file.engine);
        let by = (&*file.payer, call.inside);
        let waiters = file.waiters.clone();
        let socket = file
            .sockets
            .accept(over, by, listener, waiters, call.nonblock)?;
        Ok(Role::Socket(socket))
    })
}

/// `WEFT_SOCK_INFO`.
pub(super) fn info(call: &Call<'_>, info: weft_sock_info) -> Result {
    check(info.flags == 0 && info.reserved == 0)?;
    let found = call.file.socket()?.info();
    call.write(&weft_sock_info {
        size: info.size,
        ..found
    })
}

/// `WEFT_SOCK_SHUTDOWN`.
pub(super) fn shutdown(call: &Call<'_>, shutdown: weft_sock_shutdown) -> Result {
    check(shutdown.flags == 0 && shutdown.reserved == 0)?;
    let how = shutdown.how;
    check(how != 0 && how & !(ext::WEFT_SHUT_RECV | ext::WEFT_SHUT_SEND) == 0)?;
    let file = call.file;
    let socket = file.socket()?;
    let (sends, receives) = (
        how & ext::WEFT_SHUT_SEND != 0,
        how & ext::WEFT_SHUT_RECV != 0,
    );
    // It may wait for another call, and for the peer.
    call.outside(|| {
        file.sockets
            .shut_down((&*file.node, &*file.engine), socket, sends, receives)
    })
}
