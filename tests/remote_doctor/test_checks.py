"""The checks and the verdict on made-up machines: a fresh host, an old one, Alpine, bare ones, no Linux at all.

Figures: VS Code documentation, "Remote Development with Linux" (kernel 4.18, glibc 2.28, GLIBCXX_3.4.25).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from hookwork_remote_doctor import checks
from hookwork_remote_doctor.machine import Machine, free_bytes, run_command
from hookwork_remote_doctor.verdict import diagnose

TCP_TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0016 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 15103 1
"""

MakeMachine = Callable[..., Machine]


@pytest.fixture
def make(tmp_path: Path) -> MakeMachine:
    """A machine that meets every requirement, with some facts changed."""

    def build(
        *,
        symbols: str | None = "3.4.30",
        folder: str = "usr/lib/x86_64-linux-gnu",
        outputs: dict[str, str] | None = None,
        commands: Sequence[str] = ("bash", "curl", "tar"),
        sshd: bool = True,
        free: int | Callable[[Path], int] = 50_000_000_000,
        **fields: Any,
    ) -> Machine:
        (tmp_path / "lib64").mkdir()
        (tmp_path / "lib64/ld-linux-x86-64.so.2").touch()
        if symbols is not None:
            (tmp_path / folder).mkdir(parents=True)
            names = [b"GLIBCXX_3.4", b"GLIBCXX_3.4.9", f"GLIBCXX_{symbols}".encode(), b"GLIBCXX_DEBUG_MESSAGE_LENGTH"]
            (tmp_path / folder / "libstdc++.so.6").write_bytes(b"\x7fELF\0" + b"\0".join(names) + b"\0")
        if sshd:
            (tmp_path / "usr/sbin").mkdir(parents=True, exist_ok=True)
            (tmp_path / "usr/sbin/sshd").touch()
        said = {"getconf GNU_LIBC_VERSION": "glibc 2.36\n"} if outputs is None else outputs
        return Machine(
            **{
                "root": tmp_path,
                "home": tmp_path,
                "system": "Linux",
                "release": "6.1.0-18-amd64",
                "processor": "x86_64",
                "run": lambda command: said.get(" ".join(command), ""),
                "find": lambda name: f"/usr/bin/{name}" if name in commands else None,
                "free": free if callable(free) else lambda _: free,
                **fields,
            }
        )

    return build


def failing(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["check"], row["stage"]) for row in report["checks"] if row["result"] == "FAILS"]


def test_a_fresh_host_meets_everything(make: MakeMachine) -> None:
    report = diagnose(make())
    assert report["verdict"].startswith("Yes: VS Code Remote-SSH can run on this machine.")
    assert {row["result"] for row in report["checks"]} == {"ok"}
    assert report["ways_out"] == []
    assert "VS Code documentation" in report["source"]


@pytest.mark.parametrize(
    ("release", "ok"),
    [
        ("4.18.0-553.el8_10.x86_64", True),
        ("4.18", True),
        ("4.17.19", False),
        ("3.10.0-1160.el7.x86_64", False),
        ("6.18.44", True),
        ("10.0.1", True),
        ("custom", None),
    ],
)
def test_kernel_versions_are_compared_by_number(make: MakeMachine, release: str, ok: bool | None) -> None:
    assert checks.kernel(make(release=release)).ok is ok


@pytest.mark.parametrize(
    ("outputs", "found", "ok"),
    [
        ({"getconf GNU_LIBC_VERSION": "glibc 2.28"}, "2.28", True),
        ({"getconf GNU_LIBC_VERSION": "glibc 2.17"}, "2.17", False),
        ({"ldd --version": "ldd (Ubuntu GLIBC 2.27-3ubuntu1.6) 2.27\nCopyright"}, "2.27", False),
        ({"ldd --version": "ldd (GNU libc) 2.34\n"}, "2.34", True),
        ({"ldd --version": "ldd: command not understood 1.0"}, "not found", None),
        ({}, "not found", None),
    ],
)
def test_glibc_is_read_from_getconf_or_ldd(
    make: MakeMachine, outputs: dict[str, str], found: str, ok: bool | None
) -> None:
    check = checks.glibc(make(outputs=outputs))
    assert (check.found, check.ok, check.stage) == (found, ok, "start")


def test_alpine_is_named_as_musl(make: MakeMachine) -> None:
    machine = make(outputs={"ldd --version": "musl libc (x86_64)\nVersion 1.2.4\n"}, symbols="3.4.32", folder="usr/lib")
    assert checks.glibc(machine).found == "musl"
    report = diagnose(machine)
    assert failing(report) == [("C library", "start")]
    ways = " ".join(report["ways_out"])
    assert "container" in ways
    assert "stopgap" not in ways


def test_musl_is_known_by_its_loader_too(make: MakeMachine, tmp_path: Path) -> None:
    machine = make(outputs={})
    (tmp_path / "lib64/ld-linux-x86-64.so.2").unlink()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/ld-musl-x86_64.so.1").touch()
    assert checks.is_musl(machine)


@pytest.mark.parametrize(
    ("folder", "processor"),
    [
        ("usr/lib/x86_64-linux-gnu", "x86_64"),
        ("usr/lib/aarch64-linux-gnu", "aarch64"),
        ("usr/lib/arm-linux-gnueabihf", "armv7l"),
        ("usr/lib64", "x86_64"),
        ("usr/lib", "riscv64"),
    ],
)
@pytest.mark.parametrize(("symbols", "ok"), [("3.4.25", True), ("3.4.24", False), ("3.4.30", True)])
def test_libstdcxx_symbols_are_found_where_distributions_put_them(
    make: MakeMachine, folder: str, processor: str, symbols: str, ok: bool
) -> None:
    check = checks.libstdcxx(make(folder=folder, processor=processor, symbols=symbols))
    assert (check.found, check.ok) == (symbols, ok)


def test_the_library_of_another_processor_does_not_count(make: MakeMachine) -> None:
    check = checks.libstdcxx(make(folder="usr/lib/aarch64-linux-gnu", processor="x86_64"))
    assert (check.found, check.ok) == ("not found", False)


def test_an_old_host_is_told_stage_and_ways_out_in_order(make: MakeMachine) -> None:
    """The libraries of CentOS 7 on a kernel that is new enough: a container would do."""
    old = make(outputs={"getconf GNU_LIBC_VERSION": "glibc 2.17"}, symbols="3.4.19", release="4.19.0")
    report = diagnose(old)
    assert failing(report) == [("C library (glibc)", "start"), ("libstdc++ symbols", "start")]
    assert "stop at the stage start" in report["verdict"]
    assert "2.17" in report["verdict"]
    newer, container, stopgap = report["ways_out"]
    assert "newer host" in newer
    assert "remote Docker context" in container
    assert "no client was found here" in container
    assert stopgap.startswith("Only as a stopgap")


def test_an_old_kernel_leaves_only_a_newer_host(make: MakeMachine) -> None:
    """A container runs on its host's kernel, and so does a patched glibc."""
    report = diagnose(make(outputs={"getconf GNU_LIBC_VERSION": "glibc 2.17"}, release="3.10.0-1160"))
    (way,) = report["ways_out"]
    assert "newer host" in way


def test_a_docker_client_is_named_in_the_way_out(make: MakeMachine) -> None:
    outputs = {"getconf GNU_LIBC_VERSION": "glibc 2.17", "docker --version": "Docker version 26.1.0, build 1"}
    report = diagnose(make(outputs=outputs, commands=("bash", "curl", "tar", "docker")))
    assert "Docker version 26.1.0, build 1 is here" in report["ways_out"][1]
    assert checks.docker_client(Machine(run=lambda _: "", find=lambda _: None)) is None


def test_the_first_lacking_stage_is_named(make: MakeMachine) -> None:
    report = diagnose(make(commands=(), sshd=False, free=10))
    assert failing(report) == [
        ("SSH server", "login"),
        ("bash", "login"),
        ("curl or wget", "download"),
        ("tar", "install"),
        ("Free disk in the home folder", "install"),
    ]
    assert "stop at the stage login" in report["verdict"]
    assert len(report["ways_out"]) == 5


def test_wget_does_as_well_as_curl(make: MakeMachine) -> None:
    assert failing(diagnose(make(commands=("bash", "wget", "tar")))) == []


@pytest.mark.parametrize(("state", "listens"), [("0A", True), ("01", False)])
def test_a_listening_port_22_counts_as_a_server(make: MakeMachine, tmp_path: Path, state: str, listens: bool) -> None:
    machine = make(sshd=False)
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(TCP_TABLE.format(state=state))
    check = checks.ssh_server(machine)
    assert check.ok is listens
    assert check.found == ("something listens on port 22" if listens else "not found")


def test_facts_that_cannot_be_read_are_unknown_not_wrong(make: MakeMachine) -> None:
    def unreadable(_: Path) -> int:
        raise PermissionError("no")

    check = checks.disk(make(free=unreadable))
    assert (check.found, check.ok) == ("not readable", None)


def test_a_missing_fact_makes_the_verdict_probable(make: MakeMachine) -> None:
    report = diagnose(make(outputs={}))
    assert report["verdict"] == "Probably: nothing fails, but this could not be read: C library (glibc)."


@pytest.mark.parametrize("system", ["Darwin", "Windows", ""])
def test_other_systems_are_told_that_the_figures_are_not_for_them(make: MakeMachine, system: str) -> None:
    report = diagnose(make(system=system))
    assert "not Linux" in report["verdict"]
    assert "checks" not in report


def test_commands_that_fail_say_nothing() -> None:
    assert run_command(["surely-no-such-command-here"]) == ""
    assert run_command(["sh", "-c", "echo out; echo err >&2"]) == "out\nerr\n"


def test_free_bytes_are_read_from_the_real_disk(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) > 0
