"""Elementwise chains and the reductions of their rows as one item each.

Nodes are taken in order. Each joins the newest group that fits: same rows x columns, its operands computed before the
group or at the same place inside it, and some data in common. So the items stay in a valid execution order, and a whole
softmax or AdamW update becomes one group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from repops.graph import Graph, Node, Operand, needed
from repops.operators import TABLE, terms
from repops.plan import lowering
from repops.plan.access import axes_of, split, uniform
from repops.plan.buffer_placement import BufferPlacement, axes_by_dimension, preferred_placements, whole
from repops.plan.fusion_group import OpenGroup, member_argument, one_per_row, order_of_group
from repops.plan.ir import Argument, Group, GroupValue, Instruction, Item, Literal, Memory, Side
from repops.plan.views import read_through_copies

LOOK_BACK = 128  # open groups of one size that a node may join: planning stays linear, whatever the program
REPEATS = 4  # folds that may each compute a map once more: the step stays linear
SMALL_VALUE = 64  # words: groups this small are joined even when they share nothing, to save items


class Fuser:
    def __init__(self, graph: Graph, roots: Iterable[int]) -> None:
        self.roots = set(roots)
        self.nodes: Sequence[Node] = read_through_copies(graph.nodes, needed(graph.nodes, self.roots), self.roots)
        self.needed = needed(self.nodes, self.roots)
        self.items: list[Item] = []
        self.opened: dict[int, OpenGroup] = {}  # by index in items
        self.by_domain: dict[tuple[int, int], list[OpenGroup]] = {}
        self.by_rows: dict[int, list[OpenGroup]] = {}
        self.by_size: dict[int, list[OpenGroup]] = {}  # rows x columns
        self.made_at: dict[int, int] = {}  # node -> the item after which its memory is whole
        self.users = self._users()
        self.wanted = preferred_placements(self.nodes, self.needed, self.users, self.roots)
        self.placed: dict[int, BufferPlacement] = {}
        self.folded = self._folded()

    def run(self) -> list[Item]:
        for at in self._order():
            self._node(at)
        self._store()
        return self.items

    def _users(self) -> dict[int, list[int]]:
        users: dict[int, list[int]] = {}
        for at, node in enumerate(self.nodes):
            if self.needed[at]:
                for source in {operand.node for operand in node.operands}:
                    users.setdefault(source, []).append(at)
        return users

    def _folded(self) -> set[int]:
        """Maps that only folds down the columns read, element by element. They are computed inside those folds."""
        folded: dict[int, int] = {}  # map -> folds that compute it
        for at in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[at]
            if not self.needed[at] or at in self.roots or not TABLE[node.op].is_map or not self.users.get(at):
                continue
            repeats = sum(folded.get(user, 1) for user in self.users[at])
            if repeats <= REPEATS and all(self._folds_whole(user, at, folded) for user in self.users[at]):
                folded[at] = repeats
        return set(folded)

    def _folds_whole(self, user: int, source: int, folded: Collection[int]) -> bool:
        node = self.nodes[user]
        if user not in folded and not self._is_column_fold(node):
            return False
        shape = node.shape + node.reduced
        turned = node.reduced + node.shape if node.reduced else shape
        cut = len(node.shape)
        for operand in node.operands:
            strides = operand.strides[cut:] + operand.strides[:cut] if node.reduced else operand.strides
            if operand.node == source and (
                operand.offset or axes_of(turned, strides) != ((self.nodes[source].elements, 1),)
            ):
                return False
        return True

    def _is_column_fold(self, node: Node) -> bool:
        return TABLE[node.op].is_fold and terms(node) > 0 and node.elements > 0 and lowering.by_columns(node)

    def _order(self) -> Iterator[int]:
        """The graph's order, but small nodes that depend on no large value come first, so updates do not wait for scalars."""
        early: set[int] = set()
        for at, node in enumerate(self.nodes):
            small = node.elements <= SMALL_VALUE and terms(node) <= SMALL_VALUE and node.op not in ("input", "constant")
            if (
                self.needed[at]
                and small
                and all(operand.node in early or not self.nodes[operand.node].operands for operand in node.operands)
            ):
                early.add(at)
        seen = set(early)
        yield from sorted(early)
        sources = {at for at, node in enumerate(self.nodes) if not node.operands}
        later: set[int] = set()  # maps of sources alone wait for their first user, to join its group
        for at, node in enumerate(self.nodes):
            if not self.needed[at] or at in seen:
                continue
            if TABLE[node.op].is_map and all(
                operand.node in sources or operand.node in later for operand in node.operands
            ):
                later.add(at)
            else:
                yield from self._with_later(at, later, seen)
        for at in sorted(later - seen):
            yield from self._with_later(at, later, seen)

    def _with_later(self, at: int, later: set[int], seen: set[int]) -> Iterator[int]:
        """A node, after the waiting nodes that it reads."""
        stack = [at]
        while stack:
            top = stack[-1]
            waiting = [o.node for o in self.nodes[top].operands if o.node in later and o.node not in seen]
            if waiting:
                stack += waiting
                continue
            stack.pop()
            if top not in seen:
                seen.add(top)
                yield top

    def _node(self, at: int) -> None:
        node = self.nodes[at]
        if not node.elements or node.op in ("input", "scalar", "constant"):
            return
        if at in self.folded:
            self.made_at[at] = self._newest(node)
        elif node.op == "dot":
            self._product(at)
        elif node.op in ("copy", "concat") and self._collect(at):
            self.made_at[at] = max(self.made_at.get(at, -1), self._newest(node))
        elif self._is_column_fold(node):
            self._fold(at)
        elif self._fits_a_group(node):
            self._join(at)
        else:
            self._append(at, lowering.items_of(self.nodes, at))

    def _append(self, at: int, items: list[Item]) -> None:
        self.items += items
        self.made_at[at] = len(self.items) - 1

    def _newest(self, node: Node) -> int:
        return max((self.made_at.get(operand.node, -1) for operand in node.operands), default=-1)

    def _collect(self, at: int) -> bool:
        """Emit a copy or concat whose operands were written directly into it; copy only the others.

        False for a copy whose operand lies elsewhere.
        """
        node = self.nodes[at]
        own = self.wanted.get(at) or whole(node, at)
        parts = [n for n in range(len(node.operands)) if node.op == "copy" or node.attributes[1 + n]]
        elsewhere = [n for n in parts if node.operands[n].node not in self.placed]
        if node.op == "copy" and elsewhere:
            return False
        for number in elsewhere:
            self._append(at, [lowering.part(self.nodes, at, number, own)])
        if own.storage != at:
            self.placed[at] = own
        return True

    def _product(self, at: int) -> None:
        product = lowering.product(self.nodes, at)
        place = self.wanted.get(at)
        parts = axes_by_dimension(self.nodes[at].shape, place.axes) if place else None
        if place and parts is not None:
            roles = lowering.roles_of(self.nodes[at])
            pick = [tuple(pair for axis in roles[name] for pair in parts[axis]) for name in ("batch", "row", "column")]
            product.c = Side(place.storage, place.offset, tuple(pick))
            self.placed[at] = place
        self._append(at, [product])

    # --- groups

    def _fits_a_group(self, node: Node) -> bool:
        row = TABLE[node.op]
        if row.is_map or node.op == "iota":
            return True
        if node.op == "take":
            return node.reduced[0] > 0 and self.nodes[node.operands[0].node].op != "scalar"
        return (row.is_fold or node.op == "sum") and terms(node) > 1

    def _join(self, at: int) -> None:
        node = self.nodes[at]
        for candidate in self._candidates(at):
            if self._admit(candidate, at):
                return
        if TABLE[node.op].is_fold or node.op == "sum":
            domain = (node.elements, terms(node))
        else:
            last = node.shape[-1] if node.shape and node.shape[-1] > 1 else node.elements
            domain = (node.elements // last, last)
        fresh = self._open(Group(*domain))
        if not self._admit(fresh, at):
            raise AssertionError(f"node {at} ({node.op}) does not fit a group of its own")

    def _open(self, group: Group) -> OpenGroup:
        opened = OpenGroup(len(self.items), group)
        self.items.append(group)
        self.opened[opened.index] = opened
        self.by_domain.setdefault((group.rows, group.columns), []).append(opened)
        self.by_size.setdefault(group.rows * group.columns, []).append(opened)
        if not group.by_columns:
            self.by_rows.setdefault(group.rows, []).append(opened)
        return opened

    def _candidates(self, at: int) -> list[OpenGroup]:
        """Groups that are late enough, best first: that of the newest operand, then those that share a source."""
        node = self.nodes[at]
        newest = self._newest(node)
        reduces = TABLE[node.op].is_fold or node.op == "sum"
        domain = (node.elements, terms(node))
        sources = {operand.node for operand in node.operands if self.nodes[operand.node].op != "scalar"}
        # Values with a common reader belong together: m, v and p of an update have nothing else in common.
        users = self.users.get(at, ())
        out: list[tuple[bool, int, OpenGroup]] = []
        full = self.by_domain.get(domain, []) if reduces else self.by_size.get(node.elements, [])
        for opened in [*_newest_of(full, newest), *_newest_of(self.by_rows.get(node.elements, []), newest)]:
            group = opened.group
            if group.by_columns or (reduces and (group.rows, group.columns) != domain):
                continue
            if (
                opened.index == newest
                or group.rows * group.columns <= SMALL_VALUE
                or any(source in opened.sources or source in opened.members for source in sources)
                or any(user in opened.users for user in users)
            ):
                out.append((opened.index != newest, -opened.index, opened))
        out.sort(key=lambda each: each[:2])
        return [opened for _, _, opened in out]

    def _admit(self, opened: OpenGroup, at: int) -> bool:
        """Add the node to the group if all its operands are in the group or were computed before it."""
        node, group = self.nodes[at], opened.group
        reduces = TABLE[node.op].is_fold or node.op == "sum"
        full = reduces or node.elements == group.rows * group.columns
        if not full and node.elements != group.rows:
            return False
        arguments = self._arguments(opened, node, full)
        if arguments is None:
            return False
        place = self.wanted.get(at)
        narrow = full and not reduces and group.columns > 1 and self._all_per_row(node, arguments)
        if narrow:
            arguments = [one_per_row(argument) for argument in arguments]
        per_row = not full or narrow
        instruction = Instruction(node.op, at, per_row, arguments)
        if node.op == "take":
            instruction.extent, instruction.stride = node.reduced[0], node.operands[0].strides[-1]
        if place and full and not reduces and split(place.axes, group.columns) is not None:
            self.placed[at] = place
        group.instructions.append(instruction)
        opened.members[at] = per_row or reduces
        opened.users.update(self.users.get(at, ()))
        opened.sources |= {a.node for a in arguments if isinstance(a, Memory)}
        self.made_at[at] = opened.index
        return True

    def _all_per_row(self, node: Node, arguments: list[Argument]) -> bool:
        if node.op in ("take", "iota"):
            return False
        return all(
            isinstance(a, Literal)
            or (isinstance(a, GroupValue) and a.per_row)
            or (isinstance(a, Memory) and uniform(a.columns))
            for a in arguments
        )

    def _arguments(self, opened: OpenGroup, node: Node, full: bool) -> list[Argument] | None:
        out: list[Argument] = []
        if node.op == "iota":
            axes = axes_of(node.shape, [int(axis == node.attributes[0]) for axis in range(len(node.shape))])
            cut = split(axes, opened.group.columns) if full else (axes, ())
            return [Memory(-1, 0, *cut)] if cut else None
        for number, operand in enumerate(node.operands):
            indexed = node.op == "take" and number == 0
            argument = self._argument(opened, node, operand, full, indexed)
            if argument is None:
                return None
            out.append(argument)
        return out

    def _argument(self, opened: OpenGroup, node: Node, operand: Operand, full: bool, indexed: bool) -> Argument | None:
        word = lowering.literal(self.nodes, operand)
        if word is not None:
            return word
        shape = node.shape if TABLE[node.op].name == "take" else node.shape + node.reduced
        strides = operand.strides[: len(shape)]
        group = opened.group
        axes = order_of_group(node, shape, strides, group)
        if operand.node in opened.members:
            return (
                member_argument(opened, operand, axes, full)
                if not indexed
                else self._picked(opened, node, operand, full)
            )
        if self.made_at.get(operand.node, -1) >= opened.index:
            return None
        cut = split(axes, group.columns) if full else (axes, ())
        return Memory(operand.node, operand.offset, *cut) if cut else None

    def _picked(self, opened: OpenGroup, node: Node, operand: Operand, full: bool) -> Argument | None:
        """`take` of one word from each row that the group has just made."""
        whole = axes_of(node.shape + node.reduced, operand.strides) == ((opened.group.rows * opened.group.columns, 1),)
        if full or not whole or operand.offset or opened.members[operand.node]:
            return None
        return GroupValue(operand.node, False)

    # --- folds down the columns

    def _fold(self, at: int) -> None:
        node = self.nodes[at]
        domain = (terms(node), node.elements)
        sources = {operand.node for operand in node.operands}
        newest = self._newest(node)
        for opened in _newest_of(self.by_domain.get(domain, []), newest + 1):
            if opened.group.by_columns and not sources.isdisjoint(opened.sources | opened.members.keys()):
                self._fold_into(opened, at)
                return
        self._fold_into(self._open(Group(*domain, by_columns=True)), at)

    def _fold_into(self, opened: OpenGroup, at: int) -> None:
        self._pull(opened, at)
        assert self._admit_fold(opened, at)

    def _pull(self, opened: OpenGroup, at: int) -> None:
        """Compute in this group the maps that only folds read, operands first."""
        stack = [at]
        while stack:
            top = stack[-1]
            waiting = [
                o.node for o in self.nodes[top].operands if o.node in self.folded and o.node not in opened.members
            ]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            if top != at and top not in opened.members:
                assert self._admit_fold(opened, top)

    def _admit_fold(self, opened: OpenGroup, at: int) -> bool:
        arguments = self._arguments(opened, self.nodes[at], True)
        if arguments is None:
            return False
        opened.group.instructions.append(Instruction(self.nodes[at].op, at, False, arguments))
        opened.members[at] = False
        opened.sources |= {a.node for a in arguments if isinstance(a, Memory)}
        self.made_at[at] = max(opened.index, self.made_at.get(at, -1)) if at not in self.folded else self.made_at[at]
        return True

    # --- what goes to memory

    def _store(self) -> None:
        read = {node for item in self.items for node in item.reads()} | self.roots
        for opened in self.opened.values():
            group = opened.group
            for instruction in group.instructions:
                at = instruction.node
                place = self.placed.get(at)
                if place is None and at not in read:
                    continue
                storage, offset = (place.storage, place.offset) if place else (at, 0)
                axes = place.axes if place else axes_of((self.nodes[at].elements,), (1,))
                is_fold = TABLE[instruction.op].is_fold or instruction.op == "sum"
                if group.by_columns and is_fold:
                    group.stores[at] = Memory(storage, offset, (), axes)
                elif self.nodes[at].elements == group.rows and (instruction.per_row or is_fold):
                    group.stores[at] = Memory(storage, offset, axes, ())
                else:
                    cut = split(axes, group.columns)
                    assert cut is not None
                    group.stores[at] = Memory(storage, offset, *cut)


def _newest_of(groups: Sequence[OpenGroup], least: int) -> list[OpenGroup]:
    """The newest LOOK_BACK groups, newest first, without those of an index below `least`."""
    return [opened for opened in islice(reversed(groups), LOOK_BACK) if opened.index >= least]
