"""The agent end to end: the question, the tools the model calls, and a verdict a person can read."""

from __future__ import annotations

import pytest

from hookwork import App, Runner
from hookwork_remote_doctor.agent import app, build_agent
from hookwork_remote_doctor.machine import Machine
from hookwork_remote_doctor.requirements import GLIBC, KERNEL, LIBSTDCXX
from hookwork_testkit import ScriptedModel, call

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


async def test_the_skill_can_be_loaded_with_its_reference_page() -> None:
    model = ScriptedModel(
        [
            call("load_skill", "c1", name="repair-remote-ssh"),
            call(
                "load_skill_resource",
                "c2",
                skill_name="repair-remote-ssh",
                resource_path="references/old-libraries.md",
            ),
            "Use a newer host.",
        ]
    )
    doctor = App(name="remote_doctor", root=build_agent(OLD, model=model))
    async with Runner(doctor) as runner, runner.run(user_id="u", message="How do I repair it?") as run:
        responses = [response.response async for event in run for response in event.function_responses]
    skill, page = (dict(response or {}) for response in responses)
    assert "references/old-libraries.md" in skill["instructions"]
    figures = (GLIBC, LIBSTDCXX, KERNEL)
    assert all(".".join(map(str, figure)) in page["content"] for figure in figures)
    assert "<name>repair-remote-ssh</name>" in str(model.requests[0].config.system_instruction)
