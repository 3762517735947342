"""The page's wallet in Chromium: an injected wallet signs what the page plans, on a real chain."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from tests.integration.cli_network import ESCROW, CliNetwork, jobs
from tests.support.devnet_driver import DevnetOperator
from tests.support.page_wallet import PageWallet
from tests.support.waiting import HANG_S, wait_until
from zoo_compute import Client
from zoo_compute.spec.params import COIN, KIND_SLOTS, ZEN

pytest.importorskip("playwright", reason="playwright is not installed: pip install playwright")

from tests.support.browser import AXE, Watched, browsing, chromium_path, served
from zoo_compute.dashboard.process import reading
from zoo_compute.dashboard.reading import Reader
from zoo_compute.dashboard.wallet import Wallet

pytestmark = [
    pytest.mark.integration,
    pytest.mark.browser,
    pytest.mark.skipif(chromium_path() is None, reason="there is no Chromium: apt-get install chromium"),
]


class Desk:
    """A dashboard whose reader has a wallet. posts: the job files that it offers."""

    def __init__(self, place: CliNetwork, reader: Reader, address: str, browser: Any, posts: Path) -> None:
        self.place, self.reader, self.address, self.posts = place, reader, address, posts
        self._browser = browser

    @property
    def chain(self) -> Any:
        return self.place.devnet.chain

    def visit(self, path: str, account: LocalAccount) -> tuple[Watched, PageWallet]:
        """A page with the wallet's part open."""
        watched, wallet = Watched(self._browser, self.address), PageWallet(self.chain, account)
        watched.page.set_default_timeout(HANG_S * 1000)
        wallet.inject(watched.page)
        watched.open(path).locator("#wallet summary").click()
        return watched, wallet

    def job(self, account: LocalAccount) -> int:
        """A job of the account, posted from the page; its own page is there."""
        config = self.place.config()
        file = self.posts / config.name
        file.write_text(config.read_text().replace('"heldout"', f'"path": "{self.place.text}", "heldout"'))
        known = jobs(self.place)
        watched, _ = self.visit("/", account)
        watched.page.locator("[name=file]").select_option(file.name)
        watched.page.locator("[name=budget]").fill("14")
        watched.page.get_by_role("button", name="Post the job").click()
        self.send(watched)
        said(watched, "Nothing is left to send.")
        assert f"job {known + 1} is posted" in log(watched)
        assert watched.said == []
        wait_until("the job's page", lambda: self.reader.job(known + 1) is not None)
        return known + 1

    def send(self, watched: Watched) -> list[str]:
        """Read what the page is about to send, and press the button."""
        watched.page.locator("#wallet-plan").wait_for(state="visible")
        sentences = watched.page.locator("#wallet-list li").all_inner_texts()
        watched.page.locator("#wallet-send").click()
        return sentences


def log(watched: Watched) -> str:
    return watched.page.locator("#wallet-log").inner_text()


def said(watched: Watched, text: str) -> str:
    """Wait until the page says it. Returns all that it says."""
    watched.page.locator("#wallet-log").get_by_text(text).first.wait_for()
    return log(watched)


@pytest.fixture(scope="module")
def desk(place: CliNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    posts = folder / "jobs"
    posts.mkdir()
    (posts / "first.json").write_text("{}")
    client = Client(network=place.devnet.network_file, store=place.store)
    with (
        reading(client, None, folder / "index") as reader,
        served(reader, Wallet(client, posts)) as address,
        browsing() as browser,
    ):
        yield Desk(place, reader, address, browser, posts)


@pytest.fixture(scope="module")
def me(place: CliNetwork) -> LocalAccount:
    return place.devnet.account("page", zen=1_000 * ZEN)


def test_a_job__is_posted_funded_and_cancelled_from_the_page(desk: Desk, me: LocalAccount) -> None:
    zen = desk.chain.zen.balanceOf(me.address)
    number = desk.job(me)
    posted = desk.chain.tasks.jobs(number)
    assert (posted.submitter, posted.escrow) == (me.address, ESCROW)

    watched, wallet = desk.visit(f"/jobs/{number}", me)
    watched.page.locator("[name=amount]").fill("3")
    watched.page.get_by_role("button", name="Pay for audits").click()
    assert any(f"pay 3 ZEN for audits of job {number}" in each for each in desk.send(watched))
    said(watched, "Done.")
    assert desk.chain.audits.budgets(number).balance == 3 * ZEN

    watched.page.get_by_role("button", name="Cancel the job").click()
    sentences = desk.send(watched)
    assert [each.split(" ")[0] for each in sentences] == ["cancel", "send", "send"]
    said(watched, "Done.")
    assert desk.chain.zen.balanceOf(me.address) == zen - 3 * ZEN
    assert wallet.asked.count("eth_sendTransaction") >= 4
    assert watched.said == []


def test_what_is_owed__is_withdrawn_from_the_page(desk: Desk, me: LocalAccount) -> None:
    from zoo_compute.chain.sender import Sender

    number = desk.job(me)
    Sender(desk.chain, me).send(desk.chain.tasks.cancel(number))
    zen = desk.chain.zen.balanceOf(me.address)
    watched, _ = desk.visit("/", me)
    watched.page.get_by_role("button", name="Withdraw").click()
    sentences = desk.send(watched)
    said(watched, "Done.")
    assert len(sentences) == 2
    assert desk.chain.zen.balanceOf(me.address) == zen + ESCROW
    assert desk.chain.tasks.owed(COIN, me.address) == 0
    watched.page.get_by_role("button", name="Withdraw").click()
    said(watched, "There is nothing to send.")


def test_a_wallet_that_declines__sends_nothing_and_the_page_says_so(desk: Desk, me: LocalAccount) -> None:
    number = desk.job(me)
    watched, wallet = desk.visit(f"/jobs/{number}", me)
    wallet.declines = True
    watched.page.get_by_role("button", name="Cancel the job").click()
    desk.send(watched)
    said(watched, "You declined in your wallet")
    assert not desk.chain.tasks.owed(desk.chain.zen.address, me.address)
    wallet.declines = False
    watched.page.get_by_role("button", name="Cancel the job").click()
    watched.page.locator("#wallet-leave").click()
    said(watched, "Left as it is: nothing was sent.")
    assert watched.said == []


def test_a_wallet_on_another_chain__is_asked_to_switch(desk: Desk, me: LocalAccount) -> None:
    watched, wallet = desk.visit("/", me)
    wallet.chain_id = 1
    watched.page.get_by_role("button", name="Withdraw").click()
    said(watched, "There is nothing to send.")
    assert wallet.chain_id == desk.chain.network.chain_id
    wallet.chain_id, wallet.knows = 1, set()
    watched.page.get_by_role("button", name="Withdraw").click()
    said(watched, f"Your wallet does not know chain {desk.chain.network.chain_id}")
    assert "eth_sendTransaction" not in wallet.asked


def test_what_the_contract_refuses__is_said_in_words_before_anything_is_signed(
    desk: Desk, me: LocalAccount, place: CliNetwork
) -> None:
    number = desk.job(me)
    stranger = place.devnet.account("another")
    watched, wallet = desk.visit(f"/jobs/{number}", stranger)
    watched.page.get_by_role("button", name="Cancel the job").click()
    text = said(watched, "TaskRegistry.cancel")
    assert "tasks:" in text
    assert "eth_sendTransaction" not in wallet.asked
    assert watched.said == []


def test_a_bid__is_sealed_and_opened_from_the_same_browser(desk: Desk, me: LocalAccount, place: CliNetwork) -> None:
    operator = DevnetOperator(place.devnet, "bidder", price=1)
    number = desk.job(me)
    watched, _ = desk.visit(f"/jobs/{number}", operator.account)
    page, auction = watched.page, desk.chain.auction
    page.locator("[name=operator]").fill(str(operator.id))
    page.locator("[name=price]").fill("0.75")
    page.get_by_role("button", name="Bid", exact=True).click()
    [sentence] = desk.send(watched)
    assert sentence.startswith(f"seal a bid of operator {operator.id} on job {number}, as worker")
    said(watched, "Done.")
    assert not auction.bids(number, KIND_SLOTS, operator.id).revealed
    page.get_by_role("button", name="Bid", exact=True).click()
    said(watched, "auction: already bid")  # and the salt of the first one is kept
    place.devnet.warp_to(auction.lots(number, KIND_SLOTS).bid_end + 1)
    page.locator("[name=price]").fill("")  # the browser keeps the price and the salt
    page.get_by_role("button", name="Open my bid").click()
    desk.send(watched)
    said(watched, "Done.")
    bid = auction.bids(number, KIND_SLOTS, operator.id)
    assert (bid.revealed, bid.price, bid.capacity) == (True, ZEN * 3 // 4, 1)
    assert watched.said == []


def test_the_part_for_wallets__has_no_barrier_and_works_without_one(desk: Desk, me: LocalAccount) -> None:
    if not AXE.exists():
        pytest.skip(f"{AXE} is missing: `make test-browser` installs it")
    watched, _ = desk.visit("/", me)
    assert watched.barriers() == []
