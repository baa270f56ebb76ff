"""Code that a model writes is run, and the model is told what it gave.

An agent gets an executor (``LlmAgent(code_executor=...)``). When the model's answer holds a block of code, the answer
ends there, the code is run, and the model goes on with the result. Nothing is run by default.
"""

from __future__ import annotations

from hookwork_llm.code_execution.contract import CodeExecutor
from hookwork_llm.code_execution.local import LocalSubprocessExecutor

__all__ = ["CodeExecutor", "LocalSubprocessExecutor"]
