"""A job that is priced and paid in dollars' worth of credits, on a node that asks its own price in dollars; and what the mint pays it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from tests.integration.test_token_story import budget_only, job_in_state
from tests.support.waiting import HANG_S
from zoo_compute.spec.params import ZEN
from zoo_compute.subprocesses import tied_to_parent

pytestmark = [pytest.mark.integration, pytest.mark.network]


def test_a_node__bids_in_dollars_works_for_credits_and_has_its_share_of_the_mint(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    home, account = ("--home", tmp_path / "node"), ("--account", place.account("operator", zen=5_000 * ZEN))
    owner, chain = zoo.json("account", "show", *account)["address"], place.devnet.chain
    zoo.json("node", "register", "--gpu-type", "rtx4090", "--memory", "24GB", *home, *account)
    zoo.json("credits", "pledge", "1500", *home, *account)
    zoo.json("node", "configure", "--role", "provider", "--role", "aggregator", *home)
    before = chain.zen.balanceOf(owner)
    in_dollars = ("--price", "$0.80", "--aggregator-price", "$0.10", "--token", "credits")
    zoo.json("node", "configure", *in_dollars, *home)
    command = [sys.executable, "-m", "zoo_compute.cli.main", "node", "start", *map(str, home), "--json"]
    daemon = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=tied_to_parent()
    )
    try:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        zoo.json("credits", "buy", "$12")
        train = ("--data", place.text, "--no-watch", "--max-budget", "$12")
        job = str(zoo.json("train", budget_only(place, token="credits"), *train)["job"])
        job_view = job_in_state(zoo, job, "ended")
        assert {int(seat["price"]) for seat in job_view["seats"].values()} == {ZEN}  # of at most 2
        zoo.run("job", "watch", job, "--settled", "--json")
        net = 6 * ZEN * 95 // 100
        assert int(zoo.json("node", "earnings", "--token", "credits", *home, *account)["paid"]) == net
        deadline = time.monotonic() + HANG_S
        while chain.zen.balanceOf(owner) == before and time.monotonic() < deadline:
            time.sleep(2)  # until the epoch is over, and the keeper claims
        assert chain.zen.balanceOf(owner) == before + net
        assert chain.credits.balanceOf(owner) == 0
    finally:
        daemon.send_signal(signal.SIGINT)
        daemon.communicate(timeout=HANG_S)
