"""How custodians' signatures come from one keeper to another: beside a store, over its gateway, from strangers."""

from __future__ import annotations

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from keepers.decisions.custody_statements import INPUTS, START, Signed, Statement
from keepers.services import statements
from keepers.services.statements import Statements
from tests.support.waiting import HANG_S
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.store.gateway import statement_path

JOB, OTHER = 3, 7
SAID = Statement(JOB, (Signed(START, 0, "0" * 64),))


def of(folder: Path) -> Statements:
    return Statements(BlockStore(folder), poll_s=0.1)


def test_what_one_publishes__another_hears_once_it_asked(tmp_path: Path) -> None:
    one, two = of(tmp_path / "one"), of(tmp_path / "two")
    with Gateway(BlockStore(tmp_path / "one")) as gateway:
        two.endpoints = {OTHER: gateway.url, 8: "ftp://nonsense", 9: "http://127.0.0.1:1"}
        assert [two.of(JOB, operator) for operator in (OTHER, 8, 9)] == [None] * 3
        two.poll_once()
        assert two.of(JOB, OTHER) is None, "nothing is said yet"
        one.publish(SAID)
        two.poll_once()
        assert two.of(JOB, OTHER) == SAID
        assert two.of(JOB + 1, OTHER) is None
    two.poll_once()
    assert two.of(JOB, OTHER) == SAID, "what was heard stays while its gateway is away"


def test_what_i_said__is_there_after_a_restart__unless_it_is_damaged_or_the_job_is_over(tmp_path: Path) -> None:
    of(tmp_path).publish(SAID)
    again = of(tmp_path)
    assert again.mine(JOB) == SAID
    path = statement_path(tmp_path, JOB)
    path.write_bytes(b"{")
    assert of(tmp_path).mine(JOB) == Statement(JOB)
    again.forget(JOB)
    assert not path.exists()
    assert again.mine(JOB) == Statement(JOB)


@pytest.mark.parametrize("body", [b"{}", b"\xff" * 100, Statement(JOB + 1).to_bytes()])
def test_nonsense_and_another_jobs_statement__are_not_heard(tmp_path: Path, body: bytes) -> None:
    store, two = BlockStore(tmp_path / "one"), of(tmp_path / "two")
    path = statement_path(store.root, JOB)
    path.parent.mkdir()
    path.write_bytes(body)
    with Gateway(store) as gateway:
        two.endpoints = {OTHER: gateway.url}
        assert two.of(JOB, OTHER) is None
        two.poll_once()
    assert two.of(JOB, OTHER) is None


def test_what_nobody_wants_any_more__is_not_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = of(tmp_path)
    asked: list[object] = []
    monkeypatch.setattr(two, "_ask", asked.append)
    two.endpoints = {OTHER: "http://127.0.0.1:1"}
    two.of(JOB, OTHER)
    two.poll_once()
    monkeypatch.setattr(statements, "FORGET_AFTER_S", -1.0)
    two.poll_once()
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/custody/3", 200),
        ("/custody/4", 404),
        ("/custody/x", 404),
        ("/custody/../endpoints", 404),
        ("/custody/" + 40 * "3", 404),
    ],
)
def test_a_gateway__serves_statements_by_number_alone(tmp_path: Path, path: str, status: int) -> None:
    of(tmp_path).publish(SAID)
    with Gateway(BlockStore(tmp_path)) as gateway:
        connection = http.client.HTTPConnection(urlsplit(gateway.url).netloc, timeout=HANG_S)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == status
        assert status != 200 or Statement.from_bytes(body) == SAID
        connection.close()


def test_what_was_heard__is_sent_again_only_once_it_changed(tmp_path: Path) -> None:
    one, two, answers = of(tmp_path / "one"), of(tmp_path / "two"), list[tuple[int, int]]()
    with Gateway(BlockStore(tmp_path / "one"), answered=lambda status, size: answers.append((status, size))) as gateway:
        two.endpoints = {OTHER: gateway.url}
        one.publish(SAID)
        two.of(JOB, OTHER)
        for _ in range(3):
            two.poll_once()
        assert [status for status, _ in answers] == [200, 304, 304]
        assert two.of(JOB, OTHER) == SAID
        one.publish(more := SAID.adding(Signed(INPUTS, 0, "0" * 63 + "1")))
        two.poll_once()
        assert two.of(JOB, OTHER) == more
