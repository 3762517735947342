"""Gas of each move of a dispute game, read from receipts on anvil.

    python -m benchmarks.disputes.referee_gas [--json]

The other contracts are doubles: what a challenge costs in Settlement and in a token is not in its figure. All trees are full:
64 states at ends of segments, of which one move goes down six levels, 256 nodes, four and four, and 1,024 leaves, five and five.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from web3 import Web3

from tests.support.games.hashed_computation import HashedComputation, HashedProgram, Tree, plain
from tests.support.sources import load
from zoo_compute.devnet.anvil import Anvil
from zoo_compute.spec import referee as rules
from zoo_compute.spec.frames import Awaits, Game, Kind, Phase, Work
from zoo_compute.spec.state import Claim, Message, Operator, World

JOB, OPERATOR, CHAIN_ID = 1, 7, 31337
# Node 17 is the one that the game goes to.
PROGRAM = HashedProgram("benchmark", (*((1,),) * 17, (128 * 1024,), *((1,),) * 238), 300)
WORK = Work((PROGRAM.opened.root, bytes(32), bytes(32)), 252, 4, 8)


class Bench:
    """One game on anvil; what it knows of the position it takes from the specification's functions."""

    def __init__(self, url: str) -> None:
        self.w3 = Web3(Web3.HTTPProvider(url))
        self.me, self.hot = self.w3.eth.accounts[:2]
        self.double = self.deploy("mocks/CourtDouble")
        self.referee = self.deploy("Referee", *(self.double.address,) * 7, 3_600, 43_200)
        self.side = HashedComputation("bob", 0, b"\x01" * 32, WORK, {Kind.TRAINING: PROGRAM})
        self.claim = Claim(0, 0, 3, OPERATOR, 1, 10**15, 0, b"\x01" * 32, self.side.leaf())
        self.send(self.double, "set", self.me, JOB, WORK.root, plain(self.claim), self.hot)
        self.gas: dict[str, int] = {}

    def deploy(self, name: str, *args: Any) -> Any:
        compiled = load(name)
        contract = self.w3.eth.contract(abi=compiled.abi, bytecode=compiled.bytecode)
        receipt = self.w3.eth.wait_for_transaction_receipt(contract.constructor(*args).transact({"from": self.me}))
        return self.w3.eth.contract(address=receipt["contractAddress"], abi=compiled.abi)

    def send(self, contract: Any, name: str, sender: str, *args: Any, value: int = 0) -> int:
        sent = getattr(contract.functions, name)(*args).transact({"from": sender, "value": value, "gas": 5_000_000})
        receipt = self.w3.eth.wait_for_transaction_receipt(sent)
        assert receipt["status"] == 1, f"{name} reverted"
        return int(receipt["gasUsed"])

    def run(self) -> None:
        """The way down to a leaf of a tensor, by the first child but one."""
        frame = rules._first_frame(JOB, self.claim, Kind.TRAINING, 0, WORK, self.side.result)
        args = (JOB, plain(self.claim), 0, 0, plain(WORK), plain(self.side.result))
        for _ in range(2):
            self.note("challenge", self.send(self.referee, "challenge", self.me, *args, value=4 * 10**16))
        game = rules._stand(Game(frame=frame), Phase.SEGMENTS, frame.segment_root, 64, Awaits.REVEAL)
        while not game.is_open:
            name, moved = self.side.move(game) or ("", ())
            label = f"reveal_{len(moved[0])}" if name == "reveal" else name
            self.note(label, self.send(self.referee, name, self.hot, 1, *map(plain, moved)))
            game = self.after(game, name, moved)
            while game.awaits == Awaits.PICK:
                game = self.pick(game)

    def pick(self, game: Game) -> Game:
        children = self.side.tree(game).children(game.height, game.index)
        depth, place = rules.span_of(game.height), min(1, game.height)
        path = Tree(children).path(place)
        used = self.send(self.referee, "pick", self.me, 1, place, children[place], list(path))
        self.note(f"pick_{1 << depth}", used)
        below = replace(game, node=children[place], height=game.height - depth, index=game.index << depth | place)
        return replace(below, awaits=Awaits.REVEAL) if below.height else rules._reached_leaf(below)

    def after(self, game: Game, name: str, args: tuple[Any, ...]) -> Game:
        """What the specification's move would leave; the openings are right."""
        world = World(games={1: replace(game, claim=self.claim, move_s=1, committer_left=1)})
        world.operators[OPERATOR] = Operator(hot=self.hot)
        getattr(rules, name)(world, Message(self.hot, 0), 1, *args)
        return world.games[1]

    def note(self, name: str, gas: int) -> None:
        self.gas[name] = gas


@contextmanager
def temporary_chain() -> Iterator[str]:
    """The URL of an anvil of its own, which stops at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        anvil = Anvil.start(chain_id=CHAIN_ID, block_time=1, port=0, state=folder / "s.json", log=folder / "log")
        try:
            yield anvil.url
        finally:
            anvil.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object")
    wants_json = parser.parse_args().json
    with temporary_chain() as url:
        bench = Bench(url)
        bench.run()
    for children in (16, 32, 64):
        bench.gas[f"pair_{children}"] = bench.gas[f"reveal_{children}"] + bench.gas[f"pick_{children}"]
    if wants_json:
        print(json.dumps(bench.gas))
    else:
        for name, used in sorted(bench.gas.items()):
            print(f"{name:20} {used:>9,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
