"""The checks: each reads one fact of a machine and compares it with what Remote-SSH requires."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hookwork_remote_doctor.machine import Machine
from hookwork_remote_doctor.requirements import FREE_DISK, GLIBC, KERNEL, LIBSTDCXX, Version

_SYMBOL = re.compile(rb"GLIBCXX_(\d+(?:\.\d+)+)")
_TRIPLETS = {"x86_64": "x86_64-linux-gnu", "aarch64": "aarch64-linux-gnu", "armv7l": "arm-linux-gnueabihf"}
_DISK = "Free disk in the home folder"
_SSH_PORT = 22
_LISTENING = "0A"  # state of a socket in /proc/net/tcp


@dataclass(frozen=True)
class Check:
    """One requirement: what was found, what is needed, whether that is enough, and at which stage a lack shows.

    ``ok`` is None when the fact could not be read.
    """

    name: str
    found: str
    needed: str
    ok: bool | None
    stage: str


def version_in(text: str) -> Version | None:
    """The first dotted number of a text as a version: ``"6.1.0-18-amd64"`` → ``(6, 1, 0)``."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(piece) for piece in match.group().split(".")) if match else None


def spelled(version: Version) -> str:
    """A version as people write it."""
    return ".".join(map(str, version))


def compare(name: str, found: Version | None, needed: Version, stage: str) -> Check:
    """A check of a version against the least one that will do."""
    said = spelled(found) if found else "not found"
    return Check(name, said, f"{spelled(needed)} or newer", found >= needed if found else None, stage)


def kernel(machine: Machine) -> Check:
    """The kernel's version, as the operating system reports it."""
    return compare("Linux kernel", version_in(machine.release), KERNEL, "start")


def is_musl(machine: Machine) -> bool:
    """Whether the C library is musl (Alpine Linux and others): its loader is there and glibc's is not."""
    if any((machine.root / "lib").glob("ld-musl-*.so.1")):
        return not any(
            loader for folder in ("lib", "lib64") for loader in (machine.root / folder).glob("ld-linux*.so.*")
        )
    return "musl" in machine.run(["ldd", "--version"]).lower()


def glibc(machine: Machine) -> Check:
    """The version of glibc, or that the C library is musl."""
    if is_musl(machine):
        return Check("C library", "musl", f"glibc {spelled(GLIBC)} or newer", False, "start")
    said = machine.run(["getconf", "GNU_LIBC_VERSION"])  # "glibc 2.36"
    if "glibc" not in said:
        # "ldd (Debian GLIBC 2.36-9) 2.36": the last number of the first line is glibc's own.
        lines = machine.run(["ldd", "--version"]).splitlines()[:1]
        said = lines[0].split()[-1] if lines and "libc" in lines[0].lower() else ""
    return compare("C library (glibc)", version_in(said), GLIBC, "start")


def libstdcxx_file(machine: Machine) -> Path | None:
    """The C++ library of the machine's own processor type."""
    triplet = _TRIPLETS.get(machine.processor, f"{machine.processor}-linux-gnu")
    for folder in (f"usr/lib/{triplet}", f"lib/{triplet}", "usr/lib64", "lib64", "usr/lib", "lib"):
        file = machine.root / folder / "libstdc++.so.6"
        if file.is_file():
            return file
    return None


def libstdcxx(machine: Machine) -> Check:
    """The newest symbol version (GLIBCXX_…) that libstdc++ offers."""
    file = libstdcxx_file(machine)
    symbols = _SYMBOL.findall(file.read_bytes()) if file else []
    versions = [tuple(int(piece) for piece in symbol.decode().split(".")) for symbol in symbols]
    check = compare("libstdc++ symbols", max(versions, default=None), LIBSTDCXX, "start")
    # An absent library is a lack, not a fact that could not be read.
    return check if file else Check(check.name, check.found, check.needed, False, check.stage)


def disk(machine: Machine) -> Check:
    """Free space in the home folder, where the server goes."""
    needed = f"{FREE_DISK / 1e9:.0f} GB"
    try:
        free = machine.free(machine.home)
    except OSError:
        return Check(_DISK, "not readable", needed, None, "install")
    return Check(_DISK, f"{free / 1e9:.1f} GB", needed, free >= FREE_DISK, "install")


def ssh_server(machine: Machine) -> Check:
    """Whether an OpenSSH server is installed, and whether something listens on port 22."""
    folders = ("usr/sbin", "sbin", "usr/local/sbin", "usr/bin")
    installed = machine.find("sshd") or any((machine.root / folder / "sshd").exists() for folder in folders)
    listening = _listens(machine, _SSH_PORT)
    if installed:
        found = "installed, listening on port 22" if listening else "installed, nothing listens on port 22"
    else:
        found = "something listens on port 22" if listening else "not found"
    return Check("SSH server", found, "OpenSSH server", bool(installed or listening), "login")


def _listens(machine: Machine, port: int) -> bool:
    for table in ("tcp", "tcp6"):
        try:
            lines = (machine.root / "proc/net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in (line.split() for line in lines):
            if len(fields) > 3 and fields[3] == _LISTENING and fields[1].endswith(f":{port:04X}"):
                return True
    return False


def command(machine: Machine, names: tuple[str, ...], stage: str) -> Check:
    """Whether one of some commands is there."""
    found = next((name for name in names if machine.find(name)), None)
    needed = "one of them" if len(names) > 1 else "present"
    return Check(" or ".join(names), found or "not found", needed, found is not None, stage)


def docker_client(machine: Machine) -> str | None:
    """What the Docker client says of itself; None without one. Not required: it opens a way out."""
    if not machine.find("docker"):
        return None
    return machine.run(["docker", "--version"]).strip() or "Docker client of unknown version"


def all_checks(machine: Machine) -> list[Check]:
    """Every requirement, in the order in which a connection meets them."""
    return [
        ssh_server(machine),
        command(machine, ("bash",), "login"),
        command(machine, ("curl", "wget"), "download"),
        command(machine, ("tar",), "install"),
        disk(machine),
        kernel(machine),
        glibc(machine),
        libstdcxx(machine),
    ]
