"""The OpenAI-compatible proxy over a client whose seats answer on loopback: it speaks OpenAI's shapes, pays, and hides nothing that failed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from keepers.serving.proxy import application
from tests.support.seat_clients import COST, NEW, PROMPTS, Market, client, right
from zoo_compute.inference.client import Inference
from zoo_compute.serving.files import StoredService

BODY = {"model": "tiny", "prompt": PROMPTS, "max_tokens": NEW}


@pytest.fixture
def inference(place: Market, stored: StoredService, tmp_path: Path) -> Any:
    with client(place[0], stored, tmp_path) as made:
        yield made


@pytest.fixture
def web(inference: Inference) -> TestClient:
    return TestClient(application(inference), base_url="http://127.0.0.1", raise_server_exceptions=False)


def test_a_request_without_vouchers__is_answered_and_paid(
    web: TestClient, place: Market, stored: StoredService
) -> None:
    answer = web.post("/v1/completions", json=BODY).json()
    assert tuple(each["text"] for each in answer["choices"]) == right(stored)
    assert [each["finish_reason"] for each in answer["choices"]] == ["length", "length"]
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 8, "total_tokens": 13}
    assert (answer["zoo"]["seat"], answer["zoo"]["paid"]) == (1, str(COST))
    assert place[1][0].owes() == COST
    assert web.get("/v1/models").json()["data"][0]["id"] == "tiny"


def test_a_stream__has_pieces_then_finish_reasons_then_done(web: TestClient, stored: StoredService) -> None:
    response = web.post("/v1/completions", json={**BODY, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    *lines, done = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    events = [json.loads(line) for line in lines]
    assert done == "[DONE]"
    choices = [choice for each in events for choice in each["choices"]]
    assert tuple("".join(c["text"] for c in choices if c["index"] == at) for at in range(2)) == right(stored)
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == ["length", "length"]
    assert [("zoo" in each) for each in events].count(True) == 1


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({**BODY, "model": "other"}, 404, "model_not_found"),
        ({**BODY, "temperature": 0.7}, 400, "temperature"),
        ({**BODY, "n": 3}, 400, "n"),
        ({**BODY, "max_tokens": 0}, 400, "max_tokens"),
        ({**BODY, "prompt": "a" * 40}, 400, "invalid_value"),
        ([], 400, "invalid_json"),
    ],
)
def test_what_a_seat_would_refuse__is_refused_here_and_costs_nothing(
    body: Any, status: int, code: str, web: TestClient, place: Market
) -> None:
    response = web.post("/v1/completions", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert place[0].sent == []


def test_a_page_of_another_site__cannot_spend_anything(web: TestClient, place: Market) -> None:
    plain = web.post("/v1/completions", content=json.dumps(BODY), headers={"Content-Type": "text/plain"})
    assert plain.json()["error"]["code"] == "content_type"
    assert web.post("/v1/completions", json=BODY, headers={"Host": "evil.example"}).status_code == 400
    assert place[0].sent == []
    assert web.post("/v1/nothing", json=BODY).status_code == 404
    assert (
        web.post(
            "/v1/completions", content=b"[" * (9 * 2**20), headers={"Content-Type": "application/json"}
        ).status_code
        == 413
    )


@pytest.mark.parametrize("streams", [False, True])
def test_no_seat__is_a_503_that_says_why(streams: bool, web: TestClient, place: Market) -> None:
    for each in place[1]:
        each.mode = "busy"
    response = web.post("/v1/completions", json={**BODY, "stream": streams})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "not_answered")
    assert "queue full" in response.json()["error"]["message"]


def test_a_stream_that_was_false__ends_with_an_error_and_the_right_text(
    web: TestClient, place: Market, stored: StoredService
) -> None:
    place[1][0].mode = "false words"
    response = web.post("/v1/completions", json={**BODY, "stream": True})
    last = json.loads(response.text.strip().rsplit("data: ", 1)[1])
    assert last["error"]["code"] == "false_stream"
    assert tuple(last["zoo"]["right"]) == right(stored)
