"""Every page and every answer of the API: what they show, what they refuse, and that strangers' texts stay texts."""

from __future__ import annotations

import json
import re
from itertools import chain as together
from pathlib import Path

import jsonschema
import pytest
from starlette.testclient import TestClient

from tests.dashboard.conftest import Filled
from tests.support import chain_events as made
from zoo_compute.dashboard.api import ANSWERS
from zoo_compute.dashboard.index import Index
from zoo_compute.dashboard.pages import MEANING, SIGNS
from zoo_compute.dashboard.reading import Network, Reader
from zoo_compute.dashboard.server import application
from zoo_compute.paths import CONFIG, STATUS
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.state import Claim

PAGES = ("/", "/jobs", "/jobs/1", "/operators", "/operators/1", "/disputes")
EVIL = "<script>alert(1)</script>\"'{{7*7}}\u202e\0"


@pytest.fixture
def network(filled: Filled) -> Filled:
    filled.append(together(*(made.registered(filled.chain, number) for number in (1, 2, 3))))
    filled.append(made.whole_job(filled.chain, 1, [1, 2], 3))
    filled.append(made.whole_job(filled.chain, 2, [1, 2], 3, until=1))
    filled.append(made.posted(filled.chain, 3))
    return filled


@pytest.mark.parametrize("address", PAGES)
def test_a_page__is_shown_also_when_there_is_nothing_yet(network: Filled, page: TestClient, address: str):
    answer = page.get(address)
    assert answer.status_code == 200
    assert "<h1>" in answer.text
    empty = TestClient(
        application(Reader(Index(network.index.path.with_name("empty"), "t"), Network("t", 1, "devnet"))),
        base_url="http://localhost",
    )
    assert empty.get(address).status_code == (404 if address[-1] == "1" else 200)


def test_the_job_page__says_what_became_of_each_slot_in_words_too(network: Filled, page: TestClient):
    text = page.get("/jobs/1").text
    assert 'title="round 1, slot 0: final and paid, operator 1"' in text
    assert '<span class="sr">final</span>' in text
    assert "paid to operators" in text
    assert "zoo job result 1 --out model.safetensors" in text
    assert SIGNS.keys() == MEANING.keys()


def test_answers__are_as_the_schema_says(network: Filled, page: TestClient):
    schema = page.get("/api/schema.json").json()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert set(schema["paths"]) == set(ANSWERS)
    for path, reference in schema["paths"].items():
        if "{name}" in path:
            continue  # tests/integration/test_dashboard.py has a dispute
        answer = page.get(re.sub(r"{\w+}", "1", path))
        assert answer.headers["content-type"] == "application/json"
        jsonschema.validate(answer.json(), {**schema, **reference})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"jobs": [{}]}, {**schema, "$ref": "#/$defs/JobList"})


def test_the_network_page__shows_models_that_are_served(network: Filled, page: TestClient):
    assert "Models served live" not in page.get("/").text
    network.append(made.seat_taken(network.chain, 7, 2, 3 * 10**17, url=EVIL))
    text = page.get("/").text
    assert "Models served live" in text
    assert "0.3 ZEN" in text
    assert "50 ZEN" in text
    assert EVIL not in text


def test_the_api__pages_through_lists(network: Filled, page: TestClient):
    first = page.get("/api/jobs?limit=2").json()
    assert ([job["job"] for job in first["jobs"]], first["total"], first["before"]) == ([3, 2], 3, 2)
    second = page.get(f"/api/jobs?limit=2&before={first['before']}").json()
    assert ([job["job"] for job in second["jobs"]], second["before"]) == ([1], None)
    assert [job["job"] for job in page.get("/api/jobs?state=running").json()["jobs"]] == [2]
    operators = page.get("/api/operators?limit=2").json()
    assert [
        each["operator"] for each in page.get(f"/api/operators?after={operators['after']}").json()["operators"]
    ] == [3]


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/jobs/99", 404), ("/api/jobs/x", 400), ("/api/jobs/-1", 400), ("/api/jobs/²", 400), ("/api/jobs?state=lost", 400),
        ("/api/jobs?limit=9999999999999999999999", 400), ("/api/disputes/1:0:0", 404), ("/api/disputes/x", 404), ("/api/disputes/1:²:0", 404),
        ("/api/disputes/9999999999999999999999:1:1", 404), ("/api/nothing", 404),
    ],
)  # fmt: skip
def test_a_wrong_address__is_refused_in_words(network: Filled, page: TestClient, address: str, status: int):
    answer = page.get(address)
    assert answer.status_code == status
    assert answer.json()["error"]
    assert page.get(address.removeprefix("/api")).status_code == status


def test_the_page__answers_to_this_machines_names_alone(network: Filled, page: TestClient):
    for host, status in (
        ("evil.example", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost:8620", 200),
        ("127.0.0.1:1", 200),
    ):
        assert page.get("/api/network", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "address", [*PAGES, "/api/network", "/api/jobs/99", "/static/page.js", "/static/vendor/htmx.min.js"]
)
def test_every_answer__forbids_what_a_page_does_not_need(network: Filled, page: TestClient, address: str):
    answer = page.get(address, headers={"origin": "http://evil.example"})
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers
    if "<html" in answer.text:  # what the policy would block is not there either
        assert not re.search(r"<script(?![^>]*\bsrc=)|\bstyle=|\son\w+=|javascript:", answer.text)
        assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", answer.text)


def test_only_reading__is_possible(network: Filled, page: TestClient):
    for address in (*PAGES, "/api/jobs"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert page.request(method, address).status_code == 405


def test_a_strangers_text__stays_text(filled: Filled, page: TestClient):
    filled.append(made.registered(filled.chain, 1, endpoint=EVIL))
    filled.append(made.posted(filled.chain, 1))
    filled.append([filled.chain.emit("ExitRequested", "registry", operator=1, exit_at=2**256 - 1)])
    for address in ("/operators", "/operators/1"):
        text = page.get(address).text
        assert "<script>alert" not in text
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
        assert "{{7*7}}" in text
    assert page.get("/api/operators/1").json()["row"]["endpoint"].startswith("<script>")


@pytest.mark.parametrize(
    "status", ["", "{", "[1]", '{"jobs": 7, "workers": {"a": 1}, "trouble": "x", "block": "y"}', "\0"]
)
def test_a_broken_status_file__is_shown_as_far_as_it_goes(network: Filled, tmp_path: Path, status: str):
    (tmp_path / CONFIG).write_text(json.dumps({"operator": 1, "network": "x"}))
    (tmp_path / STATUS).write_text(status)
    page = TestClient(application(Reader(network.index, Network("t", 1, "devnet"), home=tmp_path)), base_url="http://localhost")  # fmt: skip
    answer = page.get("/node")
    assert answer.status_code == 200
    assert "Needs you" in answer.text


def test_my_node__shows_what_its_keeper_read_and_what_needs_a_person(network: Filled, tmp_path: Path):
    (tmp_path / CONFIG).write_text(json.dumps({"operator": 1, "network": "x"}))
    (tmp_path / STATUS).write_text(
        json.dumps({"block": 5, "jobs": {"2": "training"}, "workers": ["worker-1"], "trouble": ["disk is full"]})
    )
    page = TestClient(application(Reader(network.index, Network("t", 1, "devnet"), home=tmp_path)), base_url="http://localhost")  # fmt: skip
    text = page.get("/node").text
    for each in ("worker-1", "disk is full", 'href="/jobs/2"', "My node"):
        assert each in text
    assert "disk is full" not in page.get("/operators/2").text


def test_a_dispute_that_cannot_be_read__says_so_and_hides_no_other(network: Filled, page: TestClient):
    operator, turn, seat = 1, 0, 0
    hash_ = claim_hash(Claim(*made.claim(operator, turn, 0, seat).values()))
    emit = network.chain.emit
    network.append([
        emit("DisputeOpened", job=2, turn=turn, seat=seat),
        emit("ClaimAsked", "referee", job=2, claim=b"k" * 32, id=b"i" * 32, claim_hash=hash_, frame={"job": 2}, node={"claim": b"?"}),
        emit("LeafShown", "referee", id=b"i" * 32, answerer=made.account(1), data=b"\xff\0<script>"),
        emit("NodeAnswered", "referee", id=b"never asked".ljust(32), answerer=made.account(1), children=[b"x"]),
    ])  # fmt: skip
    [listed] = page.get("/api/disputes?open=1").json()["disputes"]
    assert (listed["name"], listed["operator"], listed["status"], listed["asks"]) == ("2:0:0", operator, "open", 1)
    answer = page.get("/disputes/2:0:0")
    assert answer.status_code == 200
    assert "this dispute cannot be drawn" in answer.text
    assert page.get("/api/jobs/2").json()["rounds"][0]["slots"] == ["disputed", "committed"]
    network.append([emit("ClaimResolved", "referee", job=2, claim=b"k" * 32, outcome=1, node=bytes(32))])
    [listed] = page.get("/api/disputes").json()["disputes"]
    assert listed["status"] == "final: no error was proven"
    assert page.get("/api/disputes?open=1").json()["disputes"] == []
