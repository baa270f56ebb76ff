"""Agents called by agents: single_turn runs and task delegations (core §2.2, activations S5)."""

from __future__ import annotations

from typing import Any

import pytest

from hookwork import Event, FunctionResponse, Part, Plugin, Runner
from hookwork.errors import ConfigurationError
from hookwork_llm import LlmAgent, tool
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call, text

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


def told(event: Event) -> str:
    """One stored event in the notation of activations §6: path, what, stamp, scope."""
    what = []
    for part in event.content.parts if event.content is not None else ():
        if part.function_call is not None:
            what.append(f"call {part.function_call.name}#{part.function_call.id}")
        elif part.function_response is not None:
            what.append(f"response {part.function_response.name}#{part.function_response.id}")
        elif part.text is not None:
            what.append(f'"{part.text}"')
    stamp = " ✓" if event.node_info is not None and event.node_info.status == "completed" else ""
    scope = f" [{event.isolation_scope}]" if event.isolation_scope else ""
    output = f" ={event.output}" if event.output is not None else ""
    where = "U" if event.author == "user" and not event.path else event.path
    return f"{where} {', '.join(what)}{output}{stamp}{scope}"


async def history(runner: Runner) -> list[str]:
    session = await runner.sessions.get_session(app_name=runner.app_name, **WHO)
    return [told(event) for event in session.events]


def booking(coordinator: ScriptedModel, booker: ScriptedModel, **more: Any) -> LlmAgent:
    book = LlmAgent(name="book", description="Books tables.", model=booker, mode="task", **more)
    return LlmAgent(name="coord", model=coordinator, sub_agents=[book])


class TestTask:
    async def test_s5_a_task_asks_and_is_finished_in_the_next_turn(self) -> None:
        coordinator = ScriptedModel([call("book", id="c1", request="a table"), "all booked"])
        booker = ScriptedModel(["which day?", call("finish_task", id="a1", result="mon")])
        async with Runner(booking(coordinator, booker), sessions="memory:") as runner:
            first = await runner.run(message="book it", **WHO).wait()
            assert first.kind == "completed"
            assert [c.id for c in first.open_delegations] == ["c1"]
            assert await history(runner) == [
                'U "book it"',
                "coord@1 call book#c1",
                'coord@1/book@c1 "which day?" [c1]',
            ]
            second = await runner.run(message="monday", **WHO).wait()
            assert second.kind == "completed"
            assert second.open_delegations == ()
            assert (await history(runner))[3:] == [
                'U "monday" [c1]',
                "coord@1/book@c1 call finish_task#a1 [c1]",
                "coord@1/book@c1 response finish_task#a1 =mon ✓ [c1]",
                "coord@1 response book#c1",
                'coord@1 "all booked" ✓',
            ]
            assert second.final_event is not None
            assert second.final_event.text == "all booked"

    async def test_mode_9_the_parent_gets_the_result_as_the_calls_response(self) -> None:
        coordinator = ScriptedModel([call("book", id="c1", request="a table"), "done"])
        booker = ScriptedModel([call("finish_task", result="ok")])
        async with Runner(booking(coordinator, booker), sessions="memory:") as runner:
            await runner.run(message="go", **WHO).wait()
        answer = coordinator.prompts[-1][-1].parts[0].function_response
        assert answer is not None
        assert (answer.name, answer.response) == ("book", {"output": "ok"})
        assert_valid_prompt(coordinator.prompts[-1], ids=False)

    async def test_mode_4_success_and_failure_of_finish_task(self) -> None:
        schema = {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
        coordinator = ScriptedModel([call("book", id="c1", request="x"), "done"])
        booker = ScriptedModel([call("finish_task", id="f1", dya="mon"), call("finish_task", id="f2", day="mon")])
        root = booking(coordinator, booker, output_schema=schema, output_key="booked")
        async with Runner(root, sessions="memory:") as runner:
            await runner.run(message="go", **WHO).wait()
            session = await runner.sessions.get_session(app_name="coord", **WHO)
        responses = [r for e in session.events for r in e.function_responses if r.name == "finish_task"]
        assert "error" in (responses[0].response or {})
        assert responses[1].response == {"result": "Task completed."}
        assert session.state["booked"] == {"day": "mon"}  # LLM-11
        payload = [r.response for e in session.events for r in e.function_responses if r.name == "book"]
        assert payload == [{"day": "mon"}]

    async def test_mode_11_ordinary_calls_run_first_and_tasks_one_by_one(self) -> None:
        order: list[str] = []

        @tool(inline=True)
        def look() -> str:
            """Looks."""
            order.append("look")
            return "seen"

        first = LlmAgent(name="first", mode="task", model=ScriptedModel([call("finish_task", result="1")]))
        second = LlmAgent(name="second", mode="task", model=ScriptedModel([call("finish_task", result="2")]))
        turn = [call("first", id="t1", request="a"), call("look", id="o1"), call("second", id="t2", request="b")]
        model = ScriptedModel([turn, "done"])
        root = LlmAgent(name="coord", model=model, sub_agents=[first, second], tools=[look])
        async with Runner(root, sessions="memory:") as runner:
            await runner.run(message="go", **WHO).wait()
            authors = [line for line in await history(runner) if "response" in line and "finish" not in line]
        assert order == ["look"]
        assert authors == ["coord@1 response look#o1", "coord@1 response first#t1", "coord@1 response second#t2"]
        assert_valid_prompt(model.prompts[-1], ids=False)

    async def test_act_26_a_recorded_result_is_delivered_without_calling_the_task_again(self) -> None:
        coordinator = ScriptedModel([call("book", id="c1", request="x"), "all booked"])
        booker = ScriptedModel([call("finish_task", id="a1", result="mon")])
        async with Runner(booking(coordinator, booker), sessions="memory:") as runner:
            run = runner.run(message="go", **WHO)
            async with run:
                async for event in run:
                    if event.output is not None:
                        break  # as if the process died after finish_task's response
            again = await runner.run(invocation_id=run.invocation_id, **WHO).wait()
            assert again.kind == "completed"
            assert again.final_event is not None
            assert again.final_event.text == "all booked"
            assert len(booker.requests) == 1

    async def test_activations_4_a_second_call_of_the_same_id_has_a_scope_of_its_own(self) -> None:
        coordinator = ScriptedModel(
            [call("book", id="c1", request="x"), "one", call("book", id="c1", request="y"), "two"]
        )
        booker = ScriptedModel([call("finish_task", result="1"), call("finish_task", result="2")])
        async with Runner(booking(coordinator, booker), sessions="memory:") as runner:
            await runner.run(message="go", **WHO).wait()
            await runner.run(message="again", **WHO).wait()
            lines = await history(runner)
        assert any(line.startswith("coord@1/book@c1~2 ") and line.endswith("[c1~2]") for line in lines)
        assert len(booker.requests) == 2

    async def test_the_task_sees_its_own_talk_and_the_parent_none_of_it(self) -> None:
        coordinator = ScriptedModel([call("book", id="c1", request="a table"), "done"])
        booker = ScriptedModel(["which day?", call("finish_task", result="mon")])
        async with Runner(booking(coordinator, booker), sessions="memory:") as runner:
            await runner.run(message="book it", **WHO).wait()
            await runner.run(message="monday", **WHO).wait()
        seen = [content.text for content in booker.prompts[-1]]
        assert seen[-2:] == ["which day?", "monday"]
        assert "book it" not in seen
        assert not any("which day?" in content.text or "monday" in content.text for content in coordinator.prompts[-1])

    async def test_an_approval_inside_a_task_continues_the_task(self) -> None:
        ran: list[int] = []

        @tool(require_confirmation=True, inline=True)
        def pay(amount: int) -> str:
            """Pays."""
            ran.append(amount)
            return "paid"

        coordinator = ScriptedModel([call("book", id="c1", request="x"), "all booked"])
        booker = ScriptedModel([call("pay", id="p1", amount=3), call("finish_task", result="ok")])
        root = booking(coordinator, booker, tools=[pay])
        async with Runner(root, sessions="memory:") as runner:
            first = await runner.run(message="go", **WHO).wait()
            assert first.kind == "paused"
            asked = first.open_calls[0]
            answer = FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
            second = await runner.run(message=[Part(function_response=answer)], **WHO).wait()
        assert second.kind == "completed"
        assert second.invocation_id == first.invocation_id
        assert ran == [3]
        assert second.final_event is not None
        assert second.final_event.text == "all booked"

    async def test_bad_arguments_go_back_to_the_parent(self) -> None:
        coordinator = ScriptedModel([call("book", id="c1", wrong=1), "sorry"])
        booker = ScriptedModel([])
        async with Runner(booking(coordinator, booker), sessions="memory:") as runner:
            outcome = await runner.run(message="go", **WHO).wait()
        assert outcome.kind == "completed"
        answer = coordinator.prompts[-1][-1].parts[0].function_response
        assert answer is not None
        assert "/request" in (answer.response or {})["error"]
        assert booker.requests == []


class TestSingleTurn:
    def asking(self, child: ScriptedModel, script: list[Any], **more: Any) -> tuple[LlmAgent, ScriptedModel]:
        model = ScriptedModel(script)
        helper = LlmAgent(name="helper", description="Helps.", model=child, mode="single_turn", **more)
        return LlmAgent(name="root", model=model, sub_agents=[helper]), model

    async def test_case_flow_2_c_the_result_comes_back_to_the_caller(self) -> None:
        child = ScriptedModel(["42"])
        root, model = self.asking(child, [call("helper", id="c1", request="what?"), "it is 42"])
        async with Runner(root, sessions="memory:") as runner:
            outcome = await runner.run(message="ask", **WHO).wait()
            lines = await history(runner)
        assert lines == [
            'U "ask"',
            "root@1 call helper#c1",
            'root@1/helper@1-1 "42" ✓',
            "root@1 response helper#c1",
            'root@1 "it is 42" ✓',
        ]
        answer = model.prompts[-1][-1].parts[0].function_response
        assert answer is not None
        assert answer.response == {"result": "42"}
        assert outcome.final_event is not None
        assert outcome.final_event.text == "it is 42"

    async def test_mode_7_the_input_is_a_virtual_turn_that_is_never_stored(self) -> None:
        child = ScriptedModel(["42"])
        root, _ = self.asking(child, [call("helper", request="what?"), "done"])
        async with Runner(root, sessions="memory:") as runner:
            await runner.run(message="ask", **WHO).wait()
            session = await runner.sessions.get_session(app_name="root", **WHO)
        assert child.prompts[0][0].text.startswith("what?")
        assert not any(event.text.startswith("what?") for event in session.events)
        assert "internal name" not in child.requests[0].instruction  # INS-5

    async def test_mode_6_an_output_schema_gives_the_checked_object(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        child = ScriptedModel(['```json\n{"n": 42}\n```'])
        root, model = self.asking(child, [call("helper", request="n?"), "done"], output_schema=schema)
        async with Runner(root, sessions="memory:") as runner:
            await runner.run(message="ask", **WHO).wait()
        answer = model.prompts[-1][-1].parts[0].function_response
        assert answer is not None
        assert answer.response == {"result": {"n": 42}}

    async def test_mode_6_a_pause_inside_pauses_the_caller_and_goes_on_at_its_place(self) -> None:
        ran: list[str] = []

        @tool(require_confirmation=True, inline=True)
        def act() -> str:
            """Acts."""
            ran.append("act")
            return "acted"

        child = ScriptedModel([call("act", id="a1"), "child done"])
        root, model = self.asking(child, [call("helper", id="c1", request="go"), "all done"], tools=[act])
        async with Runner(root, sessions="memory:") as runner:
            first = await runner.run(message="ask", **WHO).wait()
            assert first.kind == "paused"
            assert len(model.requests) == 1
            asked = first.open_calls[0]
            answer = FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True})
            second = await runner.run(message=[Part(function_response=answer)], **WHO).wait()
            lines = await history(runner)
        assert second.kind == "completed"
        assert ran == ["act"]
        assert [line.split()[0] for line in lines if "helper@" in line] == ["root@1/helper@1-1"] * 5
        assert lines[-2:] == ["root@1 response helper#c1", 'root@1 "all done" ✓']

    async def test_parallel_calls_of_one_agent_have_places_and_branches_of_their_own(self) -> None:
        child = ScriptedModel(lambda request: text(f"got {request.contents[0].parts[0].text}"))
        turn = [call("helper", id="c1", request="a"), call("helper", id="c2", request="b")]
        root, model = self.asking(child, [turn, "done"])
        async with Runner(root, sessions="memory:") as runner:
            await runner.run(message="ask", **WHO).wait()
            session = await runner.sessions.get_session(app_name="root", **WHO)
        places = {(e.path, e.branch) for e in session.events if "helper@" in e.path}
        assert places == {("root@1/helper@1-1", "helper@1-1"), ("root@1/helper@1-2", "helper@1-2")}
        answers = [p.function_response.response for p in model.prompts[-1][-1].parts if p.function_response]
        assert answers == [{"result": "got a"}, {"result": "got b"}]


class TestRules:
    @pytest.mark.parametrize("mode", ["task", "single_turn"])
    async def test_mode_2_a_root_must_chat_and_nothing_is_stored(self, mode: str) -> None:
        agent = LlmAgent(name="a", model=ScriptedModel(["x"]), mode=mode)
        async with Runner(agent, sessions="memory:") as runner:
            with pytest.raises(ConfigurationError, match="cannot be a root"):
                await runner.run(message="hi", **WHO).wait()
            session = await runner.sessions.get_session(app_name="a", **WHO)
            assert len(session.events) == 0

    def test_mode_1_a_mode_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(ConfigurationError, match="single_turn"):
            LlmAgent(name="a", mode="once")

    async def test_mode_3_called_agents_are_tools_and_no_transfer_targets(self) -> None:
        model = ScriptedModel(["ok"])
        children = [
            LlmAgent(name="t", description="T.", model=model, mode="task"),
            LlmAgent(name="s", description="S.", model=model, mode="single_turn"),
            LlmAgent(name="c", description="C.", model=model),
        ]
        async with Runner(LlmAgent(name="root", model=model, sub_agents=children), sessions="memory:") as runner:
            await runner.run(message="hi", **WHO).wait()
        declared = {d.name: d for d in model.requests[0].config.function_declarations()}
        assert set(declared) == {"transfer_to_agent", "t", "s"}
        assert (declared["transfer_to_agent"].parameters_json_schema or {})["properties"]["agent_name"]["enum"] == ["c"]
        assert (declared["s"].parameters_json_schema or {})["required"] == ["request"]
        assert "do not combine" in (declared["t"].description or "")

    async def test_agent_hooks_of_a_task_run_once_per_entry(self) -> None:
        seen: list[str] = []

        class Watch(Plugin):
            async def before_agent(self, agent: Any) -> None:
                seen.append(f"+{agent.name}")

            async def after_agent(self, agent: Any) -> None:
                seen.append(f"-{agent.name}")

        coordinator = ScriptedModel([call("book", id="c1", request="x"), "done"])
        booker = ScriptedModel([call("finish_task", result="ok")])
        async with Runner(booking(coordinator, booker), sessions="memory:", plugins=[Watch()]) as runner:
            await runner.run(message="go", **WHO).wait()
        assert seen == ["+coord", "+book", "-book", "-coord"]
