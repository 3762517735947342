"""The structs of repops/native/vm.h, filled from items once every node's memory has an address."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from repops.operators import TABLE
from repops.plan import ir
from repops.plan.access import Axes, size, stride_of, table_of, uniform

I64, POINTER = ctypes.c_int64, ctypes.c_void_p


class Steps(ctypes.Structure):
    _fields_ = [("stride", I64), ("table", POINTER)]


class Operand(ctypes.Structure):
    _fields_ = [
        ("where", I64),
        ("base", POINTER),
        ("rows", Steps),
        ("columns", Steps),
        ("slot", I64),
        ("word", ctypes.c_uint64),
    ]


class Instruction(ctypes.Structure):
    _fields_ = [
        ("code", I64), ("per_row", I64), ("last", I64), ("out", Operand), ("inputs", Operand * 3), ("extent", I64), ("stride", I64),
    ]  # fmt: skip


class Item(ctypes.Structure):
    _fields_ = [
        *((name, I64) for name in ("kind", "barrier", "owner", "rows", "columns", "tile_rows", "tile_columns")),
        *((name, I64) for name in ("in_order", "slots", "count")),
        ("instructions", POINTER), ("detail", POINTER),
    ]  # fmt: skip


class Gemm(ctypes.Structure):
    _fields_ = [
        *((name, I64) for name in ("batches", "M", "N", "K")),
        *(
            pair
            for side in "abc"
            for pair in (
                (side, POINTER), (f"{side}_batch", POINTER), (f"{side}_batch_stride", I64), (f"{side}_rows", POINTER),
                (f"{side}_row_stride", I64), (f"{side}_cols", POINTER), (f"{side}_col_stride", I64),
            )
        ),
    ]  # fmt: skip


class Scatter(ctypes.Structure):
    _fields_ = [
        *((name, I64) for name in ("others", "terms", "extent", "row_stride", "adds", "same_index")),
        ("out", POINTER), ("out_others", Steps), ("index", POINTER), ("index_others", Steps), ("index_terms", Steps),
        ("source", POINTER), ("source_others", Steps), ("source_terms", Steps),
    ]  # fmt: skip


class Rank(ctypes.Structure):
    _fields_ = [
        *((name, I64) for name in ("others", "extent", "same_rivals")),
        ("own", POINTER), ("own_others", Steps), ("own_stride", I64),
        ("rivals", POINTER), ("rivals_others", Steps), ("rivals_own_stride", I64), ("rivals_stride", I64),
        ("out", POINTER), ("out_others", Steps), ("out_stride", I64),
    ]  # fmt: skip


STRUCTS = (Operand, Instruction, Item, Gemm, Scatter, Rank)
NOWHERE, MEMORY, SLOT, ROW_SLOT, LITERAL = range(5)
LOAD, STORE, TAKE, ADDRESS, SUM_ROW, FOLD_ROW, FOLD_COLUMNS = range(200, 207)
GROUP, COLUMNS, PRODUCT, SCATTER, RANK = range(5)

TILE = 4096  # words of a slot: a few slots fit the first cache, all of them the second
WIDEST = 16384  # columns up to which a tile holds whole rows wherever a reduction needs them in order
STRIP = 128  # columns of a tile that is folded down
SERIAL = 8192  # words below which several threads cost more than they save
WORD = 4

Address = Callable[[int], int]


class Encoder:
    """Keeps alive what the structs point to."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.kept: list[object] = []

    def encode(self, items: Sequence[ir.Item], barriers: Sequence[bool]) -> ctypes.Array[Item]:
        """One array for one native call."""
        out = (Item * len(items))()
        turn = 0
        for to, item, barrier in zip(out, items, barriers, strict=True):
            to.barrier, to.owner = int(barrier), -1
            if isinstance(item, ir.Group):
                GroupWriter(self, item).write(to)
                if item.rows * item.columns <= SERIAL:
                    to.owner, turn = turn, turn + 1
            elif isinstance(item, ir.Product):
                to.kind, to.detail = PRODUCT, self._product(item)
            elif isinstance(item, ir.Scatter):
                to.kind, to.detail = SCATTER, self._scatter(item)
            else:
                to.kind, to.detail = RANK, self._rank(item)
        self.kept.append(out)
        return out

    def steps(self, axes: Axes) -> Steps:
        stride = stride_of(axes)
        if stride is not None:
            return Steps(stride, None)
        table = table_of(axes)
        self.kept.append(table)
        return Steps(0, table.ctypes.data)

    def keep(self, struct: ctypes.Structure | ctypes.Array) -> int:  # type: ignore[type-arg]
        self.kept.append(struct)
        return ctypes.addressof(struct)

    def at(self, side: ir.Side) -> int:
        return self.address(side.node) + WORD * side.offset

    def _product(self, item: ir.Product) -> int:
        gemm = Gemm(*item.sizes)
        for name, side in (("a", item.a), ("b", item.b), ("c", item.c)):
            setattr(gemm, name, self.at(side))
            for suffix, axes in zip(("batch", "row", "col"), side.parts, strict=True):
                steps = self.steps(axes)
                setattr(gemm, f"{name}_{suffix}_stride", steps.stride)
                setattr(gemm, f"{name}_{suffix if suffix == 'batch' else suffix + 's'}", steps.table)
        return self.keep(gemm)

    def _scatter(self, item: ir.Scatter) -> int:
        (out,), (index, index_terms), (source, source_terms) = item.out.parts, item.index.parts, item.source.parts
        return self.keep(
            Scatter(
                item.others, item.terms, item.extent, item.row_stride, int(item.adds), int(uniform(index)),
                self.at(item.out), self.steps(out), self.at(item.index), self.steps(index), self.steps(index_terms),
                self.at(item.source), self.steps(source), self.steps(source_terms),
            )
        )  # fmt: skip

    def _rank(self, item: ir.Rank) -> int:
        own, by_own, along, out = item.strides
        return self.keep(
            Rank(
                item.others, item.extent, int(by_own == 0), self.at(item.own), self.steps(item.own.parts[0]), own,
                self.at(item.rivals), self.steps(item.rivals.parts[0]), by_own, along,
                self.at(item.out), self.steps(item.out.parts[0]), out,
            )
        )  # fmt: skip


REDUCTIONS = (SUM_ROW, FOLD_ROW)


class GroupWriter:
    """One group's instructions: odd strides are loaded into slots first and stored from slots last."""

    def __init__(self, encoder: Encoder, group: ir.Group) -> None:
        self.encoder, self.group = encoder, group
        self.out: list[Instruction] = []
        self.free: list[int] = []
        self.slots = 0
        self.made: dict[int, Operand] = {}  # node -> where later instructions of this group read it
        self.slot_of: dict[int, int] = {}  # node -> slot
        self.reductions = 0
        self.late: set[int] = set()  # nodes that exist only once a row's reduction is done
        last_use = {
            argument.node: at
            for at, instruction in enumerate(group.instructions)
            for argument in instruction.arguments
            if isinstance(argument, ir.GroupValue)
        }
        self.ending: dict[int, list[int]] = {}  # instruction -> nodes that no later one reads
        for at, instruction in enumerate(group.instructions):
            self.ending.setdefault(last_use.get(instruction.node, at + 1), []).append(instruction.node)

    def write(self, to: Item) -> None:
        for at, instruction in enumerate(self.group.instructions):
            self._instruction(at, instruction)
        array = (Instruction * len(self.out))(*self.out)
        to.kind = COLUMNS if self.group.by_columns else GROUP
        to.rows, to.columns = self.group.rows, self.group.columns
        to.tile_rows, to.tile_columns, to.in_order = self._tiles()
        to.slots, to.count, to.instructions = self.slots, len(array), self.encoder.keep(array)

    def _tiles(self) -> tuple[int, int, int]:
        rows, columns = self.group.rows, self.group.columns
        if self.group.by_columns:
            wide = min(columns, STRIP)
            return max(1, min(rows, TILE // wide)), wide, 0
        if any(each.code in REDUCTIONS for each in self.out):
            again = any(each.last and not each.per_row for each in self.out)
            if columns > WIDEST and not again:
                return 1, TILE, 1
            return max(1, min(rows, TILE // columns)), columns, 1
        odd = any(each.code in (LOAD, STORE) and not each.per_row for each in self.out)
        wide = min(columns, 64 if odd and rows > 1 else TILE)
        return max(1, min(rows, TILE // wide)), wide, 0

    def _slot(self) -> int:
        if self.free:
            return self.free.pop()
        self.slots += 1
        return self.slots - 1

    def _emit(
        self,
        code: int,
        per_row: bool,
        out: Operand,
        inputs: Sequence[Operand],
        *,
        late: bool,
        extent: int = 0,
        stride: int = 0,
    ) -> None:
        instruction = Instruction(code, int(per_row), int(late), out)
        for at, operand in enumerate(inputs):
            instruction.inputs[at] = operand
        instruction.extent, instruction.stride = extent, stride
        self.out.append(instruction)

    def memory(self, memory: ir.Memory) -> Operand:
        base = self.encoder.address(memory.node) + WORD * memory.offset
        return Operand(MEMORY, base, self.encoder.steps(memory.rows), self.encoder.steps(memory.columns))

    def _argument(
        self, argument: ir.Argument, per_row: bool, whole: bool, temporary: list[tuple[int, bool]]
    ) -> Operand:
        """whole: a word per element is needed, side by side, as by a reduction."""
        if isinstance(argument, ir.Literal):
            operand = Operand(where=LITERAL, word=argument.word)
        elif isinstance(argument, ir.GroupValue):
            operand = self.made[argument.node]
        else:
            operand = self.memory(argument)
        if not self._is_odd(operand, per_row, whole):
            return operand
        slot = self._slot()
        temporary.append((slot, per_row))
        loaded = Operand(where=ROW_SLOT if per_row else SLOT, slot=slot)
        late = isinstance(argument, ir.GroupValue) and argument.node in self.late
        self._emit(LOAD, per_row, loaded, [operand], late=late)
        return loaded

    def _is_odd(self, operand: Operand, per_row: bool, whole: bool) -> bool:
        if operand.where == MEMORY:
            if per_row:
                return bool(operand.rows.table) or operand.rows.stride not in (0, 1)
            return bool(operand.columns.table) or operand.columns.stride not in ((1,) if whole else (0, 1))
        return whole and operand.where != SLOT

    def _instruction(self, at: int, instruction: ir.Instruction) -> None:
        op, row = instruction.op, TABLE[instruction.op]
        reduces = op == "sum" or row.is_fold
        temporary: list[tuple[int, bool]] = []
        late = any(isinstance(a, ir.GroupValue) and a.node in self.late for a in instruction.arguments)
        if op == "take":
            inputs = [self._plain(argument) for argument in instruction.arguments]
        elif op == "iota":
            memory = instruction.arguments[0]
            assert isinstance(memory, ir.Memory)
            inputs = [
                Operand(
                    MEMORY, None, self.encoder.steps(memory.rows), self.encoder.steps(memory.columns), 0, memory.offset
                )
            ]
        else:
            whole = reduces and not self.group.by_columns
            inputs = [self._argument(a, instruction.per_row, whole, temporary) for a in instruction.arguments]
        code = row.code
        extent, stride = instruction.extent, instruction.stride
        if op == "take":
            code = TAKE
        elif op == "iota":
            code = ADDRESS
        elif reduces:
            code = FOLD_COLUMNS if self.group.by_columns else SUM_ROW if op == "sum" else FOLD_ROW
            extent, stride = row.code, self.reductions
            self.reductions += 1
        if late or (reduces and not self.group.by_columns):
            self.late.add(instruction.node)
        gone = self._let_go(at, temporary)
        gives_row = instruction.per_row or (reduces and not self.group.by_columns)
        # Every kernel reads a word before it writes it, so the output may reuse the slot of an operand that is read for
        # the last time. But a per-row word must survive until the whole row is written.
        self.free += [slot for slot, is_row in gone if gives_row or not is_row]
        self._output(instruction, code, inputs, late=late, extent=extent, stride=stride, gives_row=gives_row)
        self.free += [slot for slot, is_row in gone if is_row and not gives_row]

    def _plain(self, argument: ir.Argument) -> Operand:
        if isinstance(argument, ir.Literal):
            return Operand(where=LITERAL, word=argument.word)
        return self.made[argument.node] if isinstance(argument, ir.GroupValue) else self.memory(argument)

    def _let_go(self, at: int, temporary: list[tuple[int, bool]]) -> list[tuple[int, bool]]:
        """Slots that instruction `at` is the last to read, and whether they hold one word per row."""
        gone = list(temporary)
        for node in self.ending.get(at, ()):
            if node in self.slot_of:
                gone.append((self.slot_of.pop(node), self.made[node].where == ROW_SLOT))
        return gone

    def _output(
        self,
        instruction: ir.Instruction,
        code: int,
        inputs: list[Operand],
        *,
        late: bool,
        extent: int,
        stride: int,
        gives_row: bool,
    ) -> None:
        node, per_row = instruction.node, instruction.per_row
        stored = self.group.stores.get(node)
        target = self.memory(stored) if stored is not None else None
        repeated = gives_row and stored is not None and size(stored.columns) > 1  # one word fills a whole row
        if target is not None and not repeated and self._can_write(target, gives_row):
            if not gives_row:
                target.columns.stride = 1
            self._emit(code, per_row, target, inputs, late=late, extent=extent, stride=stride)
            self.made[node] = target
            return
        slot = self._slot()
        place = Operand(where=ROW_SLOT if gives_row else SLOT, slot=slot)
        self._emit(code, per_row, place, inputs, late=late, extent=extent, stride=stride)
        self.made[node] = place
        self.slot_of[node] = slot
        if target is not None:
            self._emit(STORE, gives_row and not repeated, target, [place], late=late or node in self.late)

    def _can_write(self, target: Operand, gives_row: bool) -> bool:
        if gives_row:
            return not target.rows.table and (target.rows.stride == 1 or self.group.rows == 1)
        return not target.columns.table and (target.columns.stride == 1 or self.group.columns == 1)
