"""Thousands of requests against three operators, of which one lies at random and one dies: is every lie seen, and does the money agree?

python -m benchmarks.served.requests [--json] [--requests N] [--clients N] [--check P] [--lies P] [--folder DIR] [--record]

A devnet, a tiny GPT, three servers as processes. Each client has an account, channels and a folder of its own, and computes an answer again
with the chance `check`; at its first lie it drops the operator, looks at its kept receipts again, and asks the others. When half of all
requests are answered, the honest operator that is cheapest is killed. At the end one receipt is disputed, and all channels are closed.
  requests, wrong        answers, and those that a seat signed falsely
  drawn, seen_later     of the wrong ones: by a check of the answer itself; by looking at kept receipts after that
  missed                 wrong answers of an operator that a client saw lying, that nothing showed; must be 0
  undetected_clients     clients that drew no lie before their requests were over; unseen: the lies that they have
  rate, rate_low, rate_high   drawn over the lies that could be drawn, and the 99 % interval of the stated rate for so many
  convicted              whether the contract convicted the liar, from one receipt
  signed, paid, unanswered   in wei: by all vouchers; by the closed channels; signed for what nobody answered
  paid_for_lies          of `paid`: by clients whose answers were false, before they knew
  honest_paid_exactly    whether an honest operator has its price for each request that it answered, to the wei, and the one that died no
                         more than one request of each client that had asked when it did
  books_equal            whether deposits are what was paid, and what came back, to the wei
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repops.backend import prepare
from scripts.demo_inference.conviction import convicted
from tests.support.serving_market import SeatPlan, ServingMarket
from zoo_compute.chain.connection import connect
from zoo_compute.chain.sender import Sender
from zoo_compute.inference.client import Terms, inference
from zoo_compute.inference.doubts import Doubts
from zoo_compute.inference.market import Place
from zoo_compute.serving.execution import Execution, tokens_of
from zoo_compute.serving.prices import cost_of
from zoo_compute.spec.params import ZEN
from zoo_compute.store.addresses import Scope

SERVICE = """
model: {layers: 1, heads: 2, width: 16, context: 32, vocab: 256}
serve: {kind: completions, model: tiny, context: 32, rows: [1]}
"""
LIAR, DIES, LAST = "alpha", "beta", "gamma"
NEW_TOKENS, LONGEST, DEPOSIT, AT_ONCE = 6, 16, 5 * ZEN, 3  # LONGEST: tokens of a prompt, at most
RESULT = Path(__file__).resolve().parents[1] / "results" / "requests.json"
QUANTILE = 2.576  # of 99 %


@dataclass
class Tally:
    """Of all clients. answered: honest work; signed: by vouchers; both by operator, in wei."""

    count: Counter[str] = field(default_factory=Counter)
    answered: Counter[int] = field(default_factory=Counter)
    signed: Counter[int] = field(default_factory=Counter)
    evidence: list[Path] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Crowd:
    """The clients of one market."""

    def __init__(self, market: ServingMarket, options: argparse.Namespace) -> None:
        self.market, self.options = market, options
        stored = market.service
        graph = stored.graph(stored.service.programs[0])
        self.own = Execution(stored.service, graph, stored.weights(graph), prepare(graph))
        self.tally, self.running = Tally(), threading.Lock()
        self.is_killed = False

    def run(self) -> None:
        each = self.options.requests // self.options.clients
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda number: self.client(number, each), range(self.options.clients)))

    def client(self, number: int, requests: int) -> None:
        devnet, home = self.market.devnet, self.market.folder / "clients" / str(number)
        account = devnet.account(f"client-{number}", zen=4 * DEPOSIT)
        chain = connect(devnet.network)
        chain.follow()
        terms = Terms(10 * ZEN, DEPOSIT, self.options.check, scope=Scope.PRIVATE)
        sender = Sender(chain, account, folder=home)
        home.mkdir(parents=True)
        asking = inference(
            chain, sender, self.market.store, self.market.service.cid, terms=terms, say=lambda _: None, home=home
        )
        wrong = drawn = later = liable = 0
        knows = False
        for at in range(requests):
            answer = asking.complete(f"{number}:{at}", NEW_TOKENS)
            question = self.market.service.question(answer.receipt.question)
            with self.running:
                right = tokens_of(question, self.own.answer(question).outputs[: question.steps])
            is_lie = not answer.is_true or answer.tokens != right
            wrong += is_lie
            if is_lie and not knows:
                liable += 1
            if not answer.is_true:
                drawn, knows = drawn + 1, True
                later += self.look_back(home)
            if not is_lie:
                with self.tally.lock:
                    self.tally.answered[answer.operator] += cost_of(question, self._price(answer.operator))
            self.count_and_kill()
        with self.tally.lock:
            self.tally.count.update(
                wrong=wrong, drawn=drawn, seen_later=later, liable=liable,
                missed=wrong - drawn - later if knows else 0,
                undetected_clients=int(wrong > 0 and not knows), unseen=0 if knows else wrong,
            )  # fmt: skip
            for operator in self.market.operators.values():
                self.tally.signed[operator.id] += asking.signed(operator.id)
            self.tally.evidence += sorted((home / "receipts").glob("*.json"))
        asking.close()

    def look_back(self, home: Path) -> int:
        """How many kept receipts are false."""
        doubts = Doubts(Place.of(self.market.chain), self.market.chain.time, self.market.store, home)
        try:
            return sum(doubts.recheck(file) is not None for file in doubts.unchecked())
        finally:
            doubts.close()

    def count_and_kill(self) -> None:
        with self.tally.lock:
            self.tally.count["requests"] += 1
            is_time = self.tally.count["requests"] >= self.options.requests // 2 and not self.is_killed
            self.is_killed = self.is_killed or is_time
        if is_time:
            self.market.operators[DIES].kill()

    def _price(self, operator: int) -> int:
        return next(each.plan.price for each in self.market.operators.values() if each.id == operator)


def settled(market: ServingMarket, tally: Tally) -> dict[str, Any]:
    """Each operator closes its channels with its newest vouchers."""
    zen, treasury = market.chain.zen, market.chain.network.contracts["treasury"]
    paid, gross = Counter[int](), Counter[int]()
    before = {each.id: zen.balanceOf(each.account.account.address) for each in market.operators.values()}
    fees_before, escrow = zen.balanceOf(treasury), zen.balanceOf(market.chain.channels.address)
    nets, refunded = Counter[int](), 0
    for operator in market.operators.values():
        operator.stop()
        for receipt in operator.close_channels().values():
            event = receipt.event("VoucherPaid").args
            paid[operator.id] += int(event["total"])
            gross[operator.id] += int(event["net"]) + int(event["fee"])
            nets[operator.id] += int(event["net"])
            refunded += int(receipt.event("ChannelClosed").args["refunded"])
    after = {each.id: zen.balanceOf(each.account.account.address) for each in market.operators.values()}
    fees = zen.balanceOf(treasury) - fees_before
    left = zen.balanceOf(market.chain.channels.address)
    total = sum(paid.values())
    liar, dies, last = (market.operators[name].id for name in (LIAR, DIES, LAST))
    # Whoever had asked when it died has paid for that one request.
    most_lost = AT_ONCE * market.operators[DIES].plan.price * (NEW_TOKENS + LONGEST) // 1_000
    for_lies = paid[liar] - tally.answered[liar]
    return {
        "signed": str(sum(tally.signed.values())),
        "paid": str(total),
        "unanswered": str(sum(tally.signed.values()) - sum(tally.answered.values()) - for_lies),
        "honest_paid_exactly": paid[last] == tally.answered[last]
        and 0 <= paid[dies] - tally.answered[dies] <= most_lost,
        "paid_for_lies": str(for_lies),
        "books_equal": (
            paid == gross
            and all(after[each] - before[each] == nets[each] for each in before)
            and fees == total - sum(nets.values())
            and escrow - left == total + refunded
        ),
    }


def measured(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    service = folder / "service.yaml"
    service.write_text(SERVICE)
    plans = (
        SeatPlan(LIAR, price=8 * ZEN // 10, lock=200 * ZEN, lies=options.lies),
        SeatPlan(DIES, price=9 * ZEN // 10, lock=200 * ZEN),
        SeatPlan(LAST, price=ZEN, lock=200 * ZEN),
    )
    began = time.monotonic()
    with ServingMarket(folder, service, plans) as market:
        crowd = Crowd(market, options)
        crowd.run()
        seconds, count = time.monotonic() - began, crowd.tally.count
        newest = max(crowd.tally.evidence, key=lambda path: path.stat().st_mtime)
        conviction = convicted(market, market.operators[LIAR], newest)
        money = settled(market, crowd.tally)
    spread = QUANTILE * (options.check * (1 - options.check) / max(count["liable"], 1)) ** 0.5
    return {
        **{name: count[name] for name in ("requests", "wrong", "drawn", "seen_later", "missed", "undetected_clients", "unseen")},
        "rate": count["drawn"] / max(count["liable"], 1),
        "rate_stated": options.check, "rate_low": max(0.0, options.check - spread), "rate_high": options.check + spread,
        "convicted": conviction.outcome in ("judged", "silent", "exhausted"), "outcome": conviction.outcome,
        **money,
        "clients": options.clients, "lies": options.lies, "requests_per_s": count["requests"] / seconds,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--requests", type=int, default=10_000, help="of all clients (default 10,000)")
    parser.add_argument("--clients", type=int, default=50, help="default 50")
    parser.add_argument("--check", type=float, default=0.1, help="the chance of a check (default 0.1)")
    parser.add_argument("--lies", type=float, default=0.5, help="the chance of a lie (default 0.5)")
    parser.add_argument("--record", action="store_true", help="write benchmarks/results/requests.json")
    parser.add_argument("--folder", type=Path, help="of the run; a temporary one by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        made = measured(options, folder)
    if options.record:
        RESULT.write_text(json.dumps(made, indent=2) + "\n")
    for name, value in made.items() if not options.json else ():
        print(f"{name:<22} {value}")
    if options.json:
        print(json.dumps(made))
    return 0 if made["convicted"] and made["books_equal"] and not made["missed"] else 1


if __name__ == "__main__":
    sys.exit(main())
