"""A custodians' checkpoint is not posted where another RPC does not see the same chain."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions.custody_signatures import Heard
from keepers.decisions.custody_statements import CHECKPOINT, Signed, Statement
from keepers.services import custody, second_look
from keepers.services.custody import Custody
from keepers.services.second_look import SecondLook
from tests.keepers.test_custody import TURN, WHOLE
from tests.keepers.test_custody import custody as held
from tests.keepers.test_duties import AGGREGATOR, OPENED, view
from tests.keepers.test_duties import ROOT as START
from zoo_compute.errors import RpcsDisagree
from zoo_compute.spec.custodians import Record
from zoo_compute.store.cid import digest_of, raw_cid

HEAD, POINTER = SimpleNamespace(number=5, hash=b"1"), raw_cid(START)


class Place:
    """The aggregator of a job whose custodians hold what it proposes. other: the newest block that another RPC shows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Any] = []
        self.other: Any = HEAD
        post = lambda *args: SimpleNamespace(contract="Custody", function="post_checkpoint", args=args)  # noqa: E731
        chain: Any = SimpleNamespace(
            params=SimpleNamespace(answer_s=60),
            custody=SimpleNamespace(post_checkpoint=post),
            network=SimpleNamespace(rpcs=("first", "second")),
            head=lambda block: HEAD,
        )
        monkeypatch.setattr(second_look, "over_other_rpcs", lambda _: [SimpleNamespace(head=lambda _: self.other)])
        monkeypatch.setattr(second_look, "shows_same_job", lambda *_: True)
        record = Record(TURN, 1, mask=0b111, inputs=0b111, signed_at=OPENED)
        monkeypatch.setattr(custody, "read_custody", lambda *_: held(records={TURN: record}))
        value = (START + digest_of(POINTER)).hex()
        heard = Heard({}, {place: Signed(CHECKPOINT, TURN, value) for place in range(3)})
        monkeypatch.setattr(Custody, "_heard", lambda *_: heard)
        statements: Any = SimpleNamespace(mine=Statement, publish=lambda said: None)
        sender: Any = SimpleNamespace(send=self.sent.append)
        look = SecondLook(chain)
        nobody: Any = SimpleNamespace()
        self.made = Custody(
            chain,
            sender,
            nobody,
            nobody,
            statements,
            second_look=look,
            operator=AGGREGATOR,
            turn_s=1,
        )

    def propose(self) -> None:
        seen = view(OPENED, run=replace(WHOLE, turn=TURN, aggregator=AGGREGATOR, aggregator_due=OPENED + 900))
        self.made.propose(seen, 0b111, START, POINTER)


def test_a_checkpoint_that_custodians_hold__is_posted_once_the_rpcs_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch)
    place.other = SimpleNamespace(number=5, hash=b"2")
    with pytest.raises(RpcsDisagree, match=r"Custody\.post_checkpoint waits"):
        place.propose()
    assert place.sent == []
    place.other = HEAD
    place.propose()
    [call] = place.sent
    assert call.args[1:5] == (TURN, 0b111, START, digest_of(POINTER))
