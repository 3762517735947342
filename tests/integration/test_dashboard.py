"""The dashboard in Chromium beside a real network: every view, a job watched to its end, a dispute played again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from keepers.processes.local_network import LocalNetwork
from tests.support.local_jobs import follow, submit
from tests.support.lying_network import CONFIG, PLANS
from tests.support.waiting import HANG_S, wait_until
from zoo_compute import Client
from zoo_compute.chain.events import Event
from zoo_compute.chain.views import ClaimState, JobView

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from tests.support.browser import AXE, Watched, browsing, chromium_path, served
from zoo_compute.dashboard.process import reading
from zoo_compute.dashboard.reading import Reader

pytestmark = [
    pytest.mark.integration,
    pytest.mark.browser,
    pytest.mark.skipif(chromium_path() is None, reason="there is no Chromium: apt-get install chromium"),
    pytest.mark.skipif(not AXE.exists(), reason=f"{AXE} is missing: `make test-browser` installs it"),
]

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "device_scale_factor": 2}


class Watching:
    """A network, its page, and the page's job as a reader saw it. seen: each different text of the live part's first lines."""

    def __init__(self, network: LocalNetwork, reader: Reader, browser: Any, address: str) -> None:
        self.network, self.reader, self.browser, self.address = network, reader, browser, address
        self.job = 0
        self.states: list[str] = []
        self.fates: set[str] = set()
        self.watched = Watched(browser, address, viewport={"width": 1200, "height": 900})

    def watch(self) -> None:
        """Submit a job and look at its page, which nobody loads again, until it is settled."""
        self.job = submit(self.network, CONFIG)
        wait_until("the job's page", lambda: self.reader.job(self.job) is not None)
        self.watched.open(f"/jobs/{self.job}").evaluate("window.isTheFirst = true")
        follow(self.network, self.job, disturb=self._look, timeout_s=4 * HANG_S)
        wait_until("the page to say that it is settled", lambda: self._state() == "settled", poll_s=0.5)

    def _look(self, view: JobView, fresh: list[Event]) -> None:
        state = self._state()
        if not self.states or self.states[-1] != state:
            self.states.append(state)
        self.fates |= set(self.watched.page.locator(".grid td .sr").all_inner_texts())

    def _state(self) -> str:
        return self.watched.page.locator("h1 .state").inner_text()

    def look_at(self, path: str, **context: Any) -> Watched:
        watched = Watched(self.browser, self.address, **context)
        watched.open(path)
        return watched


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watching]:
    folder = tmp_path_factory.mktemp("net")
    with LocalNetwork(folder, PLANS) as network:
        client = Client(network=network.network_path, store=str(network.submitter_store))
        home = network.folder / PLANS[0].name
        with reading(client, home, folder / "index") as reader, served(reader) as address, browsing() as browser:
            watching = Watching(network, reader, browser, address)
            watching.watch()
            yield watching


def views(watching: Watching) -> dict[str, str]:
    [dispute] = watching.reader.disputes(False, 10).disputes
    return {
        "network": "/", "jobs": "/jobs", "job": f"/jobs/{watching.job}", "operators": "/operators", "operator": "/operators/1", "disputes": "/disputes",
        "dispute": f"/disputes/{dispute.name}",
    }  # fmt: skip


def test_a_job__is_watched_live_to_its_end_without_loading_the_page_again(watching: Watching):
    page = watching.watched.page
    assert page.evaluate("window.isTheFirst") is True
    assert watching.states[0] in ("open", "awarded")
    assert {"running", "ended"} <= set(watching.states)
    assert {"training", "committed", "disputed", "final"} <= watching.fates
    assert page.locator("#loss + figure .uplot").count() == 1
    rows = page.locator("#loss-table tbody tr")
    assert rows.count() == 2
    text = page.locator("#live").inner_text()
    assert "2 of 2 rounds done, 2 final, rolled back once" in text
    assert watching.watched.said == []


def test_what_the_page_says_of_a_job__is_what_the_chain_says(watching: Watching):
    """The index reads events alone; the SDK reads the contracts' state too."""
    page = watching.reader.job(watching.job)
    assert page is not None
    money = {name: int(value) for name, value in vars(page.money).items()}
    assert money["escrowed"] + money["restored"] == sum(
        money[each] for each in ("paid", "fee", "refunded", "due", "left")
    )
    job = Client(network=watching.network.network_path, store=str(watching.network.submitter_store)).job(watching.job)
    account, view = job.account(), job.view()
    kept = {name: money[name] for name in ("escrowed", "restored", "paid", "fee", "refunded")}
    assert kept == {name: getattr(account, name) for name in kept}
    assert sum(int(each.amount) for each in page.penalties) == account.slashed > 0
    assert (page.row.state, page.row.completed, page.final_rounds, page.closed) == ("ended", view.completed_rounds, view.final_rounds, True)  # fmt: skip
    names = {ClaimState.PAID: "final", ClaimState.CONVICTED: "convicted", ClaimState.VOID: "void"}
    rows = watching.reader.index.db.execute(
        "SELECT turn, seat, operator, state FROM claims WHERE job = ?", (watching.job,)
    )
    claims = [(each.turn, each.seat, each.operator, names[each.state]) for each in view.claims]
    assert sorted(rows.fetchall()) == sorted(claims)
    seats = {each.seat: (each.operator, int(each.price)) for each in page.seats}
    assert {number: operator for number, (operator, _) in seats.items()} == {
        number: seat.operator for number, seat in view.seats.items()
    }


@pytest.mark.parametrize(
    ("scheme", "context"), [("light", {}), ("dark", {"color_scheme": "dark"}), ("phone", PHONE)], ids=lambda each: each if isinstance(each, str) else ""
)  # fmt: skip
def test_every_view__opens_without_an_error_and_without_a_barrier(
    watching: Watching, scheme: str, context: dict[str, Any]
):
    wrong: dict[str, list[str]] = {}
    for name, path in views(watching).items():
        watched = watching.look_at(path, **context)
        _settle(watched)
        if folder := os.environ.get("ZOO_SCREENSHOTS"):
            watched.page.screenshot(path=Path(folder) / f"{name}-{scheme}.png", full_page=True)
        wide = watched.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        wrong[name] = [*watched.said, *watched.barriers(), *([f"{wide} pixels too wide"] if wide > 0 else [])]
        watched.page.context.close()
    assert {name: each for name, each in wrong.items() if each} == {}


def test_my_node__shows_its_workers_and_what_needs_a_person(watching: Watching):
    watched = watching.look_at("/node")
    text = watched.page.locator("#live").inner_text()
    assert "Needs you" in text
    assert watched.page.locator("#workers + ul li").count() > 0
    assert watched.page.locator("nav a[aria-current=page]").inner_text() == "My node"


def test_a_dispute__is_played_again_down_to_the_numbers(watching: Watching):
    watched = watching.look_at(views(watching)["dispute"])
    page = watched.page
    page.wait_for_selector("#numbers", timeout=1000 * HANG_S)
    assert "operator 1 was wrong" in page.locator("#live").inner_text()
    said, computed = page.locator("code.wrong").inner_text(), page.locator("code.right").inner_text()
    assert said != computed
    assert page.locator(".tree .convicted").count() == 1
    steps = page.locator(".steps li").count()
    page.get_by_role("button", name="First").click()
    assert page.locator(".steps [aria-current=step]").inner_text().startswith("asks for")
    assert page.locator(".tree li[data-answered]:not(.later)").count() == 1
    for _ in range(steps - 1):
        page.get_by_role("button", name="Next").press("Enter")
    assert "convicted by judgement" in page.locator(".steps [aria-current=step]").inner_text()
    assert page.locator(".tree .later").count() == 0
    assert f"Step {steps} of {steps}" in page.locator("#replayed").inner_text()
    assert watched.said == []


def test_a_dispute__is_an_answer_of_the_api_as_the_schema_says(watching: Watching):
    page = watching.watched.page
    schema = page.request.get(f"{watching.address}/api/schema.json").json()
    for address, reference in (
        (f"/api{views(watching)['dispute']}", "DisputeDetail"), ("/api/disputes", "DisputeList"), (f"/api/jobs/{watching.job}", "JobDetail"),
        ("/api/operators/1", "OperatorDetail"),
    ):  # fmt: skip
        answer = page.request.get(watching.address + address).json()
        jsonschema.validate(answer, {**schema, "$ref": f"#/$defs/{reference}"})


def _settle(watched: Watched) -> None:
    """What a page reads when it is opened has come."""
    wait_until("what the page reads", lambda: "eading" not in watched.page.locator("#live").inner_text(), poll_s=0.2)
