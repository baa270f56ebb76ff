"""Where artifacts lie below the root (services FIL-1, FIL-3, FIL-4). Blocking; raises `OSError`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from hookwork.artifact_names import USER_PREFIX, ArtifactKey, check_filename
from hookwork.errors import ValidationError
from hookwork_files.disk import UNNAMEABLE, is_spelled_so, make_folders
from hookwork_files.folder import ArtifactFolder
from hookwork_files.names import artifact_folders, legacy_folder, other_owner_folder, owner_folder


class Tree:
    """The folders below ``root``, an absolute path."""

    def __init__(self, root: Path, *, nested: bool, sync: bool) -> None:
        self.root = root
        self._nested = nested
        self._sync = sync
        self._folds_case: bool | None = None

    def scope(self, app_name: str, user_id: str, session_id: str | None) -> Path:
        """The folder above the artifacts of a session, or of a user (``session_id`` None)."""
        user = self._owner(self._owner(self.root / "apps", app_name) / "users", user_id)
        owner = user if session_id is None else self._owner(user / "sessions", session_id)
        return owner / "artifacts"

    def _owner(self, above: Path, name: str) -> Path:
        """The folder of an app, a user or a session. Where case is folded, ``Ann`` must not get that of ``ann``."""
        folder = above / owner_folder(name)
        if self._folds and folder.exists() and not is_spelled_so(folder):
            return above / other_owner_folder(name)
        return folder

    @property
    def _folds(self) -> bool:
        """Whether the file system takes names of different case for equal, as those of macOS and Windows do."""
        if self._folds_case is None and (self.root / "apps").exists():
            self._folds_case = (self.root / "APPS").exists()
        return bool(self._folds_case)

    def scope_of(self, place: ArtifactKey) -> Path:
        """The folder above an artifact's own."""
        return self.scope(place.app_name, place.user_id, None if place.is_users else place.session_id)

    def check_inside(self, path: Path) -> None:
        """Raise `ValidationError` when a path leads out of the root once its links are followed."""
        if not self._is_inside(path):
            raise ValidationError(
                f"{os.fspath(path)!r} leads out of the folder of the artifacts, {os.fspath(self.root)!r}, by a link; "
                "remove the link"
            )

    def _is_inside(self, path: Path) -> bool:
        root, real = os.path.realpath(self.root), os.path.realpath(path)
        return os.path.commonpath([root, real]) == root

    def find(self, place: ArtifactKey) -> ArtifactFolder | None:
        """The folder that holds versions of an artifact, whoever wrote them."""
        return self._look(place)[0]

    def find_or_make(self, place: ArtifactKey) -> ArtifactFolder:
        """The folder of an artifact, ready for its next version.

        Raises:
            ValidationError: it would lie outside of the root.
            OSError: it cannot be made.
        """
        found, free = self._look(place)
        refusal: OSError | None = None
        for folder in [found] if found is not None else free:
            try:
                make_folders(folder.versions, sync=self._sync)
            except OSError as error:
                if error.errno not in UNNAMEABLE:
                    raise
                refusal = error  # the next one has a plainer name
            else:
                return folder
        where = os.fspath(self.scope_of(place))
        raise refusal or FileExistsError(errno.EEXIST, "every folder for this artifact is taken by another", where)

    def _look(self, place: ArtifactKey) -> tuple[ArtifactFolder | None, list[ArtifactFolder]]:
        """The artifact's folder, and those that nobody has. Each is asked once: others may be taking it."""
        scope, name = self.scope_of(place), place.filename.removeprefix(USER_PREFIX)
        free: list[ArtifactFolder] = []
        for candidate in artifact_folders(name):
            folder = self._folder(scope / candidate)
            owner = folder.owner()
            if owner is None:
                free.append(folder)
            elif _is_of(owner, place):
                return folder, free
        legacy = legacy_folder(name)
        if legacy is not None:
            folder = self._folder(scope / legacy)
            owner = folder.owner()
            if owner is not None and _is_of(owner, place):
                return folder, free
        return None, free

    def _folder(self, path: Path) -> ArtifactFolder:
        folder = ArtifactFolder(path)
        self.check_inside(folder.versions)
        return folder

    def artifacts(self, app_name: str, user_id: str, session_id: str | None) -> Iterator[tuple[str, ArtifactFolder]]:
        """Names and folders of the artifacts of a session, or of a user; what no call could name is left out."""
        scope = self.scope(app_name, user_id, session_id)
        self.check_inside(scope)
        for path in self._walk(scope):
            folder = ArtifactFolder(path)
            owner = folder.owner()
            if owner is None:
                continue
            users = session_id is None
            name = _recorded(owner or path.relative_to(scope).as_posix(), users=users)
            try:
                check_filename(name, nested=self._nested)
            except ValidationError:
                continue  # another kit takes more names than we do
            if name.startswith(USER_PREFIX) == users:
                yield name, folder

    def _walk(self, above: Path, *, top: bool = True) -> Iterator[Path]:
        """Folders with versions; below them too when names may be nested."""
        try:
            entries = list(os.scandir(above))
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            path = above / entry.name
            # At the top, "versions" is an artifact of google-adk's; below, the folder of the versions.
            if not entry.is_dir() or (entry.name == "versions" and not top) or not self._is_inside(path):
                continue
            if (path / "versions").is_dir():
                yield path
            if self._nested:
                yield from self._walk(path, top=False)


def _is_of(owner: str, place: ArtifactKey) -> bool:
    """Whether a folder with such a record is the artifact's; without a record the folder's name counts."""
    return owner == "" or _recorded(owner, users=place.is_users) == place.filename


def _recorded(name: str, *, users: bool) -> str:
    """A recorded name with its prefix: google-adk writes some user files without one."""
    return f"{USER_PREFIX}{name}" if users and not name.startswith(USER_PREFIX) else name
