"""Every error Hookwork raises.

All derive from `HookworkError`; each message says what was wrong, where, and what to do next. Adapters raise only
these classes (or subclasses) and keep a driver's or an SDK's own error as ``__cause__``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hookwork.run import RunOutcome


class HookworkError(Exception):
    """Base of all errors of the kit."""


# --- configuration ---------------------------------------------------------------------------------------------------


class ConfigurationError(HookworkError, ValueError):
    """Agents, names, plugins, services or settings do not fit together; nothing has run yet."""


class UnknownModelError(ConfigurationError, LookupError):
    """No installed extension takes a model name (core §8)."""


class ModelNotConfigured(HookworkError, LookupError):
    """An agent reached its first step without a model."""


class PluginError(ConfigurationError):
    """A plugin breaks the hook contract: unknown hook or argument, duplicate name, a forbidden wrapper."""


class ExtensionError(ConfigurationError):
    """An extension could not be loaded (strict mode), or one that failed to load would have been needed."""


# --- input and services (services GEN-6) -----------------------------------------------------------------------------


class ValidationError(HookworkError, ValueError):
    """A value from outside has the wrong form. ``path`` is the JSON path of the fault, never its value."""

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class SessionNotFoundError(HookworkError, LookupError):
    """The session does not exist."""


class SessionAlreadyExistsError(HookworkError, ValueError):
    """A session of that id exists already."""


class SessionOwnershipError(HookworkError, PermissionError):
    """The session id exists but belongs to another user."""


class StaleSessionError(HookworkError, RuntimeError):
    """A foreign append touched a state key that this handle wrote (services SES-18); nothing was stored."""

    def __init__(self, message: str, *, stored: str = "", local: str = "", keys: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.stored = stored
        self.local = local
        self.keys = tuple(keys)


class SessionBusyError(StaleSessionError):
    """Another run holds the session and the policy, or the risk of a deadlock, forbids waiting (core POL-3, POL-5)."""


class EventConflictError(HookworkError, RuntimeError):
    """An event id was appended again with other content."""


class ArtifactNotFoundError(HookworkError, FileNotFoundError):
    """The artifact, or that version of it, does not exist."""


class ArtifactReferenceError(ValidationError):
    """An ``artifact://`` reference cannot be followed (services BEY-7).

    ``reason``: ``malformed``, ``scope`` (another app, user or session), ``cycle`` or ``depth``. A target that is absent
    is an ArtifactNotFoundError.
    """

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ArtifactVersionConflictError(HookworkError, RuntimeError):
    """A version race was lost after all attempts; the save may be tried again."""


class UnsupportedOperationError(HookworkError, NotImplementedError):
    """The backend lacks that capability."""


class PartlyErasedError(UnsupportedOperationError):
    """A user was erased as far as the backends can (services BEY-14).

    Attributes:
        erased: kind (``sessions``, ``artifacts``, ``memories``) → how many are gone.
        kept: what is still there, in words.
    """

    def __init__(self, whose: str, *, erased: Mapping[str, int], kept: Iterable[str]) -> None:
        self.erased = dict(erased)
        self.kept = tuple(kept)
        gone = ", ".join(f"{number} {kind}" for kind, number in self.erased.items()) or "nothing"
        super().__init__(f"{whose}: erased {gone}; not erased: {'; '.join(self.kept)}. Erase the rest by hand")


class BackendError(HookworkError, RuntimeError):
    """A transport or driver failure; ``retryable`` tells whether the same call may succeed later."""

    def __init__(self, message: str, *, code: str = "", status: int | None = None, retryable: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.retryable = retryable


# --- a run -----------------------------------------------------------------------------------------------------------


class ModelError(HookworkError, RuntimeError):
    """A model call failed (models ERR-1). One class for all providers, told apart by its attributes.

    ``kind`` is one of ``rate_limit``, ``unavailable``, ``timeout``, ``connection``, ``stream``, ``auth``,
    ``invalid_request``, ``invalid_response``, ``live``. ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        model: str = "",
        kind: str = "unavailable",
        status_code: int | None = None,
        code: str = "",
        retryable: bool = False,
        retry_after: float | None = None,
        after_first_chunk: bool = False,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.model = model
        self.kind = kind
        self.status_code = status_code
        self.code = code
        self.retryable = retryable
        self.retry_after = retry_after
        self.after_first_chunk = after_first_chunk
        self.request_id = request_id


class IncompleteModelStream(ModelError):
    """A model stream ended without its final response (core FLOW-3)."""

    def __init__(self, message: str, **attributes: Any) -> None:
        super().__init__(message, **{"kind": "stream", "retryable": True, **attributes})


class LiveConnectionClosed(ModelError):
    """A live connection ended without our asking (models LIVE-10).

    ``close_code`` is the WebSocket close code, 1006 when none was received. Not an error of the session by itself:
    most are followed by a new connection.
    """

    def __init__(self, message: str, *, close_code: int = 1006, **attributes: Any) -> None:
        super().__init__(message, **{"kind": "connection", "retryable": True, "code": str(close_code), **attributes})
        self.close_code = close_code


class LimitExceeded(HookworkError, RuntimeError):
    """A budget is used up; the run's outcome is ``limit``."""


class LlmCallLimitError(LimitExceeded):
    """More model calls than ``RunConfig.max_llm_calls`` (core FLOW-4)."""


class NothingToResume(HookworkError, ValueError):
    """A message or id would resume something, but nothing waits for it (core RES-7, RES-10)."""

    def __init__(self, message: str, *, unknown: Sequence[str] = (), repeated: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.unknown = tuple(unknown)
        self.repeated = tuple(repeated)


class InvalidResumeResponse(HookworkError, ValueError):
    """An answer to an open call cannot be read; the call stays open and nothing was stored."""


class InvocationNotFoundError(HookworkError, LookupError):
    """The session holds no live event of that invocation."""


class RunPaused(HookworkError, RuntimeError):
    """`Runner.ask` on a run that waits for answers; ``outcome`` lists its open calls."""

    def __init__(self, message: str, outcome: RunOutcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class RunStateError(HookworkError, RuntimeError):
    """A run handle or runner is used in a way its state forbids: iterated twice, used after close."""


class UnsupportedInContext(HookworkError, TypeError):
    """This kind of context does not offer the capability (core §5)."""


class StateMutationError(HookworkError, TypeError):
    """A frozen record, payload or state value was changed in place (core DLT-2)."""


class ContextClosedError(HookworkError, RuntimeError):
    """A context was used after its call had ended (core DLT-8)."""


class RemoteEffectError(HookworkError, RuntimeError):
    """An effect failed in another process (tools-plugins EFF-7)."""

    def __init__(self, message: str, *, error_type: str = "", retryable: bool = False) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.retryable = retryable


class CompactionError(HookworkError, RuntimeError):
    """Summarising the history failed."""


# --- tools -----------------------------------------------------------------------------------------------------------


class ToolError(HookworkError, RuntimeError):
    """A tool failed. Its message goes to the model as ``{"error": message}``."""


class InvalidToolError(ToolError, ConfigurationError):
    """A tool cannot be built: an underivable type, a bad callable, a bad schema."""


class DuplicateToolError(ToolError, ConfigurationError):
    """Two tools of one name in one request."""


class ToolNotFoundError(ToolError):
    """The model called a name that is not in the request's execution table."""


class ToolArgumentError(ToolError):
    """Arguments do not fit the tool's schema; the body was not run."""


class ToolResultError(ToolError):
    """A tool returned what JSON, or its declared output schema, cannot hold."""


class ConfirmationRequired(ToolError):
    """The call waits for a person's approval (tools-plugins HITL-02)."""


class ConfirmationRejected(ToolError):
    """A person rejected the call; the body was not run."""


# --- credentials -----------------------------------------------------------------------------------------------------


class AuthError(HookworkError, RuntimeError):
    """A request gets no credential (crosscutting AUTH-9)."""


class CredentialError(AuthError):
    """A credential could not be minted or written on headers."""


class ConsentRejectedError(AuthError):
    """A person refused the consent that a request needs."""


class ConsentRequiredError(AuthError):
    """A person has to consent first (AUTH-5). A tool call that meets it pauses until a client answers.

    Attributes:
        auth_uri: the page to visit. nonce: issued with it; the answer's ``state`` must be the same. key: names the
        credential, also for `hookwork.credentials.consent_answer`. config: further keys of the AuthConfig that the
        client is shown; secrets are taken out of it.
    """

    def __init__(self, auth_uri: str, nonce: str, key: str, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"consent is needed for {key!r}; visit {auth_uri}")
        self.auth_uri = auth_uri
        self.nonce = nonce
        self.key = key
        self.config = dict(config or {})


# --- nodes -----------------------------------------------------------------------------------------------------------


class GraphError(ConfigurationError):
    """A graph or a node of it is not valid.

    ``code`` names the rule that is broken (workflow GV), ``nodes`` and ``edges`` who breaks it. Of a whole graph
    ``errors`` has every fault, in the order of the rules; ``code`` is then that of the first.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "",
        nodes: Sequence[str] = (),
        edges: Sequence[tuple[str, str]] = (),
        errors: Sequence[GraphError] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.nodes = tuple(nodes)
        self.edges = tuple(edges)
        self.errors = tuple(errors)


class NodeFailed(HookworkError, RuntimeError):
    """A node's body failed."""


class InputValidationError(NodeFailed):
    """A value does not fit the input schema of a node; its body was not run (NODE-1). ``node``: its name."""

    def __init__(self, node: str, reason: str = "") -> None:
        text = f'input validation failed for node "{node}"'
        super().__init__(f"{text}: {reason}" if reason else text)
        self.node = node


class OutputValidationError(NodeFailed):
    """A node gave what its output schema, or JSON, cannot hold; nothing of it was stored (NODE-4)."""

    def __init__(self, node: str, reason: str = "") -> None:
        text = f'output validation failed for node "{node}"'
        super().__init__(f"{text}: {reason}" if reason else text)
        self.node = node


class NodeTimeout(NodeFailed, TimeoutError):
    """An attempt at a node took longer than its ``timeout`` (TMO-1). ``seconds``: that timeout."""

    def __init__(self, node: str, seconds: float) -> None:
        super().__init__(f'node "{node}" did not finish within {seconds:g} s')
        self.node = node
        self.seconds = seconds


class NodeRunError(NodeFailed):
    """A child that was started with `run_node` failed; the cause is ``__cause__`` (DYN-4)."""

    def __init__(self, child_name: str, child_path: str, run_id: str, cause: BaseException) -> None:
        super().__init__(f"workflow: dynamic child {child_path}: {cause}")
        self.child_name = child_name
        self.child_path = child_path
        self.run_id = run_id
        self.__cause__ = cause


class MultipleOutputs(NodeFailed):
    """One activation of a node gave more than one output (NODE-6)."""

    def __init__(self, node: str) -> None:
        super().__init__(
            f'node "{node}" gave more than one output; give one, and the rest as events without output (progress(...))'
        )
        self.node = node


class MultipleRoutes(NodeFailed):
    """One activation of a node decided more than once where to go (NODE-6)."""

    def __init__(self, node: str) -> None:
        super().__init__(f'node "{node}" gave more than one routing event; put all routes on one event')
        self.node = node


class OutputAlreadyDelegated(NodeFailed):
    """A second child was to be the output of its parent (DYN-24)."""

    def __init__(self, node: str, first: str, second: str) -> None:
        super().__init__(
            f'node "{node}" has handed its output over to {first} already; {second} cannot be its output too'
        )
        self.node = node


class InvalidRunNodeContext(UnsupportedInContext, RuntimeError):
    """`run_node` or `request_input` where the context cannot carry them out (workflow DYN-1)."""


class InvalidRunId(ValidationError):
    """A run id uses characters that belong to the kernel (activations ACT-30)."""
