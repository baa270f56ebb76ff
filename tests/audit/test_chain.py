"""The audit file: sealed records, many writers, and what `verify` notices (tools-plugins SP-42)."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwork.errors import ConfigurationError
from hookwork_audit.chain import GENESIS, AuditFile, verify

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
).filter(lambda value: _is_text_utf8(value))


def _is_text_utf8(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def write(path: Path, *records: dict[str, Any]) -> None:
    file = AuditFile(path)
    for record in records:
        file.append(record)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def test_sp_42_a_record_carries_the_hash_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    write(path, {"stage": "tool", "text": "früh"}, {"stage": "run"})
    first, second = (json.loads(line) for line in lines_of(path))
    assert (first["seq"], first["prev"], second["seq"], second["prev"]) == (1, GENESIS, 2, first["hash"])
    # The published form, written out: sorted keys, no blanks, ASCII, without the hash itself.
    text = '{"prev":"' + "0" * 64 + '","seq":1,"stage":"tool","text":"fr\\u00fch"}'
    assert first["hash"] == hashlib.sha256(text.encode()).hexdigest()
    assert path.stat().st_mode & 0o077 == 0


@given(st.lists(st.dictionaries(st.sampled_from("abc"), JSON), max_size=4))
def test_sp_42_whatever_was_written_verifies(tmp_path_factory: pytest.TempPathFactory, records: list[Any]) -> None:
    path = tmp_path_factory.mktemp("law") / "audit.jsonl"
    write(path, *records)
    lines = lines_of(path) if records else []
    verdict = verify(lines)
    assert (verdict.ok, verdict.records) == (True, len(records))


def four(path: Path) -> list[bytes]:
    write(path, *({"stage": "tool", "name": f"t{n}"} for n in range(4)))
    return lines_of(path)


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        (lambda lines: [lines[0], lines[1].replace(b"t1", b"t9"), *lines[2:]], 2, "changed"),
        (lambda lines: [lines[0], *lines[2:]], 2, "seq"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1, "seq"),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], 3, "seq"),
        (lambda lines: [*lines[:3], b"not JSON\n"], 4, "JSON"),
        (lambda lines: [*lines[:3], lines[3][:-1]], 4, "cut off"),
        (lambda lines: [*lines[:1], b'{"seq":2,"x":NaN,"hash":"0"}\n'], 2, "no JSON"),
    ],
    ids=["changed", "removed", "swapped", "repeated", "garbage", "torn", "nan"],
)
def test_sp_42_verify_names_the_first_broken_line(tmp_path: Path, change: Any, line: int, problem: str) -> None:
    verdict = verify(change(four(tmp_path / "a.jsonl")))
    assert (verdict.ok, verdict.line, verdict.records) == (False, line, line - 1)
    assert problem in verdict.problem


def test_sp_42_a_record_replaced_with_a_fitting_hash_breaks_the_next(tmp_path: Path) -> None:
    lines = four(tmp_path / "a.jsonl")
    forged = four(tmp_path / "b.jsonl")
    write(tmp_path / "c.jsonl", {"stage": "tool", "name": "forged"})
    verdict = verify([*lines_of(tmp_path / "c.jsonl"), *lines[1:]])
    assert (verdict.line, "prev" in verdict.problem) == (2, True)
    assert lines == forged  # equal records make equal chains


def test_sp_42_a_noted_head_shows_that_the_end_was_cut_off(tmp_path: Path) -> None:
    lines = four(tmp_path / "a.jsonl")
    head = verify(lines).head
    assert verify(lines[:3]).ok
    cut = verify(lines[:3], contains=head)
    assert (cut.ok, cut.line, head in cut.problem) == (False, None, True)
    assert verify(lines, contains=verify(lines[:2]).head).ok


def test_sp_42_a_later_writer_goes_on_with_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    one, two = AuditFile(path), AuditFile(path)
    for file in (one, two, two, one):
        file.append({"text": "x" * 70_000})  # longer than a block of the search for the last record
    assert verify(lines_of(path)).records == 4


def test_a_torn_line_is_reported_and_the_chain_goes_on_from_the_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, {"n": 1}, {"n": 2})
    path.write_bytes(path.read_bytes() + b'{"n": 3, "cut')
    write(path, {"n": 3})
    lines = lines_of(path)
    assert len(lines) == 4
    assert (json.loads(lines[3])["seq"], json.loads(lines[3])["prev"]) == (3, json.loads(lines[1])["hash"])
    assert verify(lines).line == 3


def test_a_file_that_was_moved_away_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    file = AuditFile(path)
    file.append({"n": 1})
    path.rename(tmp_path / "old.jsonl")
    file.append({"n": 2})
    assert verify(lines_of(path)).records == 1
    assert verify(lines_of(tmp_path / "old.jsonl")).records == 1


def test_a_foreign_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("my notes\n")
    with pytest.raises(ConfigurationError, match=r"notes\.txt holds no audit records"):
        AuditFile(path).append({})
    assert path.read_text() == "my notes\n"


def _append_many(file: AuditFile) -> None:
    for n in range(25):
        file.append({"n": n})


def test_sp_42_threads_share_a_file(tmp_path: Path) -> None:
    file = AuditFile(tmp_path / "a.jsonl")
    threads = [threading.Thread(target=_append_many, args=(file,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verify(lines_of(tmp_path / "a.jsonl")).records == 100


def _append_to(path: str, together: Any) -> None:
    file = AuditFile(path)
    together.wait()
    for n in range(200):
        file.append({"n": n})


def test_sp_42_processes_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(2)
    processes = [context.Process(target=_append_to, args=(str(path), together)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    verdict = verify(lines_of(path))
    assert (verdict.records, verdict.problem) == (400, "")
