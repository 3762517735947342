"""Each rank's groups as graphs of their own, the messages between them, and the memory of values between stages.

A value that outlives its stage has a place in the rank's arena until its last reader. The place begins with the stage that
computes it or, for a received value, with the stage before its first reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from repops.graph import BUFFER, STATE_ROLE, Graph, Node, StateEntry
from repops.parallel.placement import PlacedProgram, is_free, resent
from repops.parallel.schedule import Group, schedule
from repops.plan.memory import FreeList, rounded


@dataclass(frozen=True)
class Message:
    """Values that one stage of `source` makes and `target` needs, in one piece: of nodes[i] the words from offsets[i].

    A tensor of the state is a message of its own, sent from where it lies, before the first stage.
    """

    tag: int
    source: int
    target: int
    nodes: tuple[int, ...]
    offsets: tuple[int, ...]
    words: int
    of_state: bool


@dataclass(frozen=True)
class Stage:
    """graph: its state entries are named by nodes of the placed graph; the entries it changes are its results.

    receives: messages that this stage is the first to need. sends: messages that it completes. overwrites: tensors of the
    state that it writes the new value of.
    """

    graph: Graph
    receives: tuple[Message, ...]
    sends: tuple[Message, ...]
    overwrites: tuple[int, ...]


@dataclass(frozen=True)
class RankProgram:
    """state: entries of the placed graph -> the node of what this rank holds of it. batch: names -> node, of what it reads.

    kept: shape and dtype by node, of everything that stages read or leave. places: words into the arena, by node and by
    message (-1 - tag). resent: names under which tensors of the state are sent once more. at_end: (new value, node of the
    state), copied after the last stage. loss: the loss's node, if this rank computes it.
    """

    rank: int
    stages: tuple[Stage, ...]
    state: dict[str, int]
    batch: dict[str, int]
    kept: dict[int, Node]
    places: dict[int, int]
    arena_words: int
    first_sends: tuple[Message, ...]
    resent: dict[int, int]
    at_end: tuple[tuple[int, int], ...]
    loss: int | None


def name_of(at: int) -> str:
    return f"{at:07d}"


def step_of(placed: PlacedProgram) -> list[RankProgram]:
    """Of a whole step, for each rank."""
    graph = placed.graph
    changed = {e.after: e.before for e in graph.state if e.after != e.before}
    return _Cut(placed, [graph.loss, *changed], changed).programs()


def loss_of(placed: PlacedProgram) -> list[RankProgram]:
    """Of the loss alone; the state stays."""
    return _Cut(placed, [placed.graph.loss], {}).programs()


class _Cut:
    def __init__(self, placed: PlacedProgram, roots: Sequence[int], changed: dict[int, int]) -> None:
        self.placed, self.graph, self.changed = placed, placed.graph, changed
        self.order = schedule(placed, roots)
        self.resent = resent(placed)
        self.of_rank: list[list[Group]] = [[g for g in self.order if g.rank == r] for r in range(placed.ranks)]
        self.maker = {at: group for group in self.order for at in group.nodes}
        self.readers: dict[int, list[Group]] = {}  # in the order in which they start
        for group in self.order:
            for source in {o.node for at in group.nodes for o in self.graph.nodes[at].operands}:
                if self.maker.get(source) is not group:
                    self.readers.setdefault(source, []).append(group)
        self.index = {id(group): at for groups in self.of_rank for at, group in enumerate(groups)}
        self.messages = self._messages()
        self.in_place = {after: before for after, before in changed.items() if self._may_overwrite(after, before)}

    def _messages(self) -> list[Message]:
        """By the stage that makes them, or a tensor of the state each by itself; and by target."""
        packed: dict[tuple[int, int], list[int]] = {}
        for at in sorted(self.readers):
            owner = self.placed.owner[at]
            if owner is None:
                continue
            for target in sorted({group.rank for group in self.readers[at]} - {owner}):
                made = self.maker[at].start if at in self.maker else -1 - at
                packed.setdefault((made, target), []).append(at)
        out: list[Message] = []
        for (made, target), nodes in packed.items():
            source = self.placed.owner[nodes[0]]
            assert source is not None
            offsets, end = [], 0
            for at in nodes:
                offsets.append(end)
                end += rounded(4 * self.graph.nodes[at].elements) // 4
            words = self.graph.nodes[nodes[0]].elements if made < 0 else end
            out.append(Message(len(out), source, target, tuple(nodes), tuple(offsets), words, made < 0))
        return out

    def _may_overwrite(self, after: int, before: int) -> bool:
        """Whether the new value can overwrite the old: all readers of the old one have started, and nothing reads the new one."""
        maker = self.maker[after]
        if self.placed.owner[before] != maker.rank or self.readers.get(after) or after == self.graph.loss:
            return False
        old = [before, *(at for at, source in self.resent.items() if source == before)]
        return all(reader.start <= maker.start for at in old for reader in self.readers.get(at, ()))

    def programs(self) -> list[RankProgram]:
        return [self._program(rank) for rank in range(self.placed.ranks)]

    def _program(self, rank: int) -> RankProgram:
        groups = self.of_rank[rank]
        mine = {at for group in groups for at in group.nodes}
        state = {e.name: e.before for e in self.graph.state if self.placed.owner[e.before] == rank}
        moved = tuple((a, b) for a, b in self.changed.items() if a in mine and a not in self.in_place)
        sends = [m for m in self.messages if m.source == rank]
        left = self._left(mine, {a for a, _ in moved}, sends)
        received = [m for m in self.messages if m.target == rank]
        first: dict[int, list[Message]] = {}
        for message in received:
            first.setdefault(min(self._needed_at(rank, at)[0] for at in message.nodes), []).append(message)
        stages = tuple(
            self._stage(
                group, left, tuple(first.get(at, ())), tuple(m for m in sends if self.maker.get(m.nodes[0]) is group)
            )
            for at, group in enumerate(groups)
        )
        places, words = self._places(rank, left, first, {a for a, _ in moved})
        batch_nodes = {at for stage in stages for at in _names(stage.graph)}
        batch = {name: at for name, at in self.graph.batch if at in batch_nodes}
        kept = {at: self.graph.nodes[at] for at in {*batch_nodes, *state.values()}}
        first_sends = tuple(m for m in sends if m.of_state)
        loss = self.graph.loss if self.graph.loss in mine else None
        resent = {m.nodes[0]: self.resent[m.nodes[0]] for m in first_sends if m.nodes[0] in self.resent}
        return RankProgram(rank, stages, state, batch, kept, places, words, first_sends, resent, moved, loss)

    def _left(self, mine: set[int], moved: set[int], sends: list[Message]) -> set[int]:
        """Values that outlive their stage."""
        read = {at for at in mine if any(g is not self.maker[at] for g in self.readers.get(at, ()))}
        sent = {at for message in sends for at in message.nodes if at in mine}
        return read | sent | moved | ({self.graph.loss} & mine)

    def _needed_at(self, rank: int, at: int) -> tuple[int, int]:
        """First and last of the rank's stages that read a value."""
        readers = [self.index[id(group)] for group in self.readers.get(at, ()) if group.rank == rank]
        return (readers[0], readers[-1]) if readers else (-1, -1)

    def _places(
        self, rank: int, left: set[int], first: dict[int, list[Message]], forever: set[int]
    ) -> tuple[dict[int, int], int]:
        """Places in the arena. A message that is received is waited for from the stage before its first reader."""
        groups, free = self.of_rank[rank], FreeList()
        places: dict[int, int] = {}
        ends: dict[int, list[tuple[int, int]]] = {}

        def take(key: int, size: int, until: int) -> None:
            places[key] = free.take(rounded(size)) // 4
            ends.setdefault(until, []).append((4 * places[key], rounded(size)))

        for at, group in enumerate(groups):
            arriving = [m for when in ((0, 1) if at == 0 else (at + 1,)) for m in first.get(when, ())]
            for message in arriving:
                until = max(self._needed_at(rank, node)[1] for node in message.nodes)
                take(-1 - message.tag, 4 * message.words, until)
                for node, offset in zip(message.nodes, message.offsets, strict=True):
                    places[node] = places[-1 - message.tag] + offset
            for node in group.nodes:
                if node in left:
                    until = (
                        len(groups) if node in forever or node == self.graph.loss else self._needed_at(rank, node)[1]
                    )
                    take(node, 4 * self.graph.nodes[node].elements, max(until, at))
            for offset, size in ends.get(at, ()):
                free.release(offset, size)
        return places, free.top // 4

    def _stage(self, group: Group, left: set[int], receives: tuple[Message, ...], sends: tuple[Message, ...]) -> Stage:
        overwritten = {at: self.in_place[at] for at in group.nodes if at in self.in_place}
        made = _stage_graph(self.graph, group.nodes, [at for at in group.nodes if at in left], overwritten)
        return Stage(made, receives, sends, tuple(overwritten.values()))


def _names(graph: Graph) -> set[int]:
    return {int(entry.name) for entry in graph.state}


@dataclass
class _Written:
    """A graph of some nodes of another; `number` maps the other's nodes."""

    whole: Graph
    nodes: list[Node] = field(default_factory=list)
    constants: dict[int, bytes] = field(default_factory=dict)
    number: dict[int, int] = field(default_factory=dict)

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1


def _stage_graph(graph: Graph, members: list[int], left: list[int], overwritten: dict[int, int]) -> Graph:
    """The graph of one stage. Its state: the inputs it reads, unchanged, and the values it leaves or overwrites."""
    inside = set(members)
    read = {operand.node for at in members for operand in graph.nodes[at].operands} - inside
    inputs = {at for at in read if not is_free(graph.nodes[at]) or graph.nodes[at].op == "input"}
    out = _Written(graph)
    before: dict[int, int] = {}
    entries = sorted({*inputs, *left, *overwritten.values()})
    for position, at in enumerate(entries):
        node = graph.nodes[at]
        before[at] = out.add(Node("input", node.dtype, node.shape, attributes=(STATE_ROLE, position)))
        if at in inputs:
            out.number[at] = before[at]
    for at in sorted((read - inputs) | inside):
        node = graph.nodes[at]
        if node.op == "constant":
            out.constants[len(out.nodes)] = graph.constants[at]
        operands = tuple(replace(o, node=out.number[o.node]) for o in node.operands)
        out.number[at] = out.add(replace(node, operands=operands))
    after = {at: before[at] for at in inputs} | {at: out.number[at] for at in left}
    after |= {old: out.number[new] for new, old in overwritten.items()}
    state = tuple(StateEntry(name_of(at), BUFFER, before[at], after[at]) for at in entries)
    loss = out.add(Node("scalar", "f32", (), attributes=(0,)))
    return Graph(tuple(out.nodes), state, (), loss, out.constants)
