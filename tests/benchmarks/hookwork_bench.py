"""Hookwork's column of the peer benchmark: public API, defaults as a new user gets them.

Run one scenario in the project's environment (needs the folder of the benchmark's `scenarios.py` and `adapter.py` on
the path):

    PYTHONPATH=<bench folder> python tests/benchmarks/hookwork_bench.py s3
"""

from __future__ import annotations

from typing import Any

from adapter import CHUNK, REPLY, USER_TEXT, Adapter


class Hookwork(Adapter):
    """The verbs that this milestone has; the others stay unsupported."""

    name = "hookwork"
    import_code = (
        "from hookwork import Runner\nfrom hookwork_llm import LlmAgent\n"
        "from hookwork_inmemory import InMemorySessionService"
    )
    stores = ("sqlite",)

    async def build(
        self,
        mode: str,
        *,
        calls: int = 1,
        delay: float = 0.0,
        chunks: int = 0,
        store: str = "memory",
        path: str | None = None,
        plugins: int = 0,
    ) -> None:
        from hookwork import RunConfig, Runner
        from hookwork_llm import LlmAgent

        async def add(a: int, b: int) -> int:
            return a + b

        agent = LlmAgent(
            name="root",
            model=_stub(mode, calls, delay, chunks),
            instruction="Answer briefly.",
            tools=[add] if mode == "tools" else [],
        )
        config = RunConfig(streaming_mode="sse" if mode == "stream" else "none")
        sessions = "memory:" if store == "memory" else f"sqlite:///{path}"
        self.runner = Runner(agent, sessions=sessions, config=config, plugins=_no_op_plugins(plugins))
        self.count = 0

    async def new_session(self) -> str:
        session = await self.runner.sessions.create_session(app_name=self.runner.app_name, user_id="u")
        return session.id

    async def turn(self, session: str, text: str) -> str:
        final = ""
        async for event in self.runner.run(user_id="u", session_id=session, message=text):
            if event.is_final_response():
                final = event.text
        return final

    async def stream(self, session: str, text: str) -> int:
        count = 0
        async for event in self.runner.run(user_id="u", session_id=session, message=text):
            if event.partial:
                count += 1
        return count

    async def build_chain(self, n: int) -> Any:
        from hookwork_workflow import SequentialAgent

        return self._composed(SequentialAgent(name="root", sub_agents=_agents(n)))

    async def build_parallel(self, n: int) -> Any:
        from hookwork_workflow import ParallelAgent

        return self._composed(ParallelAgent(name="root", sub_agents=_agents(n)))

    async def build_graph(self, n: int) -> Any:
        from hookwork import Runner
        from hookwork_workflow import START, Workflow, chain, node

        async def first(text: str) -> int:
            return 1

        async def step(x: int) -> int:
            return x + 1

        steps = [node(first, name="n0"), *(node(step, name=f"n{i}") for i in range(1, n))]
        self.runner = Runner(Workflow("flow", chain(START, *steps)).as_agent(), sessions="memory:")

        async def run() -> int:
            last = 0
            async for event in self.runner.run(user_id="u", message=USER_TEXT):
                last = event.output
            return last

        return run

    def _composed(self, root: Any) -> Any:
        from hookwork import Runner

        self.runner = Runner(root, sessions="memory:")

        async def run() -> int:
            replies = 0
            async for event in self.runner.run(user_id="u", message=USER_TEXT):
                replies += event.text == REPLY
            return replies

        return run

    async def close(self) -> None:
        await self.runner.close()


def _agents(n: int) -> list[Any]:
    from hookwork_llm import LlmAgent

    return [
        LlmAgent(name=f"agent_{i}", model=_stub("text", 1, 0.0, 0), instruction="Answer briefly.") for i in range(n)
    ]


def _stub(mode: str, calls: int, delay: float, chunks: int) -> Any:
    import asyncio

    from hookwork import Content, FunctionCall, Model, ModelResponse, Part, UsageMetadata

    usage = UsageMetadata(prompt_token_count=10, candidates_token_count=10, total_token_count=20)

    class Stub(Model):
        name = "stub"

        async def generate(self, request: Any, *, stream: bool = False) -> Any:
            if delay:
                await asyncio.sleep(delay)
            if mode == "stream":
                for _ in range(chunks):
                    yield ModelResponse(content=Content(role="model", parts=[Part(text=CHUNK)]), partial=True)
                parts = [Part(text=CHUNK * chunks)]
            elif mode == "tools" and request.contents[-1].parts[-1].function_response is None:
                parts = [Part(function_call=FunctionCall(name="add", args={"a": i, "b": 1})) for i in range(calls)]
            else:
                parts = [Part(text=REPLY)]
            yield ModelResponse(content=Content(role="model", parts=parts), usage_metadata=usage, turn_complete=True)

    return Stub()


def _no_op_plugins(count: int) -> list[Any]:
    if not count:
        return []
    from hookwork import Plugin

    class NoOp(Plugin):
        async def on_user_message(self, ctx: Any, message: Any) -> None: ...
        async def before_run(self, ctx: Any) -> None: ...
        async def on_event(self, ctx: Any, event: Any) -> None: ...
        async def after_run(self, ctx: Any, outcome: Any) -> None: ...
        async def before_agent(self, ctx: Any, agent: Any) -> None: ...
        async def after_agent(self, ctx: Any, agent: Any) -> None: ...
        async def before_model(self, ctx: Any, request: Any) -> None: ...
        async def after_model(self, ctx: Any, request: Any, response: Any) -> None: ...
        async def on_model_error(self, ctx: Any, request: Any, error: Any) -> None: ...
        async def before_tool(self, ctx: Any, tool: Any, args: Any) -> None: ...
        async def after_tool(self, ctx: Any, tool: Any, args: Any, result: Any, error: Any) -> None: ...
        async def on_tool_error(self, ctx: Any, tool: Any, args: Any, error: Any) -> None: ...

    plugins = []
    for number in range(count):
        plugin = NoOp()
        plugin.name = f"no_op_{number}"
        plugins.append(plugin)
    return plugins


if __name__ == "__main__":
    from scenarios import main

    main(Hookwork)
