"""The policy plugin (tools-plugins SP-41)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork import FunctionResponse, Part, Runner, ToolConfirmation
from hookwork.errors import ConfigurationError, PluginError
from hookwork.resolve import resolve_plugins
from hookwork.settings import Settings
from hookwork_llm import LlmAgent
from hookwork_policy import Policy, Rule
from hookwork_policy.comparisons import ABSENT, COMPARISONS, Incomparable, holds, pointed_at
from hookwork_testkit import ScriptedModel, assert_valid_prompt, call, make_context

RunnerFactory = Callable[..., Runner]
HERE: dict[str, Any] = {"user_id": "u1", "session_id": "s1"}


class Bank:
    """An agent with one tool, and what the tool did."""

    def __init__(self, *script: Any) -> None:
        self.sent: list[float] = []
        self.model = ScriptedModel(script)
        self.agent = LlmAgent(name="clerk", model=self.model, tools=[self.send_money])

    def send_money(self, to: str, amount: float) -> dict[str, Any]:
        """Send money to somebody."""
        self.sent.append(amount)
        return {"sent": amount}

    @property
    def told(self) -> dict[str, Any]:
        """What the model read as the last tool result."""
        [response] = self.model.prompts[-1][-1].function_responses
        return dict(response.response or {})


async def test_sp_41_the_first_rule_that_matches_decides(runner_factory: RunnerFactory) -> None:
    policy = Policy(
        [
            {"effect": "allow", "args": {"/to": "Ann"}},
            {"effect": "deny", "tool": "send_*", "args": {"/amount": {"gt": 100}}, "reason": "too much"},
        ]
    )
    for to, amount, result in (
        ("Ann", 500, {"sent": 500}),
        ("Bob", 500, {"error": "too much"}),
        ("Bob", 50, {"sent": 50}),
    ):
        bank = Bank(call("send_money", to=to, amount=amount), "Done.")
        async with runner_factory(bank.agent, plugins=[policy]) as runner:
            await runner.ask("Send it")
        assert bank.told == result
        assert bank.sent == ([] if "error" in result else [amount])


async def test_sp_41_ask_pauses_and_the_person_decides(runner_factory: RunnerFactory) -> None:
    for confirmed in (True, False):
        bank = Bank(call("send_money", to="Bob", amount=5), "So be it.")
        policy = Policy([{"effect": "ask", "reason": "Really?"}])
        async with runner_factory(bank.agent, plugins=[policy]) as runner:
            paused = await runner.run(message="Send 5", **HERE).wait()
            assert (paused.kind, bank.sent) == ("paused", [])
            [asked] = paused.open_calls
            assert asked.kind == "confirmation"
            assert asked.args["toolConfirmation"]["hint"] == "Really?"
            answer = FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": confirmed})
            done = await runner.run(message=[Part(function_response=answer)], **HERE).wait()
        assert done.kind == "completed"
        assert bank.sent == ([5] if confirmed else [])
        assert ("error" in bank.told) is not confirmed
        assert_valid_prompt(bank.model.prompts[-1])


async def test_sp_41_a_rule_that_denies_wins_over_an_approval(runner_factory: RunnerFactory) -> None:
    bank = Bank(call("send_money", to="Bob", amount=5), "Sorry.")
    async with runner_factory(bank.agent, plugins=[Policy([{"effect": "ask"}])], sessions="memory:") as runner:
        paused = await runner.run(message="Send 5", **HERE).wait()
        [asked] = paused.open_calls
        answer = Part(function_response=FunctionResponse(id=asked.id, name=asked.name, response={"confirmed": True}))
        stricter = Policy([{"effect": "deny", "reason": "closed on Sundays"}])
        async with runner_factory(bank.agent, plugins=[stricter], sessions=runner.sessions) as later:
            await later.run(message=[answer], **HERE).wait()
    assert (bank.sent, bank.told) == ([], {"error": "closed on Sundays"})


async def test_sp_41_it_fails_closed(runner_factory: RunnerFactory, caplog: pytest.LogCaptureFixture) -> None:
    bank = Bank(call("send_money", to="Bob", amount="5000"), "Hm.")
    policy = Policy([{"effect": "deny", "args": {"/amount": {"gt": 100}}}])
    async with runner_factory(bank.agent, plugins=[policy]) as runner:
        await runner.ask("Send it")
    assert bank.sent == []
    assert bank.told == {"error": "argument '/amount' cannot be judged: it is a text and is compared with a number"}
    assert "denied" in caplog.text


def test_sp_41_its_own_error_denies(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Policy):
        def decide(self, tool: str, agent: str, args: Any) -> Rule:
            raise ZeroDivisionError

    ctx = make_context(tool_name="send_money")
    tool: Any = type("T", (), {"name": "send_money"})()
    assert Broken().before_tool(ctx, tool, {}) == {"error": "the policy could not judge the call"}
    assert "ZeroDivisionError" in caplog.text


def test_sp_41_ask_without_a_call_id_denies() -> None:
    ctx = make_context(function_call_id="")
    tool: Any = type("T", (), {"name": "t"})()
    assert "error" in (Policy(default="ask").before_tool(ctx, tool, {}) or {})
    assert not ctx.actions.requested_tool_confirmations


def test_hitl_02_the_gate_decides_once_a_person_has() -> None:
    tool: Any = type("T", (), {"name": "t"})()
    for confirmed in (True, False):
        ctx = make_context(confirmation=ToolConfirmation(confirmed=confirmed))
        assert Policy(default="ask").before_tool(ctx, tool, {}) is None


def test_sp_41_rules_go_by_agent_and_the_default_takes_the_rest() -> None:
    policy = Policy([{"effect": "allow", "agent": "chief*", "tool": "pay"}], default="deny")
    assert policy.decide("pay", "chief_clerk", {}).effect == "allow"
    assert policy.decide("pay", "clerk", {}).effect == "deny"
    assert policy.decide("Pay", "chief", {}).effect == "deny"
    assert Policy().decide("anything", "anybody", {}).effect == "allow"


@pytest.mark.parametrize(
    ("name", "operand", "true_of", "false_of"),
    [
        ("eq", 1, [1, 1.0], [2, True, "1", None, ABSENT]),
        ("eq", {"a": [1]}, [{"a": [1.0]}], [{"a": [True]}, {"a": []}]),
        ("ne", 1, [2, True, ABSENT], [1, 1.0]),
        ("lt", 5, [4, -1.5], [5, 6, ABSENT]),
        ("le", 5, [5], [5.1]),
        ("gt", "b", ["c"], ["a", ABSENT]),
        ("ge", 5, [5], [4]),
        ("in", ["a", 1], ["a", 1.0], ["b", True, ABSENT]),
        ("not_in", ["a"], ["b", ABSENT], ["a"]),
        ("contains", "x", ["axb", ["x"]], ["ab", ["xx"], ABSENT]),
        ("glob", "*.example.com", ["a.example.com"], ["example.org", ABSENT]),
        ("regex", "^rm ", ["rm -r"], ["ls; rm", ABSENT]),
        ("exists", True, [None, 0], [ABSENT]),
        ("exists", False, [ABSENT], [None]),
    ],
    ids=str,
)
def test_sp_41_comparisons(name: str, operand: Any, true_of: list[Any], false_of: list[Any]) -> None:
    assert [value for value in true_of if not holds(name, value, operand)] == []
    assert [value for value in false_of if holds(name, value, operand)] == []


@pytest.mark.parametrize(
    ("name", "value", "operand"),
    [("lt", "1", 2), ("gt", True, 0), ("ge", None, 1), ("glob", 7, "7"), ("regex", ["a"], "a"), ("contains", 7, 7)],
)
def test_sp_41_what_cannot_be_judged_is_said(name: str, value: Any, operand: Any) -> None:
    with pytest.raises(Incomparable, match="it is "):
        holds(name, value, operand)


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", {"a": {"b": [10, {"c/d": 1, "e~f": 2}]}, "": 3}),
        ("/a/b/0", 10),
        ("/a/b/1/c~1d", 1),
        ("/a/b/1/e~0f", 2),
        ("/", 3),
        *((absent, ABSENT) for absent in ("/x", "/a/b/2", "/a/b/01", "/a/b/-", "/a/b/0/x")),
    ],
)
def test_sp_41_arguments_are_named_by_json_pointers(pointer: str, value: Any) -> None:
    document = {"a": {"b": [10, {"c/d": 1, "e~f": 2}]}, "": 3}
    assert pointed_at(document, pointer) == value


@given(st.dictionaries(st.text(), st.integers()))
def test_sp_41_every_key_can_be_pointed_at(args: dict[str, int]) -> None:
    for key, value in args.items():
        assert pointed_at(args, "/" + key.replace("~", "~0").replace("/", "~1")) == value


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ({"effect": "dny"}, "did you mean 'deny'"),
        ({"tool": "x"}, "needs an effect"),
        ({"effect": "deny", "tools": "x"}, r"unknown key 'tools' \(did you mean 'tool'\?\)"),
        ({"effect": "deny", "tool": ["a"]}, "tool must be a text"),
        ({"effect": "deny", "args": {"amount": 1}}, "no JSON pointer"),
        ({"effect": "deny", "args": {"/a": {"more": 1}}}, "unknown comparison 'more'"),
        ({"effect": "deny", "args": {"/a": {}}}, "has no comparison"),
        ({"effect": "deny", "args": {"/a": {"in": "abc"}}}, "'in' needs a list"),
        ({"effect": "deny", "args": {"/a": {"regex": "("}}}, "needs a regular expression"),
        ({"effect": "deny", "args": {"/a": {"exists": "yes"}}}, "needs true or false"),
        ({"effect": "deny", "args": {"/a": {"gt": None}}}, "needs a number or a text"),
        ({"effect": "deny", "args": ["/a"]}, "args must map"),
        ("deny everything", "a rule is a table"),
    ],
    ids=str,
)
def test_sp_41_a_wrong_rule_is_an_error_at_construction(rule: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"plugin 'policy': rule 2: .*{text}"):
        Policy([{"effect": "allow"}, rule])


def test_wrong_options_are_named() -> None:
    with pytest.raises(ConfigurationError, match="default is one of"):
        Policy(default="maybe")
    with pytest.raises(ConfigurationError, match="list of tables"):
        Policy({"effect": "deny"})  # type: ignore[dict-item]


def test_ext_8_rules_come_from_the_settings(tmp_path: Any) -> None:
    (tmp_path / "hookwork.toml").write_text(
        'plugins = ["policy"]\n[policy]\ndefault = "ask"\n'
        '[[policy.rules]]\neffect = "deny"\ntool = "rm"\nargs = { "/path" = { glob = "/etc/*" } }\n'
    )
    settings = Settings.load(tmp_path)
    [policy] = resolve_plugins(settings.plugins, settings)
    assert isinstance(policy, Policy)
    assert policy.decide("rm", "a", {"path": "/etc/passwd"}).effect == "deny"
    assert policy.decide("rm", "a", {"path": "/tmp/x"}).effect == "ask"
    with pytest.raises(PluginError, match="rule"):
        resolve_plugins(["policy"], Settings(tables={"policy": {"rule": []}}))


def test_every_comparison_is_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "contrib" / "policy" / "README.md").read_text()
    assert [name for name in COMPARISONS if f"`{name}`" not in readme] == []
