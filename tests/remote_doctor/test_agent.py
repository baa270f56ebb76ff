"""The agent end to end: the question, the tools the model calls, and a verdict a person can read."""

from __future__ import annotations

import pytest

from hookwork import App, Runner
from hookwork_remote_doctor.agent import app, build_agent
from hookwork_remote_doctor.machine import Machine

QUESTION = "Can VS Code Remote-SSH run on this machine?"
OLD = Machine(
    system="Linux",
    release="5.4.0",
    processor="nothing",
    run=lambda command: {"getconf": "glibc 2.17", "docker": "Docker version 26.1.0"}.get(command[0], ""),
    find=lambda name: f"/usr/bin/{name}",
    free=lambda _: 20_000_000_000,
)


async def ask(machine: Machine | None, message: str) -> str:
    chosen = app if machine is None else App(name="remote_doctor", root=build_agent(machine))
    async with Runner(chosen) as runner:
        return await runner.ask(user_id="u", session_id="s", message=message)


async def test_the_verdict_comes_first_then_checks_then_ways_out() -> None:
    text = await ask(OLD, QUESTION)
    assert text.startswith("No: VS Code Remote-SSH cannot run here as it is. It would stop at the stage start.")
    assert "C library (glibc) (2.17, needed: 2.28 or newer)" in text.splitlines()[0]
    assert "| C library (glibc)" in text
    assert text.splitlines()[-1].startswith("Source is the VS Code documentation")
    assert text.index("Checks:") < text.index("Ways out:")
    assert text.index("newer host") < text.index("remote Docker context") < text.index("stopgap")


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Which glibc version is here?", "C library glibc is 2.17, needed is 2.28 or newer and result is FAILS."),
        ("What is the kernel version?", "Linux kernel is 5.4.0, needed is 4.18 or newer and result is ok."),
        ("How much disk space is free?", "Free disk in the home folder is 20.0 GB, needed is 1 GB and result is ok."),
        ("Is there a Docker client?", "Docker client is Docker version 26.1.0."),
    ],
)
async def test_a_question_about_one_fact_gets_that_fact(message: str, said: str) -> None:
    assert await ask(OLD, message) == said


async def test_two_facts_in_one_question() -> None:
    text = await ask(OLD, "Is a Docker client here and how much disk is free?")
    assert "Docker version 26.1.0" in text
    assert "20.0 GB" in text


async def test_the_real_machine_gets_a_verdict() -> None:
    text = await ask(None, QUESTION)
    assert text.split(":")[0] in ("Yes", "No", "Probably") or "not Linux" in text
