# SPDX-License-Identifier: GPL-2.0
"""Where things are: the repository, what scripts/env makes, what is built."""

import contextlib
import fcntl
import functools
import os
import pathlib
import subprocess

from .errors import SetupError

TOP = pathlib.Path(__file__).resolve().parents[3]
# The checksum of messages, for programs that tests run in guests.
CRC = TOP / "tools" / "testing" / "device" / "crc.py"
BUILD = TOP / "build" / "lab"
# By name, the files of programs of tools/testing/mpi.
MPI_PROGRAMS = {
    "pairs": ("pairs",),
    "semantics": ("semantics", "matching", "messages", "types", "communicators", "collectives", "windows"),
}


@functools.cache
def env(what):
    """A path (or, for kver, a version) that scripts/env knows."""
    args = [str(TOP / "scripts" / "env"), "path", *what.split()]
    done = subprocess.run(args, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SetupError(f"scripts/env path {what} failed; try: make setup")
    return done.stdout.strip()


def tools_dir():
    """Directory of weftctl and weft-fabric."""
    target = os.environ.get("CARGO_TARGET_DIR", str(TOP / "tools" / "target"))
    return pathlib.Path(target) / "release"


def tool(name):
    path = tools_dir() / name
    if not os.access(path, os.X_OK):
        raise SetupError(f"{path} is not built; run: make tools")
    return str(path)


def module():
    """weft.ko for the kernel that the guests boot."""
    for path in (os.environ.get("WEFT_KO"), BUILD.parent / env("kver") / "weft.ko"):
        if path and os.path.exists(path):
            return pathlib.Path(path)
    raise SetupError("weft.ko is not built; run: make modules")


def modules():
    """The modules that came with the kernel that the guests boot."""
    return pathlib.Path(env("kernel")).parent / "modules"


def _fresh(output, inputs):
    return output.exists() and all(
        output.stat().st_mtime >= pathlib.Path(i).stat().st_mtime for i in inputs
    )


def _make(args, output):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SetupError(f"cannot make {output}:\n{done.stdout}")


def _compile(source, program, *options):
    if not _fresh(program, [source]):
        new = program.with_suffix(".new")
        _make(["gcc", "-O2", "-Wall", *options, "-o", str(new), str(source)], program)
        new.rename(program)


def _mpi_programs(folder, names, compiler, libraries):
    """Compiles these programs of tools/testing/mpi."""
    source = TOP / "tools" / "testing" / "mpi"
    with alone():
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            inputs = [source / f"{file}.c" for file in MPI_PROGRAMS[name]]
            if not _fresh(folder / name, [*inputs, *source.glob("*.h")]):
                new = folder / f"{name}.new"
                command = [*compiler, "-O2", "-Wall", "-Wextra", "-Werror", "-o", str(new), *map(str, inputs)]
                _make([*command, *libraries], folder / name)
                new.rename(folder / name)
    return folder


@functools.cache
def mpi_programs():
    """The folder with the programs of tools/testing/mpi, compiled for the Open MPI of the guests."""
    libraries = pathlib.Path(env("mpi")) / "usr" / "lib" / "x86_64-linux-gnu"
    libs = [f"-L{libraries}", f"-Wl,-rpath-link,{libraries}", "-l:libmpi.so.40"]
    return _mpi_programs(BUILD / "mpi", MPI_PROGRAMS, ["gcc", f"-I{libraries}/openmpi/include"], libs)


@functools.cache
def mpich_programs():
    """The folder with those that show what MPI promises, compiled for MPICH, which is at /mnt/mpich in guests."""
    compiler = [f"{env('mpich')}/bin/mpicc", "-Wl,-rpath,/mnt/mpich/lib"]
    return _mpi_programs(BUILD / "mpich", ["semantics"], compiler, [])


@contextlib.contextmanager
def alone():
    """While something is made that other runs use as well: they wait."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@functools.cache
def guest_files():
    """Kernel, initrd and the directory of the agent; made when missing or old."""
    with alone():
        return _guest_files()


def _guest_files():
    vm = TOP / "scripts" / "vm"
    shared = BUILD / "guest"
    shared.mkdir(parents=True, exist_ok=True)
    kver = env("kver")
    image = env("kernel")
    kernel = BUILD / f"vmlinux-{kver}"
    with open(image, "rb") as file:
        bare = file.read(4) == b"\x7fELF"
    if bare:
        kernel = image
    elif not _fresh(kernel, [vm / "vmlinux", image]):
        _make([str(vm / "vmlinux"), image, str(kernel)], kernel)
    initrd = BUILD / f"initrd-{kver}.cpio"
    if not _fresh(initrd, [vm / "init", vm / "mkinitrd", image]):
        _make([str(vm / "mkinitrd"), kver, str(initrd)], initrd)
    _compile(vm / "agent.c", shared / "agent")
    _compile(vm / "nap.c", shared / "nap", "-static")
    return str(kernel), str(initrd), str(shared)


@functools.cache
def tsc_khz():
    """The rate of the time stamp counter, as the guests are told."""
    program = BUILD / "tsc"
    with alone():
        _compile(TOP / "scripts" / "vm" / "tsc.c", program)
    return subprocess.run([program], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()
