"""From checks to a verdict: whether it works, at which stage it would stop, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookwork_remote_doctor.checks import Check, all_checks, docker_client
from hookwork_remote_doctor.machine import Machine
from hookwork_remote_doctor.requirements import SOURCE, STAGES


def diagnose(machine: Machine) -> dict[str, Any]:
    """The whole answer: a verdict, the checks as rows, and the ways out of what fails."""
    if machine.system != "Linux":
        return {
            "verdict": f"This machine runs {machine.system or 'an unknown system'}, not Linux, so the requirements of "
            "Linux hosts do not apply to it. Ask again on the Linux host that VS Code is to connect to.",
            "source": SOURCE,
        }
    checks = all_checks(machine)
    return {
        "verdict": verdict(checks),
        "checks": [row(check) for check in checks],
        "ways_out": ways_out(checks, docker_client(machine)),
        "source": SOURCE,
    }


def verdict(checks: Sequence[Check]) -> str:
    """One or two sentences."""
    failing = [check for check in checks if check.ok is False]
    unread = [check.name for check in checks if check.ok is None]
    if failing:
        first = min((check.stage for check in failing), key=STAGES.index)
        lacks = ", ".join(f"{check.name} ({check.found}, needed: {check.needed})" for check in failing)
        return f"No: VS Code Remote-SSH cannot run here as it is. It would stop at the stage {first}. Lacking: {lacks}."
    if unread:
        return f"Probably: nothing fails, but this could not be read: {', '.join(unread)}."
    return "Yes: VS Code Remote-SSH can run on this machine. Every requirement is met."


def row(check: Check) -> dict[str, str]:
    """A check as a row of a table."""
    result = {True: "ok", False: "FAILS", None: "unknown"}[check.ok]
    return {"check": check.name, "found": check.found, "needed": check.needed, "result": result, "stage": check.stage}


def fact(check: Check) -> dict[str, str]:
    """A check on its own, for a question about one thing."""
    return {check.name: check.found, "needed": check.needed, "result": row(check)["result"]}


def ways_out(checks: Sequence[Check], docker: str | None) -> list[str]:
    """What to do, the lasting ways first; empty when nothing fails."""
    failing = {check.name: check for check in checks if check.ok is False}
    ways = [way for name, way in _REPAIRS.items() if name in failing]
    old_kernel = "Linux kernel" in failing
    libraries = [check for name, check in failing.items() if name.startswith(("C library", "libstdc++"))]
    if old_kernel or libraries:
        ways.append("Use a newer host: a distribution with kernel 4.18, glibc 2.28 and libstdc++ 3.4.25 or newer.")
    if libraries and not old_kernel:  # a container brings its own libraries, but runs on the kernel of its host
        client = f"{docker} is here" if docker else "install Docker first, no client was found here"
        ways.append(
            "Run a container with newer libraries on this host, and reach it from VS Code with Dev Containers through "
            f"a remote Docker context (`docker context create … --docker host=ssh://…`); {client}."
        )
        if not any(check.found == "musl" for check in libraries):
            ways.append(
                "Only as a stopgap: unpack a newer glibc and libstdc++ beside the system's own and let VS Code Server "
                "be patched to use them (VSCODE_SERVER_CUSTOM_GLIBC_LINKER, VSCODE_SERVER_CUSTOM_GLIBC_PATH, "
                "VSCODE_SERVER_PATCHELF_PATH). Microsoft does not support that."
            )
    return ways


_REPAIRS = {
    "SSH server": "Install and start an OpenSSH server (package openssh-server).",
    "bash": "Install bash.",
    "curl or wget": "Install curl or wget.",
    "tar": "Install tar.",
    "Free disk in the home folder": "Free some space, or let `remote.SSH.serverInstallPath` name another folder.",
}
