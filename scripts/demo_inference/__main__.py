"""`make demo-inference`: three operators answer requests for pay; one lies at random and is convicted from one receipt, one dies.

    python -m scripts.demo_inference [--json] [--folder DIR]

Requests go to the cheapest seat, and a client computes about one answer in seven again. Progress goes to stderr, the report to stdout, all files
to the run's folder. Ctrl-C ends every process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from repops.backend import prepare
from scripts.demo import stage
from scripts.demo.stage import parser_of, say
from scripts.demo_inference import picture
from scripts.demo_inference.conviction import Conviction, convicted
from scripts.demo_inference.picture import Dot
from scripts.demo_inference.teaching import SENTENCE, save_weights, taught
from tests.support.serving_market import SeatPlan, ServingMarket
from zoo_compute import Client
from zoo_compute.amounts import format_amount
from zoo_compute.errors import ZooError
from zoo_compute.inference.answers import Completions
from zoo_compute.inference.client import home_of
from zoo_compute.inference.doubts import Doubts
from zoo_compute.inference.market import Place
from zoo_compute.serving.execution import Execution, tokens_of
from zoo_compute.spec.params import ZEN

HERE = Path(__file__).resolve().parent
LIAR, DIES, LAST = "alpha", "beta", "gamma"
PLANS = (
    SeatPlan(LIAR, price=8 * ZEN // 10, lock=50 * ZEN, lies=0.35),
    SeatPlan(DIES, price=9 * ZEN // 10, lock=50 * ZEN),
    SeatPlan(LAST, price=ZEN, lock=50 * ZEN),
)
CHECK, NEW_TOKENS, DEPOSIT = 0.15, 24, 5  # DEPOSIT: ZEN of each channel
MOST, BEFORE_DEATH, AFTERWARDS = 120, 10, 10  # requests


class Demo:
    """One run, from an empty folder to its report."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dots: list[Dot] = []
        self.right = 0

    def run(self) -> dict[str, Any]:
        began = time.monotonic()
        say("a small GPT learns a sentence; a chain starts, and three operators with a serving seat each")
        self.folder.mkdir(parents=True, exist_ok=True)
        service = self.folder / "service.yaml"
        save_weights(taught(HERE / "service.yaml"), self.folder / "weights.safetensors")
        service.write_text((HERE / "service.yaml").read_text() + f"weights: {self.folder / 'weights.safetensors'}\n")
        with ServingMarket(self.folder, service, PLANS) as market:
            return self.report(market, self.play(market), began)

    def play(self, market: ServingMarket) -> Conviction:
        """Requests until the liar is found out; its conviction; then a seat that dies."""
        account = market.devnet.account("client", zen=100 * ZEN)
        client = Client(network=market.devnet.network_file, account=account, store=market.store_location, say=_narrated)
        self.inference = client.inference(market.service.cid, max_price=2, deposit=DEPOSIT, check=CHECK)
        self.stored = market.service
        graph = self.stored.graph(self.stored.service.programs[0])
        self.own = Execution(self.stored.service, graph, self.stored.weights(graph), prepare(graph))
        self.names = {operator.seat: name for name, operator in market.operators.items()}
        say(f"requests begin: each goes to the cheapest seat, and {CHECK:.0%} of the answers are computed again")
        while not any(dot.what.endswith("by a check") for dot in self.dots):
            if len(self.dots) >= MOST:
                raise ZooError(f"{MOST} requests, and no lie was drawn", hint="run it again")
            self.ask(len(self.dots))
        [evidence] = [path for path in (home_of(market.devnet.network) / "receipts").iterdir()]
        say(f"   evidence: {evidence}")
        self.look_back(market)
        conviction = convicted(market, market.operators[LIAR], evidence)
        say(f"   convicted {conviction.outcome}: {format_amount(conviction.slashed)} of {LIAR} are gone")
        for _ in range(BEFORE_DEATH):
            self.ask(len(self.dots))
        self.ask_while_it_dies(market)
        for _ in range(AFTERWARDS):
            self.ask(len(self.dots))
        return conviction

    def ask(self, number: int) -> None:
        words = SENTENCE.split()
        prompt = " ".join(words[number % 6 : number % 6 + 3])
        answer = self.inference.complete(prompt, NEW_TOKENS)
        is_right = self.is_right(answer)
        what = ("checked" if answer.is_true else "false, found by a check") if answer.checked else "not checked"
        if not answer.checked and not is_right:
            what = "false, found afterwards"
        name = self.names[answer.seat]
        self.dots.append(Dot(name, what))
        if what != "not checked":
            say(f"   {len(self.dots):3d} {name}: {prompt!r} -> {answer.texts[0]!r} ({what})")

    def look_back(self, market: ServingMarket) -> None:
        """At the answers that were not computed again: every false one is found while its receipt counts."""
        place, home = Place.of(market.chain), home_of(market.devnet.network)
        doubts = Doubts(place, market.chain.time, market.store, home)
        try:
            false = [file for file in doubts.unchecked() if doubts.recheck(file) is not None]
        finally:
            doubts.close()
        wrong = sum(dot.what.endswith("afterwards") for dot in self.dots)
        say(
            f"   the {len(self.dots)} answers so far, looked at again: {len(false)} more are false, of {wrong} that were"
        )
        if len(false) != wrong:
            raise ZooError("a false answer was not found")

    def ask_while_it_dies(self, market: ServingMarket) -> None:
        """A stream whose server is killed after its first piece: another seat goes on with it."""
        operator, pieces = market.operators[DIES], []
        stream = self.inference.stream("the quick brown", NEW_TOKENS)
        try:
            while True:
                pieces.append(next(stream).text)
                if len(pieces) == 1:
                    operator.kill()
                    say(f"   {DIES} is killed in the middle of an answer")
        except StopIteration as end:
            answer = end.value
        self.dots += [
            Dot(DIES, picture.DIED),
            Dot(self.names[answer.seat], "checked" if answer.checked else "not checked"),
        ]
        if "".join(pieces) != answer.texts[0] or not self.is_right(answer):
            raise ZooError("the pieces of the stream are not its answer")
        say(
            f"   {self.names[answer.seat]} went on: {answer.texts[0]!r}; {format_amount(answer.paid - answer.cost)} were lost"
        )

    def is_right(self, answer: Completions) -> bool:
        """By this process's own execution of the question."""
        question = self.stored.question(answer.receipt.question)
        is_right = answer.tokens == tokens_of(question, self.own.answer(question).outputs[: question.steps])
        self.right += is_right
        return is_right

    # --- what came of it

    def report(self, market: ServingMarket, conviction: Conviction, began: float) -> dict[str, Any]:
        money = self.settle(market)
        seats = [plan.name for plan in PLANS]
        count = {name: sum(dot.seat == name for dot in self.dots) for name in seats}
        notes = [
            f"{count[LIAR]} answers; convicted by one receipt ({conviction.outcome}): {format_amount(conviction.slashed)} of its lock are gone",
            f"{count[DIES]} answers; killed in the middle of one",
            f"{count[LAST]} answers",
        ]
        path = self.folder / "requests.svg"
        path.write_text(picture.svg(self.dots, seats, notes))
        false = [dot for dot in self.dots if dot.what.startswith("false")]
        result: dict[str, Any] = {
            "requests": len(self.dots) - 1,  # one was tried twice
            "false": len(false),
            "found_by_a_check": sum(dot.what.endswith("by a check") for dot in false),
            "found_afterwards": sum(dot.what.endswith("afterwards") for dot in false),
            "convicted": conviction.outcome in ("judged", "silent", "exhausted"),
            "outcome": conviction.outcome,
            "slashed": str(conviction.slashed),
            "asks": conviction.asks,
            "answers_right": self.right,
            **money,
            "picture": str(path),
            "seconds": round(time.monotonic() - began, 1),
        }
        (self.folder / stage.REPORT).write_text(json.dumps(result, indent=2) + "\n")
        return result | {"text": as_text(result)}

    def settle(self, market: ServingMarket) -> dict[str, Any]:
        """Each operator closes its channel with its newest voucher; both sides' books, and the chain's, say the same."""
        signed = {operator.id: self.inference.signed(operator.id) for operator in market.operators.values()}
        self.inference.close()
        paid = {}
        for operator in market.operators.values():
            operator.stop()
            for receipt in operator.close_channels().values():
                event = receipt.event("VoucherPaid").args
                paid[operator.id] = int(event["total"]), int(event["net"]) + int(event["fee"])
        equal = all(total == gross and total <= signed[each] for each, (total, gross) in paid.items())
        lost = sum(signed.values()) - sum(total for total, _ in paid.values())
        return {"signed": str(sum(signed.values())), "paid": str(sum(total for total, _ in paid.values())),
                "signed_and_not_paid": str(lost), "books_equal": equal}  # fmt: skip


def _narrated(text: str) -> None:
    """What the client says, but for the messages that it signs."""
    if not text.startswith("signing:"):
        say(text)


def as_text(result: dict[str, Any]) -> str:
    money = {name: format_amount(int(result[name])) for name in ("signed", "paid", "slashed")}
    return "\n".join([
        f"{result['requests']} requests; false answers: {result['false']}, of which {result['found_by_a_check']} found by a check at "
        f"once and {result['found_afterwards']} when the answers before it were looked at again",
        f"the liar is convicted {result['outcome']} from one receipt, after {result['asks']} asks: {money['slashed']} of its lock are gone",
        f"paid by vouchers: {money['paid']} of {money['signed']} that the client signed; books and chain equal: {result['books_equal']}",
        f"{result['seconds']} s; the picture: {result['picture']}",
    ])  # fmt: skip


def main() -> int:
    parser = parser_of("demo-inference", (__doc__ or "").split("\n")[0])
    arguments = parser.parse_args()
    reports: list[dict[str, Any]] = []

    def play(folder: Path) -> dict[str, Any]:
        reports.append(Demo(folder).run())
        return reports[0]

    code = stage.run("demo-inference", arguments, play)
    is_right = reports and reports[0]["convicted"] and reports[0]["books_equal"]
    return code or int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
