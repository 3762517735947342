"""Games on both sides: the specification and, in step with it, the contracts, with a double for what evidence shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import astuple, fields, replace
from typing import Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from tests.referee.expected_events import expected_events
from tests.support.contract import Contract
from tests.support.evm import chain
from tests.support.games.hashed_computation import WORK, HashedComputation, Tree, plain
from tests.support.job_driver import Offer
from tests.support.lockstep.contract_mirror import UNLIMITED, ContractMirror, Disagreement, deployed
from tests.support.lockstep.coverage import Coverage
from tests.support.lockstep.stage import DEPOSIT, Stage
from tests.support.protocol_driver import load
from zoo_compute.spec.frames import Frame, Game, Kind, Position, Result, Work, claim_hash, span_of
from zoo_compute.spec.params import COIN, PRESETS, Preset
from zoo_compute.spec.referee import bond
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim, Config, World
from zoo_compute.spec.world import Call

JOB = 1
SLOTS = 100  # of a court's storage, among which the referee's is looked for
FRAME = (
    "("
    + ",".join({"int": "uint256", "bytes": "bytes32", "bool": "bool"}[str(each.type)] for each in fields(Frame))
    + ")"
)
POSITION = "(uint256,uint256,uint256,bytes32,bytes32)"


def descriptor_of(kind: int, frame: Frame, position: Position) -> bytes:
    """What the double takes for evidence: the hash of all that it is asked about."""
    values = [kind, astuple(frame), astuple(position)]
    return bytes(keccak(encode(["uint256", FRAME, POSITION], values)))


def judge(kind: int, frame: Frame, position: Position, data: bytes) -> None:
    if data != descriptor_of(kind, frame, position):
        raise Refused("evidence: it does not hold")


class RefereeMirror(ContractMirror):
    """The protocol with a referee in the place of the account that stands for it elsewhere. computation: of the last call."""

    computation: Any = None

    def __init__(self, preset: Preset, contracts: dict[str, Contract], accounts: dict[str, str]) -> None:
        super().__init__(preset, dict(contracts), accounts)
        self.double = load("mocks/EvidenceDouble").deploy()
        at = {name: contracts[name].address for name in ("registry", "tasks", "settlement")}
        pool = accounts["audit pool"]
        numbers = (preset.move_s, preset.side_s)
        double, trials = self.double.address, contracts["admissions"].address
        referee = load("Referee").deploy(*at.values(), double, double, pool, trials, *numbers)
        self.wire(referee)
        for account in accounts.values():
            chain.set_balance(account, 10**24)
            for name in ("zen", "usd"):
                contracts[name].approve(referee.address, UNLIMITED, sender=account)
        self.config: Config = replace(
            self.config, referee=str(referee.address), judge=judge, part_count=self.part_count
        )
        self.parts = 3

    def wire(self, referee: Contract) -> None:
        """As the one that the courts know, instead of the one that they were wired to."""
        for name in ("settlement", "admissions"):
            court = self.contracts[name]
            known = int(court.referee(), 16)
            slot = next(slot for slot in range(SLOTS) if chain.storage(court, slot) == known)
            chain.set_storage(court, slot, int(referee.address, 16))
            assert court.referee() == referee.address
        self.contracts["referee"] = referee

    def part_count(self, descriptor: bytes, element: int) -> int:
        return self.parts

    def set_parts(self, parts: int) -> None:
        self.parts = parts
        self.double.set_parts(parts)

    def accept(self, call: Call, before: World, after: World, result: Any) -> None:
        super().accept(call, before, after, result)
        self.compare_games(before, after)
        if call.contract == "referee":
            self.compare_events(call, before, after)

    def _invoke(self, call: Call) -> Any:
        self.computation = super()._invoke(call)
        return self.computation

    def compare_events(self, call: Call, before: World, after: World) -> None:
        logs = self.contracts["referee"].get_logs(self.computation, include_child_logs=False)
        events = [(type(event).__name__, *map(settled, event[1:])) for event in logs]
        self._same(
            "events",
            events,
            [(name, *map(settled, values)) for name, values in expected_events(call, before, after)],
        )

    def compare_games(self, before: World, after: World) -> None:
        referee = self.contracts["referee"]
        for number, game in after.games.items():
            if before.games.get(number) != game:
                self._compare_game(number, game, referee.games(number))
        for (job, claim), games in after.open_games.items():
            self._same("open games", self._open_games(job, claim), list(games))
            self._same("open_against", referee.open_against(claim.operator), after.open_against(claim.operator))
        for (token, account), amount in after.referee_owed.items():
            self._same("owed", referee.owed(token, account), amount)
        for token, amount in after.game_burned.items():
            self._same("burned", referee.burned(token), amount)
        self._same("game_count", referee.game_count(), after.game_count)
        self._same("coin", chain.balance(referee.address), coin_balance(after))

    def _open_games(self, job: int, claim: Claim) -> list[int]:
        """The latest, and from each the one before it."""
        referee = self.contracts["referee"]
        latest_games = [referee.latest(job, claim_hash(claim))]
        while latest_games[-1]:
            latest_games.append(referee.games(latest_games[-1]).before)
        return latest_games[:-1]

    def _compare_game(self, number: int, game: Game, view: Any) -> None:
        if game == Game():
            flat = [each for part in view for each in (part if isinstance(part, tuple) else (part,))]
            zeros = (0, False, bytes(32), COIN)
            self._same(f"ended game {number}", [each for each in flat if each not in zeros], [])
            return
        assert game.claim is not None
        self._same("frame", view.frame_hash, bytes(keccak(encode([FRAME], [astuple(game.frame)]))))
        self._same("operator", view.operator, game.claim.operator)
        for name in ("challenger", "coin", "tokens", "node"):
            self._same(name, getattr(view, name), getattr(game, name))
        for name in view.state._fields:
            self._same(name, getattr(view.state, name), getattr(game, name))

    def _same(self, what: str, view: Any, expected: Any) -> None:
        if view != expected:
            raise Disagreement(f"referee: {what} is {view!r}, specification says {expected!r}")

    def _argument(self, arg: Any, call: Call) -> Any:
        return plain(arg) if call.contract == "referee" else super()._argument(arg, call)


def settled(value: Any) -> Any:
    """Of an event: arrays and records alike as tuples."""
    return tuple(value) if isinstance(value, list | tuple) else value


def coin_balance(w: World) -> int:
    owed = sum(amount for (token, _), amount in w.referee_owed.items() if token == COIN)
    return owed + sum(game.coin for game in w.games.values())


def check_money(w: World) -> None:
    """What the referee holds of every token is the open games' bonds, what is owed, and what is burned."""
    due: Counter[str] = Counter(w.game_burned)
    for (token, _), amount in w.referee_owed.items():
        due[token] += amount
    for game in w.games.values():
        due[w.job(game.job).token] += game.tokens
    for token in set(due) - {COIN}:
        assert w.balances.get((token, w.config.referee), 0) == due[token], f"{token}: holds other than {due[token]}"
    for (job, claim), games in w.open_games.items():
        assert len(games) <= 16
        assert all(w.games[number].claim == claim and w.games[number].job == job for number in games)
    playing = [number for number, game in w.games.items() if game != Game()]
    assert sorted(playing) == sorted(number for games in w.open_games.values() for number in games)


class GameDriver(Stage):
    """A job whose first turn is committed: alice's claim of slots 0 and 1, bob's of slot 2; carol aggregated it."""

    work: Work = WORK
    build: Callable[[str, int, bytes], HashedComputation] = HashedComputation

    def play_until_committed(self, **changes: Any) -> None:
        self.register_all("alice", "bob", "carol", "dave")
        if changes.get("token") == "bad":
            self.ok("tasks", "allow", "deployer", self.tokens["bad"], True, 0)
            for name, number in self.ids.items():
                self.ok("registry", "deposit", f"{name} owner", number, self.tokens["bad"], DEPOSIT)
        offers = {"alice": Offer(100, 2), "bob": Offer(90, 1)}
        self.running(offers, {"carol": Offer(40)}, work_root=self.work.root, slots=3, **changes)
        start = self.world.run(JOB).start_root
        self.seats = {name: self.seat_of(JOB, name) for name in ("alice", "bob")}
        self.sides: dict[tuple[str, int], HashedComputation] = {}
        self.named: dict[str, Claim] = {}
        for name in ("alice", "bob"):
            seat = self.world.seat(JOB, self.seats[name])
            sides = [self.build(name, slot, start) for slot in range(seat.first, seat.first + seat.count)]
            self.sides |= {(name, side.slot): side for side in sides}
            root = Tree(tuple(side.leaf() for side in sides)).root
            self.ok("settlement", "commit", f"{name} hot", JOB, self.seats[name], 0, root, b"b" * 32)
            self.named[name] = self.world.claims[JOB, self.seats[name], 0].claim
        self.sides["carol", 0] = self.build("carol", 0, start)
        root = self.sides["carol", 0].state(-2).root
        self.ok("settlement", "post_checkpoint", "carol hot", JOB, 0, 0b11, root, b"c" * 32)
        self.named["carol"] = self.world.claims[JOB, 128, 0].claim

    # --- calls that bring coin

    value: int | None = None

    def call(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> Call:
        if (contract, function) == ("referee", "challenge"):
            claim = args[1]
            least = bond(claim, self.world.open_against(claim.operator), 0)[0]
            value = least if self.value is None else self.value
        return super().call(contract, function, sender, *args, value=value)

    def attempt(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> str | None:
        reason = super().attempt(contract, function, sender, *args, value=value)
        check_money(self.world)
        return reason

    # --- games

    def side(self, name: str, slot: int) -> HashedComputation:
        return self.sides[name, slot]

    def challenge_args(self, name: str, kind: Kind, slot: int) -> tuple[Any, ...]:
        claim = self.named[name]
        if kind == Kind.AGGREGATION:
            return (JOB, claim, kind.value, 0, self.work, Result())
        first = claim.scope >> 16
        tree = Tree(tuple(self.side(name, first + at).leaf() for at in range(claim.count)))
        result = replace(self.side(name, slot).result, path=tree.path(slot - first))
        return (JOB, claim, kind.value, slot, self.work, result)

    def challenge(self, name: str, kind: Kind = Kind.TRAINING, at: int = 0, by: str = "dave owner") -> int:
        """Of the claim's slots, number `at`."""
        slot = (self.named[name].scope >> 16) + at
        return int(self.ok("referee", "challenge", by, *self.challenge_args(name, kind, slot)))

    def game(self, number: int) -> Game:
        return self.world.games[number]

    def committer(self, number: int) -> HashedComputation:
        game = self.game(number)
        assert game.claim is not None
        return self.side(self.party(game.claim.operator), game.frame.slot)

    def answer(self, number: int) -> str:
        """The committer's next move; its name."""
        game = self.game(number)
        move = self.committer(number).move(game)
        assert move, "the committer has no move here"
        assert game.claim
        name, args = move
        self.ok("referee", name, f"{self.party(game.claim.operator)} hot", number, *args)
        return name

    def pick_args(self, number: int, place: int) -> tuple[Any, ...]:
        game = self.game(number)
        children = self.committer(number).tree(game).children(game.height, game.index)
        return (number, place, children[place], Tree(children).path(place))

    def pick(self, number: int, place: int = 0) -> None:
        self.ok("referee", "pick", "dave owner", *self.pick_args(number, place))

    def down_to(self, number: int, leaf: int) -> None:
        """Picks and reveals, until the game stands at a leaf of the tree it is in."""
        while True:
            game = self.game(number)
            if game.awaits.name == "REVEAL":
                self.answer(number)
                continue
            depth = span_of(game.height)
            self.pick(number, leaf >> (game.height - depth) & ((1 << depth) - 1))
            if self.game(number).height == 0:
                return

    def evidence(self, number: int, kind: int = 8) -> tuple[Any, ...]:
        game = self.game(number)
        return (number, game.claim, game.frame, kind, descriptor_of(kind, game.frame, game.position))

    def convict_now(self, number: int, kind: int = 8) -> None:
        self.ok("referee", "convict", "stranger", *self.evidence(number, kind))


@contextmanager
def fork(played: GameDriver) -> Iterator[GameDriver]:
    """A copy to go on with; what happens on chain is undone."""
    with chain.anchor():
        mine = copy(played)
        mine.coverage, mine.value = played.coverage, None
        if mine.mirror:
            mine.mirror.set_parts(3)
        yield mine


def game_driver(preset_name: str = "devnet", *, on_chain: bool = True, **changes: Any) -> GameDriver:
    """With `on_chain` the caller anchors: what is deployed and played here stays otherwise."""
    preset = PRESETS[preset_name]
    if on_chain:
        mirror = RefereeMirror(preset, *deployed(preset_name))
        mirror.set_parts(3)
        made = GameDriver(Coverage(), mirror, preset)
    else:
        made = GameDriver(Coverage(), None, preset)
        answers = {"referee": "the contract", "judge": judge, "part_count": lambda descriptor, element: 3}
        made.world.config = replace(made.world.config, **answers)
    made.play_until_committed(**changes)
    return made
