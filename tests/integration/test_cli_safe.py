"""`--safe`: a batch that a real Safe executes, two of its three owners having signed, posts a job and takes it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_network import ESCROW, CliNetwork, Zoo, jobs, zoo_fixture  # noqa: F401
from tests.support.safe_wallet import SafeWallet, published_contracts
from zoo_compute.chain.unsigned_forms import checksum_of
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def safe(place: CliNetwork, tmp_path_factory: pytest.TempPathFactory) -> SafeWallet:
    safe = SafeWallet(place.devnet, published_contracts(tmp_path_factory.mktemp("safe")))
    place.devnet.fund(safe.address, coin=10**18, zen=100 * ZEN)
    return safe


def batch_of(zoo: Zoo, *arguments: str | Path) -> dict[str, Any]:
    code, out, err = zoo.run(*arguments)
    assert code == 0, err
    return json.loads(out)


def test_a_safe__posts_a_job_in_one_transaction__and_cancels_it(
    zoo: Zoo, place: CliNetwork, safe: SafeWallet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZOO_ACCOUNT")
    chain, known = place.devnet.chain, jobs(place)
    train = ("train", place.config(), "--data", place.text, "--max-budget", "14", "--safe", safe.address)
    batch = batch_of(zoo, *train)
    assert len(batch["transactions"]) == 2
    assert checksum_of(batch) == batch["meta"]["checksum"]
    safe.execute(batch)
    assert jobs(place) == known + 1
    posted = chain.tasks.jobs(known + 1)
    assert (posted.submitter, posted.escrow) == (safe.address, ESCROW)
    assert chain.zen.balanceOf(safe.address) == 100 * ZEN - ESCROW
    assert batch_of(zoo, *train)["transactions"] == [], "the same command notices that it is posted"

    safe.execute(batch_of(zoo, "job", "cancel", str(known + 1), "--safe", safe.address))
    assert chain.zen.balanceOf(safe.address) == 100 * ZEN
    assert chain.coin(safe.address) == 10**18, "the posting deposit"
