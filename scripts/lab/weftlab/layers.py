# SPDX-License-Identifier: GPL-2.0
"""Programs of Debian over the root of a guest, where their paths are those that they were built for."""

import shlex

ROOT = "/tmp/programs"
MOUNT = f"""mkdir -p /tmp/layers/upper /tmp/layers/work {ROOT}
mount -t overlay overlay -o lowerdir=%s:/,upperdir=/tmp/layers/upper,workdir=/tmp/layers/work {ROOT}
for dir in proc sys dev mnt; do mkdir -p {ROOT}/$dir; mount --rbind /$dir {ROOT}/$dir; done
mkdir -p {ROOT}/tmp && chmod 1777 {ROOT}/tmp
"""


def inside(*words):
    """A command that runs there."""
    return f"chroot {ROOT} " + " ".join(shlex.quote(str(word)) for word in words)


def mount(host, *layers):
    """Lays these folders over the root, the first on top; returns whether they were not there yet."""
    if not host.run(f"mountpoint -q {ROOT}", status=None).status:
        return False
    host.stock_module("overlay")
    host.run(MOUNT % ":".join(layers))
    return True
