"""What an operator lost, counted from the chain's events across restarts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from zoo_compute.atomic import write_atomically
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import scan

EVENTS = ("CollateralSlashed", "StakeSlashed")
FILE = "slashes.json"  # in the operator's folder
UNDONE_BLOCKS = 128  # so many are read again, as a reorganisation may have moved an event into another block


@dataclass
class Slashes:
    """since: the first block that counts; 0 before the first look. next_block: the first one that was never read. recent: events of
    the blocks that are read again, with their blocks."""

    since: int = 0
    next_block: int = 0
    count: int = 0
    amounts: dict[str, int] = field(default_factory=dict)  # by token, in its smallest unit
    recent: dict[str, int] = field(default_factory=dict)


class SlashCounter:
    """Losses since the folder's first look; also those of the time in which nothing ran."""

    def __init__(self, chain: Chain, operator: int, folder: Path) -> None:
        self._chain = chain
        self._operator = operator
        self._path = folder / FILE
        self.total = self._read()

    def look(self, head: int) -> Slashes:
        """Count what is new up to the block `head`."""
        known = self.total
        known.since = known.since or head + 1
        first = max(known.next_block - UNDONE_BLOCKS, known.since)
        for event in scan(self._chain, first, head, names=EVENTS, operator=self._operator):
            token = str(event.args.get("token", self._chain.network.contracts["zen"]))
            key = f"{event.tx} {event.name} {token} {event.args['amount']}"
            if key not in known.recent and event.args["amount"]:
                known.count += 1
                known.amounts[token] = known.amounts.get(token, 0) + int(event.args["amount"])
            known.recent[key] = event.block
        known.next_block = head + 1
        known.recent = {key: block for key, block in known.recent.items() if block > head - UNDONE_BLOCKS}
        write_atomically(self._path, json.dumps(asdict(known)).encode(), mode=0o600)
        return known

    def _read(self) -> Slashes:
        try:
            return Slashes(**json.loads(self._path.read_text()))
        except (OSError, ValueError, TypeError):  # none yet, or of a folder that was damaged: counting starts anew
            return Slashes()
