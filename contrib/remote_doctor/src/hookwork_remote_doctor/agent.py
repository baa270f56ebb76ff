"""The agent: a doctor with one big tool (the whole examination) and a few small ones (single facts), and a
skill that says how to repair a host."""

from __future__ import annotations

from typing import Any

from hookwork import App, Model
from hookwork_llm import LlmAgent, tool
from hookwork_remote_doctor import checks
from hookwork_remote_doctor.machine import Machine
from hookwork_remote_doctor.verdict import diagnose, fact
from hookwork_skills import PackageSource, SkillToolset


def build_agent(machine: Machine | None = None, model: str | Model = "offline") -> LlmAgent:
    """The doctor for a machine; without one, for the machine it runs on."""
    patient = machine if machine is not None else Machine()

    @tool
    def check_remote_ssh() -> dict[str, Any]:
        """Tells whether VS Code Remote-SSH can run on this machine, what fails, at which stage, and the ways out."""
        return diagnose(patient)

    @tool
    def kernel_version() -> dict[str, str]:
        """The version of the Linux kernel."""
        return fact(checks.kernel(patient))

    @tool
    def glibc_version() -> dict[str, str]:
        """The version of the C library, glibc or musl."""
        return fact(checks.glibc(patient))

    @tool
    def libstdcxx_version() -> dict[str, str]:
        """The newest symbol version of the C++ library libstdc++."""
        return fact(checks.libstdcxx(patient))

    @tool
    def free_disk() -> dict[str, str]:
        """How much disk space is free in the home folder."""
        return fact(checks.disk(patient))

    @tool
    def ssh_server() -> dict[str, str]:
        """Whether an SSH server (sshd) is installed and listening."""
        return fact(checks.ssh_server(patient))

    @tool
    def docker_client() -> dict[str, str]:
        """Whether a Docker client is installed, and which."""
        return {"docker_client": checks.docker_client(patient) or "not found"}

    return LlmAgent(
        name="remote_doctor",
        description="Tells whether VS Code Remote-SSH can run on this machine.",
        model=model,
        instruction=(
            "You examine the machine you run on. For the question whether VS Code Remote-SSH (or VS Code Server) works "
            "here call check_remote_ssh and report its verdict, the failing checks with their stage, and the ways out "
            "in the order given. For a single fact call the tool of that name. Report only what the tools say."
        ),
        tools=[
            check_remote_ssh, kernel_version, glibc_version, libstdcxx_version, free_disk, ssh_server, docker_client,
            SkillToolset(PackageSource("hookwork_remote_doctor")),
        ],
    )  # fmt: skip


app = App(name="remote_doctor", root=build_agent())
