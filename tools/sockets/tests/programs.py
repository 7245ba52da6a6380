# SPDX-License-Identifier: GPL-2.0 OR MIT
"""What tests/programs.rs runs with the library: a function a test, which prints nothing if all is as with TCP.

`there` is another host by AF_VSOCK, if there is a transport (examples/vsock_stub.rs), and this one by TCP."""

import array
import errno
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import threading

THERE = "127.0.0.2"
# By the file of hosts; what connects by TCP has another address.
PEER = "127.0.0.3"
MOVED = "moved" in sys.argv[2:]
PAYLOAD = bytes(range(256)) * 4096


def listener(backlog=16, family=socket.AF_INET, at=None):
    server = socket.socket(family)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((("::" if family == socket.AF_INET6 else "0.0.0.0") if at is None else at, 0))
    server.listen(backlog)
    return server, server.getsockname()[1]


def is_moved(peer):
    """Whether the kernel has a socket of TCP there: one of the stub has a name of AF_UNIX."""
    found = os.readlink(f"/proc/self/fd/{peer.fileno()}")
    with open("/proc/net/tcp") as four, open("/proc/net/tcp6") as six:
        rows = [line.split() for line in list(four) + list(six)]
    return found[8:-1] not in [row[9] for row in rows]


def whole(peer):
    return b"".join(iter(lambda: peer.recv(1 << 16), b""))


def echo_once(server):
    peer, address = server.accept()
    with peer:
        peer.sendall(whole(peer))
    return address


def serving(server):
    thread = threading.Thread(target=echo_once, args=(server,))
    thread.start()
    return thread


def exchange(peer, moved=MOVED):
    assert is_moved(peer) == moved, "moved" if is_moved(peer) else "not moved"
    sender = threading.Thread(target=lambda: (peer.sendall(PAYLOAD), peer.shutdown(socket.SHUT_WR)))
    sender.start()
    assert whole(peer) == PAYLOAD
    sender.join()


def carries():
    """Data arrive as they were, over either; names, families and options are those of TCP."""
    for family in (socket.AF_INET, socket.AF_INET6):
        server, port = listener(family=family)
        six = family == socket.AF_INET6
        for to, moved in ((THERE, MOVED), ("127.0.0.1", False)):
            thread = serving(server)
            with socket.socket(family) as peer:
                name = f"::ffff:{to}" if six else to
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.connect((name, port))
                assert peer.getpeername()[:2] == (name, port), peer.getpeername()
                assert peer.getsockname()[0] == ("::ffff:127.0.0.1" if six else "127.0.0.1"), peer.getsockname()
                for option, value in ((socket.SO_DOMAIN, family), (socket.SO_TYPE, socket.SOCK_STREAM),
                                      (socket.SO_PROTOCOL, socket.IPPROTO_TCP), (socket.SO_ERROR, 0)):
                    found = peer.getsockopt(socket.SOL_SOCKET, option)
                    assert found == value, (option, found)
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option in (socket.TCP_NODELAY, socket.TCP_KEEPIDLE, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT):
                    peer.setsockopt(socket.IPPROTO_TCP, option, 1)
                peer.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 8)
                assert peer.getsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, 64) == b""
                assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)[0] == 1
                # A kernel that is told to encrypt would have to.
                try:
                    peer.setsockopt(socket.IPPROTO_TCP, 31, b"tls")
                    assert not moved
                except OSError:
                    pass
                exchange(peer, moved)
                thread.join()
                assert peer.getsockname()[0] == ("::ffff:127.0.0.1" if six else "127.0.0.1"), peer.getsockname()
                try:
                    peer.connect((name, port))
                    raise AssertionError("connected twice")
                except OSError as error:
                    assert error.errno == errno.EISCONN, error
            thread.join()
        server.close()


def accepted():
    """What is accepted has the peer's INET address, and the options of the listener."""
    server, port = listener()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, array.array("q", [3, 0]).tobytes())
    client = socket.create_connection((THERE, port))
    peer, address = server.accept()
    assert address == peer.getpeername() == (PEER if MOVED else "127.0.0.1", client.getsockname()[1]), address
    assert peer.getsockname()[1] == port
    assert is_moved(peer) == MOVED
    assert array.array("q", peer.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16))[0] == 3
    # An address is nothing to a connection.
    client.sendto(b"x", (THERE, port))
    client.sendmsg([b"y"], [], 0, (THERE, port))
    assert peer.recv(2, socket.MSG_WAITALL) == b"xy"
    # A limit of the listener.
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, array.array("q", [0, 50000]).tobytes())
    try:
        server.accept()
        raise AssertionError("accepted")
    except BlockingIOError:
        pass


def refused():
    """Nothing listens: over neither."""
    server, port = listener()
    server.close()
    for blocking in (True, False):
        client = socket.socket()
        client.setblocking(blocking)
        error = client.connect_ex((THERE, port))
        if error == errno.EINPROGRESS:
            select.select([], [client], [], 10)
            error = client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        assert error == errno.ECONNREFUSED, error


def tcp_alone():
    """Where only TCP listens, connections are of TCP: at the loopback address, which other hosts cannot have."""
    server, port = listener(at=THERE)
    server.close()
    server, port = listener(at="127.0.0.1")
    thread = serving(server)
    with socket.create_connection(("127.0.0.1", port)) as peer:
        exchange(peer, False)
    thread.join()
    assert os.readlink(f"/proc/self/fd/{server.fileno()}").startswith("socket:")


def nonblocking():
    """Connecting and accepting without waiting, by poll and epoll; a set that has the socket before keeps it."""
    for before in (False, True):
        server, port = listener()
        server.setblocking(False)
        try:
            server.accept()
            raise AssertionError("accepted")
        except BlockingIOError:
            pass
        serving_set = select.epoll()
        # As servers with several processes do.
        serving_set.register(server, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        client = socket.socket()
        client.setblocking(False)
        with select.epoll() as waits:
            if before:
                waits.register(client, select.EPOLLOUT)
            error = client.connect_ex((THERE, port))
            assert error in (0, errno.EINPROGRESS), error
            if not before:
                waits.register(client, select.EPOLLOUT)
            found = dict(waits.poll(10))
            assert found.get(client.fileno(), 0) & select.EPOLLOUT, found
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            assert not os.get_blocking(client.fileno())
            assert dict(serving_set.poll(10)) == {server.fileno(): select.EPOLLIN}
            assert select.select([server], [], [], 10)[0]
            peer, _ = server.accept()
            assert is_moved(peer) == is_moved(client) == MOVED
            waits.modify(client, select.EPOLLIN)
            peer.sendall(b"x")
            assert dict(waits.poll(10)) == {client.fileno(): select.EPOLLIN}
        assert not serving_set.poll(0)
        for sock in (server, client, peer):
            sock.close()


def copies():
    """Copies of what listens, their flags, and their end; numbers of descriptors are where they were."""
    lowest = os.dup(0)
    os.close(lowest)
    server, port = listener()
    assert server.fileno() == lowest, "a descriptor of the library is in the way"
    for copy in (lambda fd: os.dup(fd), lambda fd: fcntl.fcntl(fd, fcntl.F_DUPFD, 0), lambda fd: os.dup2(fd, 77)):
        other = socket.socket(fileno=copy(server.fileno()))
        assert other.getsockname()[1] == port
        server.close()
        client = socket.create_connection((THERE, port))
        assert is_moved(client) == MOVED
        other.accept()[0].close()
        client.close()
        server = other
    # Flags are those of all copies.
    os.set_inheritable(server.fileno(), True)
    os.set_inheritable(server.fileno(), False)
    assert fcntl.fcntl(server.fileno(), fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    server.shutdown(socket.SHUT_RDWR)
    try:
        server.accept()
        raise AssertionError("accepted")
    except OSError as error:
        assert error.errno == errno.EINVAL, error
    count = len(os.listdir("/proc/self/fd"))
    server.close()
    assert len(os.listdir("/proc/self/fd")) == count - (3 if MOVED else 1)
    refused_now = socket.socket()
    assert refused_now.connect_ex((THERE, port)) == errno.ECONNREFUSED


def known_twice():
    """A socket that has a copy before it is connected, or is in two sets, is what it was: the other one goes on with it.
    So is one with an option that AF_VSOCK does not have."""
    server, port = listener()
    client = socket.socket()
    with client.dup() as other:
        client.connect((THERE, port))
        assert other.getpeername() == (THERE, port) and not is_moved(client)
    server.accept()[0].close()
    client = socket.socket()
    client.setblocking(False)
    with select.epoll() as one, select.epoll() as other:
        for waits in (one, other):
            waits.register(client, select.EPOLLOUT)
        client.connect_ex((THERE, port))
        for waits in (one, other):
            assert waits.poll(10)[0][0] == client.fileno()
        assert not is_moved(client)
        # One that was closed does not count.
        client.close()
        client = socket.socket()
        client.setblocking(False)
        one.register(client, select.EPOLLOUT)
        assert client.connect_ex((THERE, port)) in (0, errno.EINPROGRESS)
        assert is_moved(client) == MOVED and one.poll(10)
    # A program that has asked for completions waits for them.
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, 60, 1)
    client.connect((THERE, port))
    assert not is_moved(client)
    # What listens has a copy that listens, too.
    server = socket.socket()
    server.bind(("", 0))
    with server.dup() as other:
        server.listen()
        with socket.create_connection((THERE, server.getsockname()[1])) as client:
            other.accept()[0].close()
            assert not is_moved(client)


def ranges():
    """What listens is closed with all others; the numbers come again as something else."""
    server, port = listener()
    first = server.detach()
    os.closerange(first, 1024)
    others = [socket.socket() for _ in range(3)]
    files = [os.dup(0) for _ in range(400)]
    assert others[0].fileno() == first
    for sock in others:
        sock.close()
    for file in files:
        os.close(file)
    with listener()[0]:
        pass


def forks():
    """A server of several processes: each may accept, and close what it has; the parent does not notice."""
    server, port = listener()
    server.setblocking(True)
    children = []
    for _ in range(3):
        pid = os.fork()
        if not pid:
            echo_once(server)
            server.close()
            os._exit(0)
        children.append(pid)
    for _ in children:
        with socket.create_connection((THERE, port)) as peer:
            exchange(peer)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    thread = serving(server)
    with socket.create_connection((THERE, port)) as peer:
        exchange(peer)
    thread.join()
    # By vfork: the child closes what its parent has, in the memory of that.
    subprocess.run(["true"], check=True, close_fds=True)
    thread = serving(server)
    with socket.create_connection((THERE, port)) as peer:
        exchange(peer)
    thread.join()


def execs():
    """A connection, and a socket that listens, in the program that a process becomes."""
    server, port = listener()
    server.set_inheritable(True)
    code = "import socket, sys; sys.argv[1:] = ['', *sys.argv[1:]]; import programs; programs.inherited()"
    words = [sys.executable, "-c", code, *(["moved"] if MOVED else []), str(server.fileno())]
    # What closes all other descriptors before exec takes those of the library, too.
    child = subprocess.Popen(words, close_fds=False, cwd=os.path.dirname(os.path.abspath(__file__)))
    server.close()
    with socket.create_connection((THERE, port)) as peer:
        exchange(peer)
    with socket.create_connection((THERE, port)) as peer:
        code = "import socket; s = socket.socket(fileno=0); print(s.getpeername()[0], s.family == socket.AF_INET)"
        said = subprocess.run([sys.executable, "-c", code], stdin=peer, stdout=subprocess.PIPE, check=True).stdout
        assert said == f"{THERE} True\n".encode(), said
    assert child.wait() == 0


def inherited():
    server = socket.socket(fileno=int(sys.argv[-1]))
    assert server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    assert server.family == socket.AF_INET and server.proto == socket.IPPROTO_TCP
    echo_once(server)
    server.accept()[0].close()


def signals():
    """A call that sleeps goes on after a signal, or ends, as the program has said."""
    server, port = listener()
    came = []
    signal.signal(signal.SIGALRM, lambda *_: came.append(1))
    signal.siginterrupt(signal.SIGALRM, False)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    client = []
    threading.Timer(0.5, lambda: client.append(socket.create_connection((THERE, port)))).start()
    peer, _ = server.accept()
    assert came and is_moved(peer) == MOVED

    def ends(*_):
        raise InterruptedError

    signal.signal(signal.SIGALRM, ends)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        server.accept()
        raise AssertionError("accepted")
    except InterruptedError:
        pass


if __name__ == "__main__":
    globals()[sys.argv[1]]()
