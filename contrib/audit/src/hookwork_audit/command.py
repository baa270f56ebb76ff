"""`hookwork audit verify FILE`."""

from __future__ import annotations

from pathlib import Path

import click

from hookwork_audit.chain import verify


@click.group()
def command() -> None:
    """Check an audit file."""


@command.command("verify")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--head", default="", metavar="HASH", help="A hash noted down elsewhere, which a record must have.")
def verify_command(file: Path, head: str) -> int:
    """Check every record of FILE and name the first broken line.

    Prints the number of records and the hash of the last one. Exit code 1 when a line is broken or no record has HASH.
    """
    with file.open("rb") as lines:
        verdict = verify(lines, contains=head)
    if verdict.ok:
        click.echo(f"{file}: {verdict.records} records, unbroken; head {verdict.head}")
        return 0
    where = f"line {verdict.line} is broken: " if verdict.line is not None else ""
    click.echo(f"{file}: {where}{verdict.problem}", err=True)
    return 1
