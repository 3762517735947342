"""What the page's wallet asks the server: only from the page itself, in words that fit, and answered in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from eth_utils.crypto import keccak
from starlette.testclient import TestClient

from keepers.services.bid_seals import BidSealer
from tests.dashboard.conftest import Filled
from zoo_compute.dashboard.reading import Network, Reader
from zoo_compute.dashboard.server import application
from zoo_compute.dashboard.wallet import ACTIONS, Plan, Wallet, seal_of
from zoo_compute.errors import UserError

HOST = "http://127.0.0.1"
FORM = {"origin": HOST, "content-type": "application/json"}


class Planner:
    """In place of a wallet: keeps what was asked."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, str]] = []

    def job_files(self) -> list[str]:
        return ["job.yaml"]

    def plan(self, request: Mapping[str, str]) -> Plan:
        self.asked.append(request)
        if request.get("action") == "refuse":
            raise UserError("it is refused", hint="do something else")
        return Plan([], "", ["looked"])

    def outcome(self, digest: str) -> dict[str, Any]:
        return {"state": "waiting", "hash": digest}


@pytest.fixture
def planner() -> Planner:
    return Planner()


@pytest.fixture
def page(filled: Filled, planner: Planner) -> TestClient:
    reader = Reader(filled.index, Network("testnet", 7, "devnet"))
    return TestClient(application(reader, planner), base_url=HOST)  # type: ignore[arg-type]


def test_a_request_of_the_page_itself__is_answered(page: TestClient, planner: Planner) -> None:
    answer = page.post("/wallet/plan", headers=FORM, content=b'{"action": "withdraw", "account": "0x1"}')
    assert (answer.status_code, answer.json()) == (200, {"transactions": [], "then": "", "said": ["looked"]})
    assert planner.asked == [{"action": "withdraw", "account": "0x1"}]
    assert page.post("/wallet/outcome", headers=FORM, content=b'{"hash": "0xab"}').json()["hash"] == "0xab"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json"},
        {**FORM, "origin": "null"},
        {**FORM, "origin": "https://evil.example"},
        {**FORM, "origin": "http://127.0.0.1.evil.example"},
        {**FORM, "origin": "http://127.0.0.1:1234"},
        {**FORM, "content-type": "text/plain"},
        {**FORM, "content-type": "application/x-www-form-urlencoded"},
    ],
)
def test_a_request_of_another_page__is_refused(page: TestClient, planner: Planner, headers: dict[str, str]) -> None:
    answer = page.post("/wallet/plan", headers=headers, content=b'{"action": "withdraw"}')
    assert answer.status_code == 403
    assert planner.asked == []
    assert "access-control-allow-origin" not in answer.headers


def test_another_host_name__is_refused(page: TestClient, planner: Planner) -> None:
    headers = {**FORM, "host": "evil.example", "origin": "http://evil.example"}
    assert page.post("/wallet/plan", headers=headers, content=b"{}").status_code == 400
    assert page.options("/wallet/plan", headers={"origin": "https://evil.example"}).status_code == 405
    assert page.get("/wallet/plan").status_code == 405
    assert planner.asked == []


@pytest.mark.parametrize("body", [b"", b"[]", b'{"job": 3}', b'{"x": "' + b"a" * 20_000 + b'"}', b"\xff"])
def test_a_body_that_is_no_object_of_texts__is_refused(page: TestClient, planner: Planner, body: bytes) -> None:
    answer = page.post("/wallet/plan", headers=FORM, content=body)
    assert (answer.status_code, planner.asked) == (400, [])
    assert "a JSON object of texts" in answer.json()["error"]


def test_a_refusal__has_its_reason_and_its_hint(page: TestClient) -> None:
    answer = page.post("/wallet/plan", headers=FORM, content=b'{"action": "refuse"}')
    assert (answer.status_code, answer.json()) == (200, {"error": "it is refused", "hint": "do something else"})


def test_the_page__has_forms_with_a_wallet_and_none_without(page: TestClient, filled: Filled) -> None:
    text = page.get("/").text
    assert 'data-action="post"' in text
    assert "<option>job.yaml</option>" in text
    assert "Read-only" not in text
    alone = TestClient(application(Reader(filled.index, Network("testnet", 7, "devnet"))), base_url=HOST)
    assert "data-action" not in alone.get("/").text
    assert "Read-only" in alone.get("/").text
    assert alone.post("/wallet/plan", headers=FORM, content=b"{}").status_code == 404


def test_every_action_of_the_page__is_one_of_the_servers() -> None:
    templates = Path(application.__code__.co_filename).parent / "templates"
    text = "".join(path.read_text() for path in templates.glob("*_actions.html"))
    for action in ACTIONS:
        assert f'data-action="{action}"' in text or f'value="{action}"' in text, action


def test_a_job_file__is_one_of_the_folders_own(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "job.yaml").write_text("")
    (tmp_path / "secret.yaml").write_text("")
    wallet = Wallet(None, tmp_path / "jobs")  # type: ignore[arg-type]
    assert wallet.job_files() == ["job.yaml"]
    for name in ("../secret.yaml", str(tmp_path / "secret.yaml"), "", "other.yaml"):
        with pytest.raises(UserError, match="no job file"):
            wallet._post(None, {"file": name})  # type: ignore[arg-type]
    assert Wallet(None, None).job_files() == []  # type: ignore[arg-type]


def test_a_seal__is_what_a_keeper_would_seal() -> None:
    sealer = BidSealer(keccak(b"secret"))
    assert seal_of(7, 1, 2, 3, 10**18, 4, sealer.salt(7, 1, 2)) == sealer.seal(7, 1, 2, 3, 10**18, 4)
