"""What `zoo job show` and `zoo job watch` say of a job that nobody takes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from tests.integration.cli_network import ESCROW, CliNetwork, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job

pytestmark = pytest.mark.integration


def test_a_job_that_nobody_takes__says_what_is_missing_and_how_to_cancel_it(zoo: Zoo, place: CliNetwork) -> None:
    job = zoo.json("train", place.config(), "--data", place.text, "--max-budget", "14", "--no-watch")["job"]
    bids = ["none of 3 slots have bids", "no aggregator has bid"]
    assert zoo.json("job", "show", str(job))["missing"][:2] == bids

    place.devnet.warp_to(place.devnet.chain.auction.lots(job, 0).reveal_end + 60)
    answer = zoo.json("job", "show", str(job))
    assert answer["missing"][:2] == bids
    assert answer["failed_attempts"] == 1
    assert "the reserve grows by a quarter" in answer["waiting_for"]

    stranger = place.devnet.account("stranger")
    for attempt in range(2, 6):
        auction = place.devnet.chain.auction
        Sender(place.devnet.chain, stranger).send(auction.reopen(job, 0))
        place.devnet.warp_to(auction.lots(job, 0).reveal_end + 60)
        assert zoo.json("job", "show", str(job))["failed_attempts"] == attempt
    code, out, err = zoo.run("job", "show", str(job))
    assert code == 0, err
    assert "waiting at the maximum price for an operator that can bid" in out
    assert "missing: no aggregator has bid\n" in out
    assert f"`zoo job cancel {job}`" in out
    assert "re-open" not in out

    watching = [sys.executable, "-m", "zoo_compute.cli.main", "job", "watch", str(job)]
    with subprocess.Popen(watching, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if "to stop waiting" in line:
                break
        process.send_signal(signal.SIGINT)
    assert "missing: no aggregator has bid\n" in lines
    assert (
        f"to stop waiting, run `zoo job cancel {job}`: the whole escrow comes back, and the posting deposit\n" in lines
    )

    assert zoo.json("job", "cancel", str(job))["refunded"] == str(ESCROW)
    assert zoo.json("job", "show", str(job))["missing"] == []


def test_a_job_that_asks_for_what_no_operator_is__is_refused_unless_it_may_wait(zoo: Zoo, place: CliNetwork) -> None:
    config = place.config()
    asking = json.loads(config.read_text()) | {"requirements": {"vram_gb": 4_096, "region": "EU"}}
    config.write_text(json.dumps(asking))
    command = ("train", config, "--data", place.text, "--max-budget", "14", "--no-watch")
    why = "no operator that can bid meets the job's requirements: 4096 GB, region EU"
    refused = zoo.refused(*command)
    assert why in refused
    assert "ask less of operators (`requirements`)" in refused
    priced = zoo.json("quote", config, "--max-budget", "14")
    assert priced["operators"].startswith("0 of ")
    assert why in priced["warnings"]

    job = zoo.json(*command, "--anyway")["job"]
    shown = zoo.json("job", "show", str(job))
    assert (shown["requirements"]["vram_gb"], shown["requirements"]["region"]) == (4_096, "EU")
    assert why in shown["missing"]
    assert "operators need: 4096 GB, region EU" in zoo.run("job", "show", str(job))[1]
    chain = place.devnet.chain
    assert chain.auction.requirements(job) == read_job(chain, job).terms.requirements > 0
    zoo.json("job", "cancel", str(job))
