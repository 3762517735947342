"""What people type about disputes: `zoo verify --challenge`, `zoo dispute list|show|replay`, `zoo defend`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from keepers.cli.defend import OPERATOR
from keepers.cli.verify import LIES_EXIT_CODE, UNPAID
from keepers.queue.work_queue import WorkStatus
from keepers.services.disputing import Disputing
from node.disputes import player
from tests.support.disputed_job import Dispute
from tests.support.stranger_asks import Stranger
from tests.support.trained_claims import LIE, SLOT, LyingAggregation, Trained, computed, lying
from tests.support.waiting import HANG_S
from zoo_compute.chain.events import scan
from zoo_compute.chain.snapshot import read_job
from zoo_compute.cli import main as cli
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration


class Network:
    """A devnet with one closed round, whose first operator's claim is false where `lie` says so."""

    def __init__(self, devnet: Devnet, folder: Path, lie: Kind | None, capsys: pytest.CaptureFixture[str]) -> None:
        self.devnet, self.folder, self.lie, self._capsys = devnet, folder, lie, capsys
        self.work = Trained(folder / "work", lie)
        self.dispute = Dispute(devnet, self.work)
        self.job = self.dispute.job
        self.addresses: dict[str, str] = {}

    def fund(self, account: str, zen: int) -> None:
        """A new account, with coin as every account of a devnet."""
        self.addresses[account] = self.devnet.account(account, zen=zen).address

    def arguments(self, *command: str, account: str = "") -> list[str]:
        options = ["--network", str(self.devnet.network_file), "--json"]
        if account:
            if account not in self.addresses:
                self.fund(account, 20 * ZEN)
            options += ["--account", str(self.devnet.key_file(account))]
        return [*command, *options]

    def author(self, party: int = 0) -> Disputing:
        """Of the first operator, or the second, which aggregates; its worker lies if its claim does."""
        author = self.dispute.parties[party]

        def ask(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
            lies: dict[str, Any] = {"made": LIE.slot_round} if self.lie == Kind.TRAINING else {}
            return computed(self.work.store, task, request, **lies)

        chain = self.devnet.chain
        return Disputing(chain, author.sender, ask, operator=author.id, folder=self.folder / "author")

    def json(self, *command: str, code: int = 0) -> dict[str, Any]:
        self._capsys.readouterr()
        assert cli.run(self.arguments(*command)) == code
        out: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return out

    def text(self, *command: str) -> str:
        """As a terminal of 80 columns can print it, with one space where the lines are broken."""
        self._capsys.readouterr()
        assert cli.run([each for each in self.arguments(*command) if each != "--json"]) == 0
        out = self._capsys.readouterr().out
        assert [line for line in out.splitlines() if len(line) > 80] == []
        return " ".join(out.split())

    def run_with(self, lane: Disputing | None, *command: str, account: str) -> tuple[int, dict[str, Any]]:
        """A command in a process of its own, while a keeper's lane goes on here. Without a lane it runs in this process: the
        chain's clocks of seconds do not wait until a new one has started."""
        settings = {"ZOO_HOME": str(self.folder / "home"), "ZOO_PASSPHRASE_FILE": str(self.devnet.passphrase_file)}
        arguments = [*self.arguments(*command, account=account), "--store", str(self.folder / "work" / "store")]
        if lane is None:
            self._capsys.readouterr()
            with pytest.MonkeyPatch.context() as patch:
                for name, value in settings.items():
                    patch.setenv(name, value)
                code = cli.run(arguments)
            return code, json.loads(self._capsys.readouterr().out)
        environment = {**os.environ, **settings}
        with (self.folder / f"{account}.json").open("w+") as output, (self.folder / f"{account}.log").open("w+") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "zoo_compute.cli.main", *arguments], stdout=output, stderr=log, env=environment
            )
            deadline = time.monotonic() + HANG_S
            while process.poll() is None:
                assert time.monotonic() < deadline, log.seek(0) or log.read()
                lane.poll_once()
                time.sleep(0.2)
            output.seek(0)
            log.seek(0)
            text = output.read()
            assert text, log.read()
            return process.returncode, json.loads(text)


def test_a_lie__is_asked_about_convicted_listed_and_replayed(
    devnet: Devnet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Network(devnet, tmp_path, Kind.TRAINING, capsys)
    assert network.text("dispute", "list") == "there is no dispute"
    command = ("verify", str(network.job), "--slot", str(SLOT), "--challenge")
    code, verified = network.run_with(network.author(), *command, account="witness")
    assert code == LIES_EXIT_CODE
    [asked] = verified["disputes"]
    name = f"{network.job}:0:0"
    author = network.dispute.parties[0].id
    assert (asked["dispute"], asked["operator"], asked["slot"], asked["outcome"]) == (name, author, SLOT, "judged")

    listed = network.json("dispute", "list", "--job", str(network.job))["disputes"]
    assert [(each["dispute"], each["status"], each["open_asks"]) for each in listed] == [(name, "judged", 0)]
    assert network.json("dispute", "list", "--open")["disputes"] == []
    assert "convicted by judgement" in network.text("dispute", "list")

    shown = network.json("dispute", "show", name)
    assert [each["above"] is None for each in shown["tree"]] == [True] + [False] * (len(shown["tree"]) - 1)
    assert any(each["place"] == f"step {LIE.step}" and each["is_heavy"] for each in shown["tree"])
    assert int(shown["prepaid_tokens"]) > 0
    text = network.text("dispute", "show", name)
    assert "<< convicted here" in text
    assert "and 0 heavy" not in text

    replayed = network.json("dispute", "replay", name)
    verdict = replayed["verdict"]
    assert (verdict["step"], verdict["operator"], verdict["refuted"]) == (LIE.step, "dot", "")
    assert verdict["committed"] != verdict["right"]
    assert replayed["conclusion"].startswith(f"operator {author} was wrong")
    assert replayed["gas"]["committer"] > 0 < replayed["gas"]["asker"]
    functions = [each["function"] for each in replayed["entries"]]
    assert functions[0] == "ask_claim"
    assert "judge" in functions
    assert {each["by"] for each in replayed["entries"]} == {"committer", "asker"}
    assert "the committer says" in network.text("dispute", "replay", name)


def test_a_false_aggregation__is_checked_like_any_claim_and_convicted(
    devnet: Devnet, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(devnet, tmp_path, Kind.AGGREGATION, capsys)
    monkeypatch.setattr(player, "Aggregation", lambda *args, **options: lying(LyingAggregation(*args, **options)))
    author = network.author(1)
    code, verified = network.run_with(author, "verify", str(network.job), "--challenge", account="witness")
    assert code == LIES_EXIT_CODE
    outcome = [(each["work"], each["slot"], each["agrees"]) for each in verified["checked"]]
    assert outcome == [("aggregation", None, False), ("slot-round", 0, True), ("slot-round", 1, True)]
    [asked] = verified["disputes"]
    assert (asked["dispute"], asked["slot"], asked["outcome"]) == (f"{network.job}:0:aggregator", None, "judged")


def test_a_witness_without_tokens__ends_and_says_what_to_send_and_goes_on_once_it_has_them(
    devnet: Devnet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Network(devnet, tmp_path, Kind.TRAINING, capsys)
    network.fund("poor", 0)
    command = ("verify", str(network.job), "--slot", str(SLOT), "--challenge", "--follow")
    author = network.author()
    code, poor = network.run_with(author, *command, account="poor")
    assert (code, [each["outcome"] for each in poor["disputes"]]) == (UNPAID, [None])
    assert "has 0 ZEN" in poor["error"]
    assert f"{network.addresses['poor']} has" in poor["hint"]
    assert "a dispute needs about" in poor["hint"]
    assert "may be unable to dispute it" in (network.folder / "poor.log").read_text()
    network.fund("poor", 20 * ZEN)
    code, richer = network.run_with(author, *command[:-1], account="poor")
    assert (code, [each["outcome"] for each in richer["disputes"]]) == (LIES_EXIT_CODE, ["judged"])


def test_a_dispute_that_is_not_there__is_refused_with_what_to_write(
    devnet: Devnet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--network", str(devnet.network_file), "--json"]
    for name, message in (
        ("3:7", "names no dispute"),
        ("trial:x", "names no dispute"),
        ("1:0:9", "there is no dispute"),
    ):
        assert cli.run(["dispute", "show", name, *options]) == 1
        error = json.loads(capsys.readouterr().out)
        assert message in error["error"]
        assert "zoo dispute list" in error["hint"]


def test_a_true_claim_of_a_silent_operator__is_defended_by_anybody_who_is_paid_for_it(
    devnet: Devnet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = Network(devnet, tmp_path, None, capsys)
    chain, job = devnet.chain, network.job
    command = ("defend", str(job))
    code, idle = network.run_with(None, *command, account="defender")
    assert (code, idle["disputes"], idle["earned"]) == (0, [], "0")

    view = read_job(chain, job)
    commit: Any = network.dispute.claim(0)
    stranger = Stranger(chain, network.dispute.parties[2].sender, network.work.store, view, commit, SLOT)
    stranger.begin()
    devnet.warp_to(chain.now() + chain.params.clocks.exclusive_s + 1)
    code, answered = network.run_with(None, *command, account="defender")
    [dispute] = answered["disputes"]
    assert (code, dispute["answers"], dispute["left"], dispute["false"]) == (0, 1, [], False)
    assert int(answered["pending"]) > 0 == int(answered["earned"])

    # -- a step's trace is a new commitment: its operator alone can make it
    [root] = stranger.picture.nodes.values()
    stranger.ask(root, 1)
    devnet.warp_to(chain.now() + chain.params.clocks.exclusive_s + 1)
    code, heavy = network.run_with(None, *command, account="defender")
    [left] = heavy["disputes"][0]["left"]
    assert (code, left["by"], left["reason"]) == (0, OPERATOR, "needs the operator's key")
    network.author().poll_once()
    assert not stranger.picture.open_asks

    # -- the author earned more, by the trace, and may end it first
    final_after = max(chain.now(), commit.deadline) + chain.params.clocks.asker_s
    devnet.warp_to(final_after + 1)
    code, waiting = network.run_with(None, *command, account="defender")
    assert (code, waiting["disputes"][0]["outcome"]) == (0, None)
    devnet.warp_to(final_after + chain.params.clocks.exclusive_s + 1)
    code, paid = network.run_with(None, *command, account="defender")
    assert (code, paid["disputes"][0]["outcome"]) == (0, "final")
    assert int(paid["earned"]) == int(answered["pending"])
    withdrawn = scan(chain, devnet.network.first_block, chain.head().number, names=("Withdrawn",))
    mine = [each.args["amount"] for each in withdrawn if each.args["account"] == network.addresses["defender"]]
    assert mine == [int(paid["earned"])]
