"""What is committed of benchmarks' results says nothing of the machine's folders."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lab.run_parameters import ROOT, parameters_of

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))
ABSOLUTE = re.compile(r"^(/|~|[A-Za-z]:\\)\S")


def strings_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield str(key)
            yield from strings_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings_in(each)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_committed_result__names_no_path_of_the_machine_it_was_made_on(path: Path) -> None:
    assert [text for text in strings_in(json.loads(path.read_text())) if ABSOLUTE.match(text)] == []


def test_options_in_a_result__are_the_same_wherever_the_benchmark_ran() -> None:
    options = argparse.Namespace(
        json=True,
        folder=Path("/somewhere"),
        seeds=3,
        config=ROOT / "scripts" / "demo" / "demo.yaml",
        data=[Path("/elsewhere/a.txt")],
    )
    assert parameters_of(options) == {"seeds": 3, "config": "scripts/demo/demo.yaml", "data": ["a.txt"]}
