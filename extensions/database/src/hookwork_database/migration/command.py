"""``hookwork migrate SOURCE TARGET`` and ``hookwork migrate SOURCE --in-place`` (servers §7, services BEY-9)."""

from __future__ import annotations

import asyncio

import click

from hookwork_database.migration.copying import migrate


@click.command("migrate")
@click.argument("source")
@click.argument("target", required=False)
@click.option(
    "--in-place", is_flag=True, help="The copy takes the place of the SQLite file SOURCE, which is kept beside."
)
@click.option("--allow-pickles", is_flag=True, help="Read google-adk's version 0; no code of the file's is run.")
@click.option("--zone", default="UTC", metavar="NAME", help="Time zone in which a version 0 file was written.")
def command(source: str, target: str | None, in_place: bool, allow_pickles: bool, zone: str) -> None:
    """Copy every session of the database SOURCE into the fresh database TARGET.

    Both are URLs, such as sqlite:///old.db and postgresql://user:password@host/database. SOURCE may be of google-adk
    (any version, SQLite too) or of ADK-Go; it is never written to. What cannot be copied is listed, and makes the exit
    code 1; in place nothing is replaced then.
    """
    if (target is None) is not in_place:
        raise click.UsageError("name a fresh database as the TARGET, or give --in-place for a SQLite file; not both")
    if target is None:
        from hookwork_database.migration.in_place import KEPT, migrate_in_place

        report = asyncio.run(migrate_in_place(source, allow_pickles=allow_pickles, zone=zone))
        if not report.rejected:
            click.echo(f"the file that was is kept: its name and {KEPT}", err=True)
    else:
        report = asyncio.run(migrate(source, target, allow_pickles=allow_pickles, zone=zone))
    click.echo(f"{report.layout}: {report.sessions} session(s), {report.events} event(s) copied")
    for where, why in report.rejected:
        click.echo(f"rejected: {where}: {why}", err=True)
    if report.rejected:
        click.echo(f"{len(report.rejected)} rejected", err=True)
        raise SystemExit(1)
