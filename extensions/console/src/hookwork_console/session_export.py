"""Write sessions as JSON Lines: to a file that is there whole or not at all, or to stdout."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hookwork.errors import BackendError, ConfigurationError, SessionNotFoundError
from hookwork_console.session_lines import lines_of

if TYPE_CHECKING:
    from hookwork.services import SessionService
    from hookwork_console.session_store import Key

Write = Callable[[bytes], Any]


class Exported(NamedTuple):
    """One session that was written, with how many events; ``failure`` says why it was not."""

    key: Key
    events: int = 0
    failure: str = ""


async def export_sessions(service: SessionService, keys: Iterable[Key], write: Write) -> AsyncGenerator[Exported, None]:
    """Write sessions, one after the other; what cannot be read is told and left out whole.

    Args:
        keys: which sessions, in which order.
        write: gets one line with its end at a time.

    Raises:
        BackendError: the store cannot be reached.
    """
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
        yield Exported(key, events=len(session.events))


@contextmanager
def written_file(name: str) -> Iterator[Write]:
    """A file that replaces an older one when the block ends well; readable by its owner alone.

    What is not a plain file (a device, a named pipe) is written to as it is.

    Raises:
        ConfigurationError: it cannot be written.
    """
    target = Path(os.path.realpath(name))
    try:
        if target.exists() and not target.is_file():
            with target.open("wb") as stream:
                yield stream.write
            return
        handle, draft = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream.write
            Path(draft).replace(target)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(draft).unlink()
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"cannot write {name!r}: {reason}; give --output a file you may write") from error
