"""``hookwork migrate SOURCE TARGET`` (servers §7)."""

from __future__ import annotations

import asyncio

import click

from hookwork_database.migration.copying import migrate


@click.command("migrate")
@click.argument("source")
@click.argument("target")
@click.option("--allow-pickles", is_flag=True, help="Read google-adk's version 0; no code of the file's is run.")
@click.option("--zone", default="UTC", metavar="NAME", help="Time zone in which a version 0 file was written.")
def command(source: str, target: str, allow_pickles: bool, zone: str) -> None:
    """Copy every session of the database SOURCE into the fresh database TARGET.

    Both are URLs, such as sqlite:///old.db and postgresql://user:password@host/database. SOURCE may be of google-adk
    (any version, SQLite too) or of ADK-Go; it is never written to. What cannot be copied is listed, and makes the exit
    code 1.
    """
    report = asyncio.run(migrate(source, target, allow_pickles=allow_pickles, zone=zone))
    click.echo(f"{report.layout}: {report.sessions} session(s), {report.events} event(s) copied")
    for where, why in report.rejected:
        click.echo(f"rejected: {where}: {why}", err=True)
    if report.rejected:
        click.echo(f"{len(report.rejected)} rejected", err=True)
        raise SystemExit(1)
