"""Live state and deltas (core §5.1, DLT-1 … DLT-9; INV-6)."""

from __future__ import annotations

import copy
import json
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from hookwork.errors import ContextClosedError, StateMutationError, UnsupportedInContext, ValidationError
from hookwork.records.deleted import DELETED
from hookwork.records.session import EventLog, Session, split_state
from hookwork.state import DeltaBuffer, LiveState, Settled, State


def make_session(**state: Any) -> Session:
    app, user, own = split_state(state)
    return Session(
        app_name="app",
        user_id="u",
        id="s",
        log=EventLog(),
        last_update_time=datetime(2026, 1, 1, tzinfo=UTC),
        revision="1",
        session_state=own,
        app_state=app,
        user_state=user,
    )


def store(live: LiveState, settled: Settled) -> None:
    """What a session service and then the runner do with a settled delta."""
    session = live.session
    app, user, own = split_state(settled.delta)
    session.app_state = {**session.app_state, **app}
    session.user_state = {**session.user_state, **user}
    session.session_state = {**session.session_state, **own}
    session.temp_state.update({key: value for key, value in settled.delta.items() if key.startswith("temp:")})
    live.appended(settled)


def make(**state: Any) -> tuple[LiveState, DeltaBuffer, State]:
    live, buffer = LiveState(make_session(**state)), DeltaBuffer()
    return live, buffer, State(live, buffer)


# --- DLT-1 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["k", "app:k", "user:k", "temp:k"])
def test_dlt_1_a_value_is_frozen_at_once(key: str) -> None:
    _, _, state = make()
    mine = {"lines": [1]}
    state[key] = mine
    mine["lines"].append(2)
    assert state[key] == {"lines": [1]}


@pytest.mark.parametrize("value", [float("nan"), {"a": [object()]}, {1: "x"}, b"bytes", {"x": {1}}])
def test_dlt_1_what_json_cannot_hold_is_refused_and_nothing_written(value: Any) -> None:
    _, buffer, state = make(cart=1)
    with pytest.raises(ValidationError, match="cart"):
        state["cart"] = value
    assert state["cart"] == 1
    assert not buffer


@pytest.mark.parametrize("key", ["", "app:", "user:", "temp:", 3, None])
def test_sta_8_keys_are_names(key: Any) -> None:
    _, buffer, state = make()
    with pytest.raises(ValidationError, match="state key"):
        state[key] = 1
    assert not buffer


def test_dlt_1_del_tells_to_assign_none() -> None:
    """Or to delete the key by a word of its own (BEY-13)."""
    _, buffer, state = make(k=1)
    for take in (lambda: state.__delitem__("k"), lambda: state.pop("k")):
        with pytest.raises(StateMutationError, match=r"ctx\.state\['k'\] = None.*ctx\.state\.delete\('k'\)"):
            take()
    state["k"] = None
    assert "k" in state
    assert state["k"] is None
    assert buffer.writes["k"][1] is None


def test_bey_13_a_deleted_key_is_absent_at_once() -> None:
    live, buffer, state = make(k=1, j=2)
    other = State(live, DeltaBuffer())
    state.delete("k")
    state.delete("j")
    state.delete("never")
    for seen in (state, other):
        assert "k" not in seen
        assert seen.get("k", "none") == "none"
        assert list(seen) == []
        assert len(seen) == 0
        assert seen.to_dict() == {}
        with pytest.raises(KeyError, match="'k'"):
            seen["k"]
    with pytest.raises(KeyError), state.edit("k"):
        pass
    assert set(buffer.writes) == {"k", "j"}
    settled = live.settle([buffer])
    assert settled.delta == {"k": DELETED, "j": DELETED}
    live.drop(settled)
    assert state.to_dict() == {"k": 1, "j": 2}


def test_bey_13_the_newest_write_of_a_key_counts_whether_it_deletes_or_not() -> None:
    live, first, state = make(k=1)
    second = DeltaBuffer()
    other = State(live, second)
    other["k"] = 2
    state.delete("k")
    assert "k" not in other
    other["k"] = 3
    assert state["k"] == 3
    assert live.settle([first, second]).delta == {"k": 3}


def test_sta_7_none_is_a_value() -> None:
    _, buffer, state = make(k=1)
    state["k"] = None
    assert "k" in state
    assert state["k"] is None
    assert buffer.writes["k"][1] is None


# --- DLT-2 ------------------------------------------------------------------------------------------------------------


def test_dlt_2_values_behave_like_plain_ones_and_copies_are_mutable() -> None:
    _, _, state = make()
    state["v"] = {"a": [1, {"b": 2}]}
    value = state["v"]
    assert value == {"a": [1, {"b": 2}]}
    assert json.dumps(value) == '{"a": [1, {"b": 2}]}'
    for plain in (dict(value), value | {}, {} | value, copy.copy(value), value.copy()):
        plain["new"] = 1
    for items in (list(value["a"]), value["a"] + [3], value["a"][:], copy.copy(value["a"])):
        items.append(1)
    deep = copy.deepcopy(value)
    deep["a"][1]["b"] = 3
    assert state["v"] == {"a": [1, {"b": 2}]}


def test_dlt_2_case_state_2_a_change_in_place_names_key_path_and_remedies() -> None:
    _, _, state = make()
    state["cart"] = {"lines": []}
    with pytest.raises(StateMutationError) as caught:
        state["cart"]["lines"].append("tea")
    text = str(caught.value)
    assert "'cart.lines'" in text
    assert "ctx.state['cart'] = ..." in text
    assert "ctx.state.edit('cart')" in text
    assert isinstance(caught.value, TypeError)


def test_dlt_2_edit_assigns_a_mutable_copy_when_the_block_ends() -> None:
    _, buffer, state = make()
    state["cart"] = {"lines": []}
    with state.edit("cart") as cart:
        cart["lines"].append("tea")
        assert state["cart"] == {"lines": []}
    assert state["cart"] == {"lines": ["tea"]}
    assert buffer.writes["cart"][1] == {"lines": ["tea"]}


def test_dlt_2_edit_assigns_nothing_when_the_block_fails() -> None:
    _, _, state = make()
    state["cart"] = {"lines": []}

    def fail() -> None:
        with state.edit("cart") as cart:
            cart["lines"].append("tea")
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail()
    assert state["cart"] == {"lines": []}


def test_dlt_2_edit_of_an_absent_key_wants_a_default() -> None:
    _, _, state = make()
    with pytest.raises(KeyError, match="default"), state.edit("cart"):
        pass
    with state.edit("cart", default=[]) as cart:
        cart.append(1)
    assert state["cart"] == [1]


# --- DLT-3, DLT-4 -----------------------------------------------------------------------------------------------------


def test_dlt_3_a_write_is_seen_by_all_contexts_of_the_run_at_once() -> None:
    live, _, first = make()
    second, reader = State(live, DeltaBuffer()), State(live, None)
    first["k"] = 1
    assert second["k"] == reader["k"] == 1
    second["k"] = 2
    assert first["k"] == reader["k"] == 2
    assert dict(reader) == {"k": 2}


def test_dlt_4_buffered_writes_overlay_the_stored_state() -> None:
    live, _, state = make(a=1, b=2, **{"app:c": 3, "user:d": 4})
    state["b"] = 20
    state["e"] = 5
    state["app:c"] = 30
    assert state.to_dict() == {"a": 1, "b": 20, "app:c": 30, "user:d": 4, "e": 5}
    assert len(state) == 5
    assert list(live.session.state) == ["a", "b", "app:c", "user:d"]
    assert state.get("b") == 20
    assert state.get("none", 7) == 7
    assert "none" not in state
    with pytest.raises(KeyError, match=r"state\.get"):
        state["none"]


def test_dlt_4_to_dict_is_plain_and_mutable() -> None:
    _, _, state = make()
    state["a"] = [1]
    plain = state.to_dict()
    plain["a"].append(2)
    assert state["a"] == [1]


# --- DLT-5 ------------------------------------------------------------------------------------------------------------


def test_dlt_5_a_writer_settles_its_last_write_of_each_key_in_order_of_writing() -> None:
    live, buffer, state = make()
    state["a"] = 1
    state["b"] = 1
    state["a"] = 2
    settled = live.settle([buffer])
    assert list(settled.delta.items()) == [("b", 1), ("a", 2)]
    assert not buffer
    assert state["a"] == 2
    store(live, settled)
    assert dict(live.session.state) == live.as_dict() == {"a": 2, "b": 1}


def test_dlt_5_case_state_1_in_a_batch_the_write_made_last_in_time_wins() -> None:
    """The later call wrote first, the earlier call wrote last: the earlier call's write stands."""
    live, first, one = make(items=[])
    second = DeltaBuffer()
    two = State(live, second)
    two["items"] = [*two["items"], "b"]
    one["items"] = [*one["items"], "a"]
    settled = live.settle([first, second])
    assert settled.delta == {"items": ["b", "a"]}
    store(live, settled)
    assert live.as_dict() == dict(live.session.state) == {"items": ["b", "a"]}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_dlt_5_no_write_of_a_batch_lingers_behind_the_winner(order: tuple[int, int]) -> None:
    live = LiveState(make_session())
    buffers = [DeltaBuffer(), DeltaBuffer()]
    State(live, buffers[0])["k"] = "older"
    State(live, buffers[1])["k"] = "newer"
    store(live, live.settle([buffers[i] for i in order]))
    assert live.read("k") == "newer"
    assert live.session.state["k"] == "newer"


def test_dlt_5_an_older_write_never_comes_back_over_a_newer_one() -> None:
    live, slow_buffer, slow = make()
    quick_buffer = DeltaBuffer()
    quick = State(live, quick_buffer)
    slow["k"] = "slow, written first"
    slow["only_slow"] = 1
    quick["k"] = "quick, written last"
    store(live, live.settle([quick_buffer]))
    assert slow["k"] == "quick, written last"
    settled = live.settle([slow_buffer])
    assert settled.delta == {"only_slow": 1}
    store(live, settled)
    assert live.as_dict() == dict(live.session.state) == {"k": "quick, written last", "only_slow": 1}


def test_ctx_2_the_higher_artifact_version_stays() -> None:
    live, first, _ = make()
    second = DeltaBuffer()
    first.note_artifact("a.txt", 2)
    first.note_artifact("a.txt", 1)
    second.note_artifact("a.txt", 3)
    second.note_artifact("b.txt", 0)
    assert live.settle([first, second]).artifacts == {"a.txt": 3, "b.txt": 0}
    assert not first
    assert not second


# --- DLT-7, DLT-8, DLT-9 ----------------------------------------------------------------------------------------------


def test_dlt_7_writes_that_cannot_be_stored_leave_the_live_state() -> None:
    live, buffer, state = make(k=0)
    state["k"] = 1
    settled = live.settle([buffer])
    assert state["k"] == 1
    live.drop(settled)
    assert live.as_dict() == dict(live.session.state) == {"k": 0}


def test_dlt_7_a_dropped_write_uncovers_the_one_before_it() -> None:
    live, _, one = make(k=0)
    second = DeltaBuffer()
    one["k"] = 1
    State(live, second)["k"] = 2
    live.drop(live.settle([second]))
    assert one["k"] == 1


def test_dlt_7_a_cancelled_writer_is_forgotten() -> None:
    live, buffer, state = make(k=0)
    state["k"] = 1
    buffer.note_artifact("a", 1)
    live.discard(buffer)
    assert live.as_dict() == {"k": 0}
    assert not buffer
    assert live.settle([buffer]).delta == {}


def test_dlt_7_a_retried_attempt_writes_again() -> None:
    live, buffer, state = make(k=0)
    state["k"] = 1
    live.discard(buffer, close=False)
    state["k"] = 2
    assert live.settle([buffer]).delta == {"k": 2}


def test_dlt_8_a_write_after_the_call_has_ended_raises() -> None:
    live, buffer, state = make(k=0)
    live.discard(buffer)
    with pytest.raises(ContextClosedError, match="'k'"):
        state["k"] = 1
    assert state["k"] == 0


def test_dlt_8_worker_threads_may_write() -> None:
    live, buffer, state = make()
    barrier = threading.Barrier(4)

    def work(name: str) -> None:
        barrier.wait()
        for i in range(200):
            state[f"{name}{i % 20}"] = i
            state["shared"] = f"{name}{i}"
            list(state)
            state.get("shared")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = state.to_dict()
    settled = live.settle([buffer])
    assert len(settled.delta) == 81
    assert settled.delta == before
    store(live, settled)
    assert live.as_dict() == before


def test_dlt_9_an_explicit_delta_counts_as_written_when_it_is_settled() -> None:
    live, buffer, state = make()
    state["a"] = "buffered"
    state["b"] = "buffered"
    settled = live.settle([buffer], {"a": "explicit", "c": 1})
    assert list(settled.delta.items()) == [("b", "buffered"), ("a", "explicit"), ("c", 1)]
    assert live.as_dict() == {"a": "explicit", "b": "buffered", "c": 1}
    store(live, settled)
    assert live.as_dict() == dict(live.session.state)


def test_dlt_9_a_dropped_explicit_delta_leaves_no_trace() -> None:
    live, buffer, state = make(a=0)
    state["a"] = 1
    live.drop(live.settle([buffer], {"a": 2}))
    assert live.as_dict() == {"a": 0}


def test_state_is_read_only_without_a_buffer() -> None:
    live, _, _ = make(k=0)
    with pytest.raises(UnsupportedInContext, match="'k'"):
        State(live, None)["k"] = 1
    assert live.as_dict() == {"k": 0}


# --- INV-6 ------------------------------------------------------------------------------------------------------------

KEYS = ["a", "b", "app:a", "user:a", "temp:a"]
values = st.integers(0, 9) | st.lists(st.integers(0, 2), max_size=2)


class LiveStateMachine(RuleBasedStateMachine):
    """Writers come, write, settle, are stored, dropped or cancelled; a list of all writes is the model."""

    writers = Bundle("writers")

    @initialize()
    def start(self) -> None:
        self.live = LiveState(make_session(a=0))
        self.stored: dict[str, tuple[int, Any]] = {"a": (0, 0)}
        self.open: dict[int, dict[str, tuple[int, Any]]] = {}
        self.buffers: dict[int, DeltaBuffer] = {}
        self.number = 0

    @rule(target=writers)
    def writer(self) -> int:
        name = len(self.buffers)
        self.buffers[name], self.open[name] = DeltaBuffer(), {}
        return name

    @rule(writer=writers, key=st.sampled_from(KEYS), value=values)
    def write(self, writer: int, key: str, value: Any) -> None:
        State(self.live, self.buffers[writer])[key] = value
        self.number += 1
        self.open[writer][key] = (self.number, value)

    @rule(
        chosen=st.sets(writers, max_size=3),
        explicit=st.dictionaries(st.sampled_from(KEYS), values, max_size=2),
        lost=st.booleans(),
    )
    def settle(self, chosen: set[int], explicit: dict[str, Any], lost: bool) -> None:
        settled = self.live.settle([self.buffers[name] for name in sorted(chosen)], explicit)
        newest: dict[str, tuple[int, Any]] = {}
        for name in chosen:
            for key, write in self.open[name].items():
                newest[key] = max(newest.get(key, write), write, key=lambda item: item[0])
            self.open[name] = {}
        for key, value in explicit.items():
            self.number += 1
            newest[key] = (self.number, value)
        expected = {key: write for key, write in newest.items() if write[0] > self.stored.get(key, (0,))[0]}
        assert settled.delta == {key: value for key, (_, value) in expected.items()}
        if lost:
            self.live.drop(settled)
        else:
            store(self.live, settled)
            self.stored.update(expected)

    @rule(writer=writers)
    def cancel(self, writer: int) -> None:
        self.live.discard(self.buffers[writer], close=False)
        self.open[writer] = {}

    @invariant()
    def live_is_stored_plus_what_is_outstanding(self) -> None:
        newest = dict(self.stored)
        for writes in self.open.values():
            for key, write in writes.items():
                if write[0] > newest.get(key, (-1,))[0]:
                    newest[key] = write
        assert self.live.as_dict() == {key: value for key, (_, value) in newest.items()}
        if not any(self.open.values()):
            assert self.live.as_dict() == dict(self.live.session.state)


TestInv6LiveState = LiveStateMachine.TestCase


@given(st.dictionaries(st.sampled_from(["a", "app:temp:x", "user:b", "temp:c", "app:", "user:"]), st.integers()))
def test_sta_1_to_4_split_and_merge(delta: dict[str, int]) -> None:
    app, _, _ = split_state(delta)
    merged = make_session(**delta).state
    assert dict(merged) == {key: value for key, value in delta.items() if not key.startswith("temp:")}
    assert [f"app:{key}" for key in app] == [key for key in delta if key.startswith("app:")]


def test_ses_18_a_key_about_to_be_written_counts_as_written_until_the_write_is_dropped() -> None:
    """LOG-6: a foreign write of it is not absorbed; one that never comes to be stored guards nothing."""
    live, buffer, state = make(k=1, j=1)
    state["k"], state["j"] = 2, 2
    assert live.session.written_keys == {"k", "j"}
    settled = live.settle([buffer])
    assert live.session.written_keys == {"k", "j"}
    live.drop(settled)
    assert live.session.written_keys == set()
    state["k"] = 3
    store(live, live.settle([buffer]))
    state["k"] = 4
    live.discard(buffer)
    assert live.session.written_keys == {"k"}, "an earlier write of it is stored"
