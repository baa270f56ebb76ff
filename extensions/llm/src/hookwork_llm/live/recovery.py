"""When a lost connection is followed by another one, and after how long (models LIVE-9 … LIVE-11)."""

from __future__ import annotations

from hookwork.errors import LiveConnectionClosed, ModelError
from hookwork.live import RESUMABLE_CLOSE_CODES

#: Connections in a row without a single message after which the session gives up.
MAX_ATTEMPTS = 5
#: Seconds before the first new connection; doubled for each further one, up to `MAX_DELAY`.
FIRST_DELAY = 1.0
MAX_DELAY = 30.0


class Recovery:
    """What is known about the line, and what may be done when it breaks.

    Attributes:
        handle: the newest resumption handle, None when there is none that can be used.
        unwritten: something was only spoken: the conversation cannot be told again from its history.
        go_away: the server said that it will close.
    """

    __slots__ = ("_attempts", "_heard", "_opened", "_own_handle", "go_away", "handle", "unwritten")

    def __init__(self, handle: str | None = None) -> None:
        self.handle = handle
        self.unwritten = False
        self.go_away = False
        self._own_handle = False
        self._attempts = 0
        #: whether this connection said anything; whether any was ever open.
        self._heard = False
        self._opened = False

    @property
    def was_open(self) -> bool:
        """Whether there ever was a connection."""
        return self._opened

    def opened(self) -> None:
        """A connection is open."""
        self._opened = True
        self._heard = False
        self.go_away = False

    def received(self, handle: str | None) -> None:
        """A message came."""
        self._attempts = 0
        self._heard = True
        if handle:
            self.handle, self._own_handle = handle, True

    def delay(self, error: Exception, model: str) -> float:
        """Seconds to wait before the next connection.

        Raises:
            Exception: ``error`` itself, when the session ends with it.
            ModelError: of kind ``live``, when the attempts are used up, or the conversation cannot be restored.
        """
        if not self._may_go_on(error):
            raise error
        code = error.code if isinstance(error, ModelError) else ""
        if self.handle is None and self.unwritten:
            raise self._given_up(
                f"the live connection to {model!r} was lost ({error}) and what was spoken is written nowhere; turn on "
                "session_resumption, or transcription of both sides, to survive that",
                model,
                code,
            ) from error
        self._attempts += 1
        if self._attempts > MAX_ATTEMPTS:
            raise self._given_up(
                f"the live connection to {model!r} was lost and {MAX_ATTEMPTS} new ones in a row gave no message; the "
                f"last one ended with code {code or 'none'}",
                model,
                code,
            ) from error
        return min(MAX_DELAY, FIRST_DELAY * 2.0 ** (self._attempts - 1))

    def _may_go_on(self, error: Exception) -> bool:
        if not isinstance(error, ModelError) or not self._opened:
            return False
        if isinstance(error, LiveConnectionClosed):
            if self.go_away or error.close_code in RESUMABLE_CLOSE_CODES:
                return True
        elif error.retryable:
            return True
        if self._own_handle and self.handle is not None and not self._heard:
            # The server did not take the handle it gave: the conversation is told again instead.
            self.handle, self._own_handle = None, False
            return True
        return False

    @staticmethod
    def _given_up(text: str, model: str, code: str) -> ModelError:
        return ModelError(text, model=model, kind="live", code=code, retryable=False)
