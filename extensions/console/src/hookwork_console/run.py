"""`hookwork run AGENT MESSAGE`: one turn of an agent (servers CON-7)."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click
import msgspec

from hookwork.cli import command_settings
from hookwork.errors import ConfigurationError
from hookwork_console.options import Options, answer_pairs, duration, open_runner, sessions_url, shared_options
from hookwork_console.outcomes import FAILED, exit_code, outcome_line, paused_lines
from hookwork_console.terminal import Terminal
from hookwork_console.turn import Turn

_EPILOG = """
AGENT is a name listed by `hookwork plugins`, module:attribute, or a path to a file or folder; it may be left out when
the settings name an app or agent. MESSAGE '-' is read from stdin. The answer goes to stdout, everything else to stderr.
Exit codes: 0 done, 1 failed, 2 waiting for answers, 64 wrong usage, 130 interrupted.
"""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What only ``hookwork run`` takes."""

    as_json: bool = False
    stream: bool | None = None
    answers: tuple[tuple[str, str], ...] = ()
    timeout: float | None = None


@click.command("run", epilog=_EPILOG)
@click.argument("agent", required=False)
@click.argument("message", required=False)
@shared_options
@click.option("--json", "as_json", is_flag=True, help="One event a line as JSON, the outcome last.")
@click.option("--stream/--no-stream", default=None, help="Stream from the model; default: when stdout is a terminal.")
@click.option(
    "--answer",
    "answers",
    metavar="ID=JSON",
    multiple=True,
    callback=answer_pairs,
    help="Answer an open call of --session; may be repeated.",
)
@click.option("--timeout", metavar="TIME", callback=duration, help="Stop the run after this time: 30, 10s, 2m.")
def command(
    agent: str | None,
    message: str | None,
    as_json: bool,
    stream: bool | None,
    answers: tuple[tuple[str, str], ...],
    timeout: float | None,
    **shared: Any,
) -> int:
    """Run AGENT once with MESSAGE and print its answer."""
    options = Options(**shared)
    own = RunOptions(as_json=as_json, stream=stream, answers=answers, timeout=timeout)
    settings = command_settings()
    if message is None and not answers and agent is not None and (settings.app or settings.agent):
        agent, message = None, agent
    if message is None and not answers:
        raise click.UsageError("no message is given; write: hookwork run AGENT 'your message'")
    if answers and options.session is None:
        raise click.UsageError("--answer needs --session: the session whose call is answered")
    if message == "-":
        message = sys.stdin.read()
    return asyncio.run(_run(agent, message, options, own))


async def _run(agent: str | None, message: str | None, options: Options, own: RunOptions) -> int:
    from hookwork.resolve import load_agent

    terminal = Terminal()
    turn: Turn | None = None
    try:
        settings = command_settings()
        target = load_agent(agent, settings)
        stored = not str(sessions_url(target, options, settings)).startswith("memory")
        if own.answers and not stored:
            raise ConfigurationError(
                "--answer goes on with a stored session, but sessions are in memory; name the store: --sessions URL"
            )
        async with open_runner(target, options, settings) as runner:
            streamed = own.stream if own.stream is not None else terminal.live and not own.as_json
            turn = Turn(
                runner,
                terminal,
                user_id=options.user,
                session_id=options.session,
                root=runner.tree.root.name,
                config=msgspec.structs.replace(runner.config, streaming_mode="sse" if streamed else "none"),
                live=streamed and terminal.live and not own.as_json,
                as_json=own.as_json,
                timeout=own.timeout,
            )
            first = await turn.answers(own.answers, message) if own.answers else message or ""
            await turn.run(first, dict(options.state))
    except Exception as error:
        if own.as_json and (turn is None or turn.outcome is None):
            terminal.result(outcome_line(None, user_id=options.user, session_id=options.session, error=error))
        raise
    return _concluded(turn, terminal, options, own, agent=agent, stored=stored)


def _concluded(
    turn: Turn, terminal: Terminal, options: Options, own: RunOptions, *, agent: str | None, stored: bool
) -> int:
    """Tell on stderr how to go on, and give the exit code; raises what the run raised."""
    if turn.error is not None:
        raise turn.error
    outcome, session_id = turn.outcome, turn.session_id or ""
    if turn.timed_out:
        raise click.ClickException(f"the run was stopped after {own.timeout:g} s (--timeout); session {session_id}")
    if outcome is None:
        return FAILED
    if outcome.kind == "paused":
        if not own.as_json:
            for line in paused_lines(outcome, options, agent=agent, session_id=session_id, stored=stored):
                terminal.note(line)
    elif stored and options.session is None and not own.as_json:
        terminal.note(f"session {session_id}", style="bright_black")
    return exit_code(outcome)
