"""`make demo-inference`, and few of the benchmark's requests: a liar convicted from one receipt, a seat that dies, books that agree."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import HANG_S

pytestmark = pytest.mark.integration


def test_the_demo__convicts_the_liar_from_one_receipt_and_its_books_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.demo_inference", "--json", "--folder", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3 * HANG_S)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["convicted"]
    assert report["outcome"] == "judged"
    assert report["found_by_a_check"] == 1
    assert report["false"] == report["found_by_a_check"] + report["found_afterwards"]
    assert report["books_equal"]
    assert Path(report["picture"]).read_text().count("<circle") > report["requests"]


def test_requests_of_a_crowd__find_every_lie_and_lose_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.served.requests", "--json", "--folder", str(tmp_path / "run")]
    options = ["--requests", "60", "--clients", "2", "--check", "0.5", "--lies", "0.9"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=3 * HANG_S)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["requests"], made["missed"], made["convicted"], made["books_equal"]) == (60, 0, True, True)
    assert made["wrong"] == made["drawn"] + made["seen_later"] + made["unseen"]
    assert made["honest_paid_exactly"]
