"""Games before the contracts that judge, each move in step with the specification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from node.disputes.moves import RevealedState
from tests.referee.game_driver import GameDriver, RefereeMirror
from tests.support.evm import Reverted
from tests.support.games.game_board import ChallengerPlayer, CommitterPlayer, part_count_of
from tests.support.games.hashed_computation import plain
from tests.support.protocol_driver import load
from zoo_compute.spec.frames import Frame, Game, Position
from zoo_compute.spec.revert import Refused

CHALLENGER_ACCOUNT = "dave owner"  # challenges


class OnChainGames(GameDriver):
    """last: where the last game stood when its evidence was shown."""

    last: Game

    def play(self, number: int, hot: str, prover: CommitterPlayer, challenger: ChallengerPlayer) -> int | None:
        """To the end; the kind of evidence that convicted, or None where the challenger has none that holds, and no move.

        What was shown is read from the contract's events alone.
        """
        revealed = RevealedState()
        while True:
            game = self.game(number)
            move = challenger.next(game, revealed) if game.is_challengers_turn else prover.answer(game)
            if move is None:
                assert game.is_challengers_turn, "the committer has no move"
                return None
            if move.name == "convict":
                self.last = game
                _, frame, kind, data = move.args
                try:
                    contracts_judge(self)(kind, frame, game.position, data)
                except Refused:
                    return None
                self.ok("referee", move.name, CHALLENGER_ACCOUNT, number, *move.args)
                return int(kind)
            self.ok("referee", move.name, CHALLENGER_ACCOUNT if game.is_challengers_turn else hot, number, *move.args)
            revealed = revealed.apply_event(**self.events())
            assert revealed.phase == self.game(number).phase

    def events(self) -> dict[str, Any]:
        """Of the last call, as `RevealedState.apply_event` takes them."""
        assert isinstance(self.mirror, EvidenceMirror)
        logs = self.mirror.contracts["referee"].get_logs(self.mirror.computation, include_child_logs=False)
        fields: dict[str, Any] = {}
        for event in logs:
            name = type(event).__name__
            if name == "FrameFixed":
                fields["frame"] = Frame(*event.frame)
            elif name == "NodeRevealed":
                fields["children"] = tuple(event.children)
            elif name == "LeafShown":
                fields["leaf"] = event.data
            elif name == "StateDisputed":
                fields["is_disputed"] = True
        return fields


def contracts_judge(staged: OnChainGames) -> Any:
    """The contracts' answer, which must be that of the judge on paper."""
    paper = staged.world.config.judge

    def judge(kind: int, frame: Frame, position: Position, data: bytes) -> None:
        refusal = None
        try:
            assert staged.mirror.evidence.judge(kind, plain(frame), plain(position), data)
        except Reverted as error:
            refusal = Refused(error.reason or "no reason")
        try:
            paper(kind, frame, position, data)
        except Refused:
            assert refusal, f"the contracts convict, the judge on paper does not: kind {kind}"
        else:
            assert refusal is None, f"the judge on paper convicts, the contracts do not: {refusal}"
        if refusal:
            raise refusal

    return judge


class EvidenceMirror(RefereeMirror):
    """With the contracts that judge, in the places of their doubles."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        tasks, settlement = (self.contracts[name] for name in ("tasks", "settlement"))
        operators = load("OpExecutor").deploy()
        bindings = load("ConsistencyProofs").deploy(tasks.address, settlement.address)
        evidence = load("Evidence").deploy(operators.address, bindings.address)
        double = self.contracts["referee"]
        pool, preset = self.config.audit_pool, self.config.preset
        referee = load("Referee").deploy(
            self.contracts["registry"].address,
            tasks.address,
            settlement.address,
            evidence.address,
            operators.address,
            pool,
            self.contracts["admissions"].address,
            preset.move_s,
            preset.side_s,
        )
        self.wire(referee)
        for account in self.accounts.values():
            for name in ("zen", "usd"):
                self.contracts[name].approve(referee.address, 2**256 - 1, sender=account)
        assert double.address != referee.address
        self.evidence = evidence
        self.config = replace(self.config, referee=str(referee.address), part_count=part_count_of)
