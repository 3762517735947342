"""From torch's operators to nodes: one function per operator, registered under its aten name in the family files.

A lowering takes the context, the torch.fx node and the node's arguments (Values and Python numbers) and gives Values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import fx

from repops.builder import Builder, Scalar, View, broadcast
from repops.graph import F32, I32, MAX_RANK
from repops.tracing.refusals import TraceRefused, dtype_hint, hint_of, user_name
from repops.tracing.value import Axis, Value, merged, refine

Lowering = Callable[..., Any]
LoweringT = TypeVar("LoweringT", bound=Lowering)
LOWERINGS: dict[str, Lowering] = {}
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def lowers(*names: str) -> Callable[[LoweringT], LoweringT]:
    """Register a lowering for aten operators, by name without overload."""

    def register(function: LoweringT) -> LoweringT:
        for name in names:
            assert name not in LOWERINGS, name
            LOWERINGS[name] = function
        return function

    return register


def dtype_of(dtype: torch.dtype) -> str:
    """The word type that holds a torch dtype. Raises TraceRefused."""
    if dtype == torch.float32:
        return F32
    if dtype in INTEGERS:
        return I32
    raise TraceRefused(f"a tensor of {dtype}", hint=dtype_hint(dtype))


@dataclass
class Context:
    """State shared by lowerings: the builder, the index checks so far, and facts about some nodes.

    facts: what a lowering notes about a value for a later one, under (kind, value). random: gives the bits of a site.
    """

    builder: Builder
    random: Callable[[Sequence[int]], Value]
    checks: list[Value] = field(default_factory=list)
    facts: dict[tuple[str, Value], Any] = field(default_factory=dict)
    environment: dict[fx.Node, Any] = field(default_factory=dict)

    # --- scalars and elementwise nodes

    def scalar(self, value: Scalar, dtype: str) -> Value:
        if dtype == I32 and not -(1 << 31) <= int(value) < 1 << 32:
            raise TraceRefused(f"the integer {value} does not fit 32 bits", hint="keep integers below 2^31")
        return Value.of(self.builder.scalar(value, dtype))

    def map(self, op: str, *arguments: Value | Scalar, dtype: str | None = None) -> Value:
        """An elementwise node over broadcast arguments, row-major; axes along which no argument varies are computed once."""
        values = [a for a in arguments if isinstance(a, Value)]
        shape = broadcast(*(value.shape for value in values), ())
        cores = [value.without_broadcast for value in values]
        small = broadcast(*(core.shape for core in cores), ())
        views = iter(self.together([core.expand(small) for core in cores]))
        operands = [next(views) if isinstance(a, Value) else a for a in arguments]
        node = Value.of(self.builder.map(op, *operands, dtype=dtype))
        result = self.reshape(node, small).expand(shape)
        if op == "mul":
            self.facts["product", result] = arguments
        return result

    def together(self, values: Sequence[Value]) -> list[View]:
        """Views of one shape of values of one shape; copies are made only where runs do not nest."""
        plain = all(value.is_plain for value in values)
        if not plain:
            refined = refine_all(values)
            values = [self.plain(value) for value in values] if refined is None else refined
        return [value.view for value in values]

    def plain(self, value: Value) -> Value:
        """The value with one run per axis: itself, or a copy."""
        if value.is_plain:
            return value
        copied = self._copied(value).reshape(value.shape)
        assert copied is not None
        return copied

    def _copied(self, value: Value) -> Value:
        """All elements in a row. Runs beyond the table's rank are copied one by one."""
        runs = merged(value.axes)
        if len(runs) <= MAX_RANK:
            view = View(value.node, value.dtype, tuple(e for e, _ in runs), value.offset, tuple(s for _, s in runs))
            return Value.of(self.builder.copy(view))
        (extent, stride), rest = runs[0], tuple((run,) for run in runs[1:])
        parts = [Value(value.node, value.dtype, value.offset + at * stride, rest) for at in range(extent)]
        rows = [self._copied(part).reshape((1, part.elements)) for part in parts]
        return Value.of(self.builder.concat([row.view for row in rows if row is not None], 0))

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        reshaped = value.reshape(shape)
        if reshaped is None:
            reshaped = self._copied(value).reshape(shape)
        assert reshaped is not None
        return reshaped

    def slice(self, value: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        sliced = value.slice(axis, start, stop, step)
        if sliced is None:
            sliced = self.plain(value).slice(axis, start, stop, step)
        assert sliced is not None
        return sliced

    def strided(self, row: Value, size: Sequence[int], stride: Sequence[int], offset: int) -> Value:
        """Elements of a row, `stride` apart along each axis."""
        view = self.plain(row).view
        step = view.strides[0]
        strides = tuple(0 if extent == 1 else each * step for extent, each in zip(size, stride, strict=True))
        return Value.of(View(view.node, view.dtype, tuple(size), view.offset + offset * step, strides))

    def typed(self, value: Value, dtype: str) -> Value:
        """Convert to float32 or integer; floats are truncated towards zero."""
        if value.dtype == dtype:
            return value
        return self.map("to_float" if dtype == F32 else "to_int", value)

    def number(self, value: Value | Scalar, dtype: str) -> Value | Scalar:
        """As `typed`, for Python numbers too."""
        if isinstance(value, Value):
            return self.typed(value, dtype)
        return float(value) if dtype == F32 else self.scalar(value, I32)

    # --- reductions

    def reduce(self, op: str, value: Value, axes: Sequence[int]) -> Value:
        """sum (lanes over trailing axes, else in sequence), isum, reduce_max or reduce_imax; the axes are dropped."""
        axes = sorted(axis % value.rank for axis in axes)
        kept = [axis for axis in range(value.rank) if axis not in axes]
        turned = value.permute([*kept, *axes])
        outer = sum(len(value.axes[axis]) for axis in kept)
        if turned.view.rank > MAX_RANK:
            turned = self.plain(turned)
            outer = len(kept)
        view = turned.view
        if op == "sum":
            trailing = axes == list(range(value.rank - len(axes), value.rank))
            op = "isum" if value.dtype == I32 else "sum" if trailing else "sum_sequential"
        result = Value.of(self.builder.reduce(op, view, range(outer, view.rank)))
        return self.reshape(result, [value.shape[axis] for axis in kept])

    def dot(self, a: Value, b: Value) -> Value:
        """(batch..., M, K) times (batch..., K, N), the batch axes equal. Reads operands of any strides without a copy."""
        if not a.shape[-1]:
            return self.scalar(0.0, F32).expand((*a.shape[:-1], b.shape[-1]))
        batch = a.rank - 2
        pairs = [refine([a.axes[at], b.axes[at]]) for at in range(batch)]
        inner = refine([a.axes[-1], b.axes[-2]])
        if inner is None or None in pairs:
            return self.dot(self.plain(a), self.plain(b))
        joint: list[list[Axis]] = [[pair[side] for pair in pairs if pair is not None] for side in (0, 1)]
        rows, columns = a.axes[-2], b.axes[-1]
        left = Value(a.node, a.dtype, a.offset, (*joint[0], rows, _still(columns), inner[0])).view
        right = Value(b.node, b.dtype, b.offset, (*joint[1], _still(rows), columns, inner[1])).view
        if left.rank > MAX_RANK:
            return self.dot(self.plain(a), self.plain(b))
        result = Value.of(self.builder.dot(left, right, len(inner[0])))
        return self.reshape(result, [*a.shape[:-1], b.shape[-1]])

    # --- indices

    def check(self, index: Value, extent: int, legal: Value | None = None) -> None:
        """Skip the step unless every index is in 0 to extent - 1, or is legal anyway."""
        inside = self.map("and", self.map("ilt", index, extent), self.map("ilt", -1, index))
        if legal is not None:
            inside = self.map("or", inside, legal)
        total = self.reduce("isum", inside, range(inside.rank)) if inside.rank else inside
        self.checks.append(self.map("ieq", total, inside.elements))


def _still(axis: Axis) -> Axis:
    """An axis along which the operand is constant."""
    return tuple((extent, 0) for extent, _ in axis)


def refine_all(values: Sequence[Value]) -> list[Value] | None:
    """Values of one shape with runs of the same extents, at most MAX_RANK in all; None if impossible."""
    columns = [refine([value.axes[at] for value in values]) for at in range(values[0].rank)]
    if None in columns:
        return None
    out = [
        Value(value.node, value.dtype, value.offset, tuple(column[at] for column in columns if column is not None))
        for at, value in enumerate(values)
    ]
    return None if out[0].view.rank > MAX_RANK else out


def run(module: fx.GraphModule, context: Context, inputs: Sequence[Value]) -> Any:
    """Lower a flat graph of aten operators. Gives its output with Values for tensors. Raises TraceRefused."""
    values = iter(inputs)
    for node in module.graph.nodes:
        try:
            if node.op == "placeholder":
                context.environment[node] = next(values)
            elif node.op == "get_attr":
                tensor = getattr(module, node.target)
                node.meta.setdefault("val", tensor)
                context.environment[node] = constant(context, tensor)
            elif node.op == "output":
                return fx.map_arg(node.args[0], context.environment.__getitem__)
            else:
                context.environment[node] = _call(context, node)
        except TraceRefused as refusal:
            raise refusal.at(node.stack_trace or "") from None
    raise AssertionError("a graph without output")


def _call(context: Context, node: fx.Node) -> Any:
    arguments: Any = fx.map_arg(node.args, context.environment.__getitem__)
    named: Any = fx.map_arg(node.kwargs, context.environment.__getitem__)
    if node.target is operator.getitem:
        return arguments[0][arguments[1]]
    name = aten_name(node)
    for produced in produced_by(node):
        dtype_of(produced.dtype)
    lowering = LOWERINGS.get(name)
    if lowering is None:
        raise TraceRefused(f"the operator {user_name(name)} is not supported", hint=hint_of(name))
    return lowering(context, node, *arguments, **named)


def aten_name(node: fx.Node) -> str:
    """`aten::view_copy` and `aten::view` are both `view`."""
    target = node.target
    return plain_name(target) if isinstance(target, torch._ops.OpOverload) else str(target)


def plain_name(operator: torch._ops.OpOverload) -> str:
    name = str(operator._schema.name).removeprefix("aten::")
    copies = torch.Tag.view_copy in operator.tags or name == "lift_fresh_copy"
    return name.removesuffix("_copy") if copies else name


def produced_by(node: fx.Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    values = value if isinstance(value, (tuple, list)) else (value,)
    return [each for each in values if isinstance(each, torch.Tensor)]


def meta(node: Any) -> torch.Tensor:
    """The fake tensor of an fx node: its shape and torch dtype."""
    value = node.meta["val"]
    assert isinstance(value, torch.Tensor)
    return value


def constant(context: Context, tensor: torch.Tensor) -> Value:
    """A tensor in the user's source that is neither parameter nor buffer: a constant of the program."""
    dtype = dtype_of(tensor.dtype)
    array = tensor.detach().cpu().numpy()
    if dtype == I32:
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        if low < -(1 << 31) or high >= 1 << 31:
            raise TraceRefused("a constant integer tensor exceeds 32 bits", hint="keep integers below 2^31")
        return Value.of(context.builder.constant(array.astype(np.int32)))
    return Value.of(context.builder.constant(array.astype(np.float32)))
