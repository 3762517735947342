"""The dispute about one false receipt: `zoo serving dispute` on the client's side, the liar's keeper on the other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from keepers.cli.own_disputes import InProcessWorker
from keepers.services.answered_questions import AnsweredQuestions
from keepers.services.disputing import Disputing
from node.disputes import player
from tests.support.liars.lying_answers import LyingAnswer
from tests.support.serving_market import ServedOperator, ServingMarket
from zoo_compute.errors import ZooError
from zoo_compute.paths import QUESTIONS

FALSE = 3  # exit code of `zoo serving dispute`
LOOK_S = 0.05


@dataclass(frozen=True)
class Conviction:
    """outcome: as of `zoo serving dispute`; slashed: of the seat's lock, in wei of ZEN."""

    outcome: str
    asks: int
    slashed: int


def convicted(market: ServingMarket, liar: ServedOperator, evidence: Path) -> Conviction:
    """Raises ZooError where it comes to no end."""
    witness = market.devnet.account("witness", zen=0, coin=10 * 10**18)
    lock = market.chain.serving.seats(liar.seat).lock
    with _answering(market, liar):
        words = ["serving", "dispute", str(evidence), "--json", "--store", market.store_location]
        options = ["--network", str(market.devnet.network_file), "--account", str(market.devnet.key_file("witness"))]
        done = subprocess.run(
            [sys.executable, "-m", "zoo_compute.cli.main", *words, *options], capture_output=True, text=True,
            env={**os.environ, "ZOO_PASSPHRASE_FILE": str(market.devnet.passphrase_file), "ZOO_HOME": str(market.folder / "witness")},
        )  # fmt: skip
    if done.returncode != FALSE:
        raise ZooError(f"zoo serving dispute ended with {done.returncode}: {done.stderr[-2000:]}", hint=witness.address)
    answer = json.loads(done.stdout)
    return Conviction(answer["outcome"], answer["asks"], lock - market.chain.serving.seats(liar.seat).lock)


@contextmanager
def _answering(market: ServingMarket, liar: ServedOperator) -> Iterator[None]:
    """The liar's lane of disputes, whose worker answers for the lie as if it were right."""
    honest = vars(player)["Answer"]
    vars(player)["Answer"] = LyingAnswer
    questions = AnsweredQuestions(liar.folder / QUESTIONS)
    lane = Disputing(
        market.chain, liar.account.sender, InProcessWorker(market.store, None), operator=liar.id, folder=liar.folder,
        questions=questions.get,
    )  # fmt: skip
    over = threading.Event()

    def run() -> None:
        while not over.wait(LOOK_S):
            lane.poll_once()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        vars(player)["Answer"] = honest
        questions.close()
