"""Small steps on a file system: synced folders and files, and errors in the words of the kit."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hookwork.errors import BackendError, HookworkError

#: A rename that found something in its place.
TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY})
#: A name that this file system cannot hold.
UNNAMEABLE = frozenset({errno.EINVAL, errno.EILSEQ, errno.ENAMETOOLONG})

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PASSING = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ETIMEDOUT, errno.ESTALE}
)


@contextmanager
def as_backend_errors(root: Path) -> Iterator[None]:
    """Turn an `OSError` into a `BackendError` whose ``code`` is the name of the error number."""
    try:
        yield
    except OSError as error:
        if isinstance(error, HookworkError):  # ArtifactNotFoundError is a FileNotFoundError too
            raise
        number = error.errno or 0
        what = error.strerror or str(error)
        remedy = "free some space; what was stored is intact" if number in _FULL else "see that the folder can be used"
        raise BackendError(
            f"artifacts in {os.fspath(root)!r}: {what}; {remedy}",
            code=errno.errorcode.get(number, "OSError"),
            retryable=number in _PASSING,
        ) from error


def sync_folder(folder: Path) -> None:
    """Make what was made, renamed or removed in a folder last through a loss of power."""
    if sys.platform == "win32":  # folders cannot be opened there, and need not be
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folders(folder: Path, *, sync: bool) -> None:
    """Make a folder and those above it; each new one is synced into its parent."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        if sync:
            sync_folder(new.parent)


def write_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Write a whole file."""
    with path.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def remove_tree(folder: Path) -> None:
    """Remove a folder, or a link to one, whatever happens to it meanwhile.

    What cannot be removed is left: a later save tries again.
    """
    if folder.is_symlink():
        folder.unlink(missing_ok=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)


def newest_change(folder: Path) -> float:
    """The latest modification time of a folder and the files in it, in the file system's own epoch seconds."""
    times = [folder.stat().st_mtime]
    with os.scandir(folder) as entries:
        times += [entry.stat(follow_symlinks=False).st_mtime for entry in entries]
    return max(times)


def is_spelled_so(path: Path) -> bool:
    """Whether an existing file or folder has exactly this name, and not one that its file system takes for equal."""
    return path.name in os.listdir(path.parent)


def same_bytes(one: Path, other: Path, chunk: int = 1 << 20) -> bool:
    """Whether two files hold the same bytes."""
    if one.stat().st_size != other.stat().st_size:
        return False
    with one.open("rb") as first, other.open("rb") as second:
        while True:
            data = first.read(chunk)
            if data != second.read(chunk):
                return False
            if not data:
                return True
