"""The contract of code executors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from hookwork.records.content import CodeExecutionResult, ExecutableCode

if TYPE_CHECKING:
    from hookwork.context import ToolContext

OK = "OUTCOME_OK"
FAILED = "OUTCOME_FAILED"
DEADLINE_EXCEEDED = "OUTCOME_DEADLINE_EXCEEDED"


class CodeExecutor(ABC):
    """Runs code that a model wrote. One object serves concurrent calls.

    Attributes:
        fences: what a block of code in the model's text is marked with, as in three backticks and ``python``; in lower
            case.
        max_rounds: runs per agent call; code that comes after them is shown and not run.
        max_failures: runs in a row that may fail; code that comes after them is not run.
    """

    fences: tuple[str, ...] = ("python", "py", "tool_code")
    max_rounds: int = 10
    max_failures: int = 3

    @abstractmethod
    async def execute(self, ctx: ToolContext, code: ExecutableCode) -> CodeExecutionResult:
        """Run the code; ``output`` is what the model is told.

        A program that fails gives a result with the outcome ``OUTCOME_FAILED`` or ``OUTCOME_DEADLINE_EXCEEDED``; what
        is raised is told to the model as a failure too, but for cancellation, which has to end the program.
        """
