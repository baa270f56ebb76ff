"""`hookwork new KIND NAME`: write a distribution that installs, passes its tests and is found by Hookwork."""

from __future__ import annotations

from pathlib import Path

import click

from hookwork.errors import ConfigurationError
from hookwork_testkit.new.names import KINDS, Names, check_free, names_of
from hookwork_testkit.new.writing import rendered, write

_EPILOG = """
A plugin hooks into the runs of an app that lists it; an extension adds a capability wherever it is installed; an agent
is run by its name. NAME is words joined by - or _, such as word-count.
"""


def _names(ctx: click.Context, param: click.Parameter, value: str) -> Names:
    try:
        return names_of(value)
    except ConfigurationError as error:
        raise click.BadParameter(str(error), ctx, param) from error


@click.command("new", epilog=_EPILOG)
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("name", callback=_names)
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder of the new distribution; default: its name, in the working directory.",
)
@click.option("--config", metavar="FILE", expose_value=False, help="Settings file; 'none' reads none.")
@click.option("--debug", is_flag=True, expose_value=False, help="Show tracebacks.")
def command(kind: str, name: Names, folder: Path | None) -> None:
    """Write a new distribution of a KIND: agent, extension or plugin."""
    check_free(kind, name)
    folder = folder or Path(name.distribution)
    contents = rendered(kind, name)
    write(folder, contents)
    click.echo(f"{kind} {name.name} is in {folder}:")
    for path in contents:
        click.echo(f"  {path}")
    click.echo("next, in that folder:")
    click.echo("  uv sync && uv run pytest && uv run hookwork plugins")
