# SPDX-License-Identifier: GPL-2.0
"""A terminal on several guests at once, one of them in front."""

import os
import select
import shutil
import signal
import socket
import sys
import termios
import tty

ESCAPE = 0x1D  # Ctrl-]


class Terminal:
    """Bytes between our terminal and the socket of a guest's terminal."""

    def __init__(self, names, path_of, resized=lambda name, rows, columns: None):
        self._names = names
        self._path_of = path_of
        self._resized = resized
        self._sock = None
        self._front = None
        self._escaped = False

    def _say(self, text):
        os.write(sys.stdout.fileno(), f"\r\n[{text}]\r\n".encode())

    def _switch(self, name):
        if self._sock:
            self._sock.close()
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.connect(str(self._path_of(name)))
        self._front = name
        self._size()
        self._say(f"{name}; Ctrl-] and a digit: another host, Ctrl-] q: end")
        # The shell shows its prompt again.
        self._sock.sendall(b"\n")

    def _size(self, *_):
        columns, rows = shutil.get_terminal_size()
        self._resized(self._front, rows, columns)

    def _keys(self, data):
        """Passes keys on; False when the user wants to end."""
        for key in data:
            if self._escaped:
                self._escaped = False
                if key in b"qQ":
                    return False
                number = key - ord("1")
                if 0 <= number < len(self._names):
                    self._switch(self._names[number])
                elif key == ESCAPE:
                    self._sock.sendall(bytes([key]))
                else:
                    self._say(f"hosts: {', '.join(self._names)}; Ctrl-] 1 to {len(self._names)}, q")
            elif key == ESCAPE:
                self._escaped = True
            else:
                self._sock.sendall(bytes([key]))
        return True

    def run(self, front):
        """Until the user ends it, or the guest in front does."""
        stdin = sys.stdin.fileno()
        before = termios.tcgetattr(stdin)
        old = signal.signal(signal.SIGWINCH, self._size)
        try:
            tty.setraw(stdin)
            self._switch(front)
            while True:
                ready, _, _ = select.select([stdin, self._sock], [], [])
                if stdin in ready:
                    data = os.read(stdin, 4096)
                    if not data or not self._keys(data):
                        return
                elif self._sock in ready:
                    data = self._sock.recv(65536)
                    if not data:
                        self._say(f"{self._front} is gone")
                        return
                    os.write(sys.stdout.fileno(), data)
        finally:
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
            signal.signal(signal.SIGWINCH, old)
            if self._sock:
                self._sock.close()
