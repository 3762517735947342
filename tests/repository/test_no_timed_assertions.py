"""No test asserts that something took less than so many seconds: that fails on a machine that others use too.

Say what is done, by whom and how often; count calls, asks or bytes. A wait that only bounds a hang may last `HANG_S`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {"time", "monotonic", "perf_counter", "process_time", "thread_time"}
FILES = sorted(path for path in TESTS.rglob("*.py") if "import time" in path.read_text())


def reads_clock(node: ast.AST) -> bool:
    """`time.monotonic()` and its like."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CLOCKS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "time"
    )


def is_duration(node: ast.AST, durations: set[str]) -> bool:
    """A difference of clock readings, or a name that was given one."""
    if isinstance(node, ast.Name):
        return node.id in durations
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and reads_clock(node.left)


def timed_assertions(source: str) -> list[int]:
    """Lines of assertions that compare a duration."""
    tree, durations = ast.parse(source), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(is_duration(each, set()) for each in ast.walk(node.value)):
            durations |= {each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    asserted = [node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    compared = [each for test in asserted for each in ast.walk(test) if isinstance(each, ast.Compare)]
    return [
        each.lineno
        for each in compared
        if any(is_duration(part, durations) for side in (each.left, *each.comparators) for part in ast.walk(side))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_a_test__asserts_no_duration(path: Path) -> None:
    assert timed_assertions(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("began = time.time()\nassert time.time() - began < 5", [2]),
        ("took = time.process_time() - began\nassert took < 0.5", [2]),
        ("slowest = max(slowest, time.perf_counter() - began)\nassert slowest < 1", [2]),
        ("deadline = time.monotonic() + 300\nassert time.monotonic() < deadline, 'a hang'", []),
    ],
)
def test_a_duration_that_is_compared__is_found_and_a_bound_of_a_hang_is_not(source: str, lines: list[int]) -> None:
    assert timed_assertions(source) == lines
