"""Write sessions as JSON Lines: to a file that is there whole or not at all, or to stdout."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from hookwork.errors import BackendError, ConfigurationError, SessionNotFoundError
from hookwork_console.session_artifacts import artifact_lines
from hookwork_console.session_lines import lines_of

if TYPE_CHECKING:
    from hookwork.services import ArtifactService, SessionService
    from hookwork_console.session_store import Key

Write = Callable[[bytes], Any]


class Exported(NamedTuple):
    """One session that was written, with how many events and versions of files; ``failure`` says why it was not."""

    key: Key
    events: int = 0
    artifacts: int = 0
    failure: str = ""


async def export_sessions(
    service: SessionService,
    keys: Iterable[Key],
    write: Write,
    artifacts: ArtifactService | None = None,
    users: set[tuple[str, str]] | None = None,
) -> AsyncGenerator[Exported, None]:
    """Write sessions, one after the other; what cannot be read is told and left out whole.

    Args:
        keys: which sessions, in which order.
        write: gets one line with its end at a time.
        artifacts: where the files of the sessions are; None: they are not written.
        users: (app, user) whose own files are written already.

    Raises:
        BackendError: a store cannot be reached.
    """
    users = set() if users is None else users
    for key in keys:
        try:
            session = await service.get_session(**key._asdict())
        except SessionNotFoundError as error:  # deleted since it was listed
            yield Exported(key, failure=str(error))
            continue
        except BackendError as error:
            if error.retryable:
                raise
            yield Exported(key, failure=str(error))
            continue
        for line in lines_of(session):
            write(line)
        versions = 0
        if artifacts is not None:
            async with aclosing(artifact_lines(artifacts, key, users)) as lines:
                async for line in lines:
                    write(line)
                    versions += 1
        yield Exported(key, events=len(session.events), artifacts=versions)


@contextmanager
def written_file(name: str) -> Iterator[Write]:
    """A file that replaces an older one when the block ends well; readable by its owner alone.

    What is not a plain file (a device, a named pipe) is written to as it is.

    Raises:
        ConfigurationError: it cannot be written.
    """
    target = Path(os.path.realpath(name))
    plain = not target.exists() or target.is_file()
    with _faults_of(name):
        if plain:
            handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            stream: BinaryIO = os.fdopen(handle, "wb")
        else:
            draft, stream = "", target.open("wb")

    def write(line: bytes) -> None:
        with _faults_of(name):
            stream.write(line)

    try:
        yield write
        with _faults_of(name):
            stream.close()
            if draft:
                Path(draft).replace(target)
    finally:
        # Behind a failure: what is written is not wanted any more, whether it can be written to the end or not.
        with suppress(OSError):
            stream.close()
        if draft:
            Path(draft).unlink(missing_ok=True)


@contextmanager
def _faults_of(name: str) -> Iterator[None]:
    """Faults of the file as the error of the command; those of the store are not among them."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"cannot write {name!r}: {reason}; give --output a file you may write") from error
