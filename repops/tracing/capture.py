"""Captures a module, its loss and their gradients as a flat list of torch operators, without computing on data.

Everything runs on fake tensors, which have shapes and no values: so neither weights, data nor the random generator can
leave a mark, and what would depend on them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import core_aten_decompositions, decomposition_table, decompositions
from torch._subclasses import fake_tensor
from torch.func import functional_call, functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from repops.batches import leaves, named
from repops.graph import OUTPUTS
from repops.tracing import families
from repops.tracing.losses import Loss, logits_of, loss_of
from repops.tracing.lower import LOWERINGS, dtype_of, plain_name
from repops.tracing.refusals import HINTS, TraceRefused, user_name
from repops.tracing.sources import SourceMode
from repops.tracing.substitutes import substituted

assert families.LOADED


@dataclass(frozen=True)
class Captured:
    """code takes parameters, buffers and batch leaves, in this order, and gives a flat list: the loss, gradients, buffers after.

    parameters, buffers, batch: names, with shape and torch dtype. A gradient is None where the loss does not depend.
    """

    code: fx.GraphModule
    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]
    batch: dict[str, Tensor]


def named_parameters(module: torch.nn.Module) -> dict[str, Tensor]:
    """Parameters that require a gradient; tied ones once, under their first name."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def named_buffers(module: torch.nn.Module) -> dict[str, Tensor]:
    """Buffers, and parameters that require no gradient."""
    frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
    return frozen | dict(module.named_buffers())


def filled(name: str, tree: Any, tensors: dict[str, Tensor]) -> Any:
    """The batch entry `tree` with other tensors, by the names that `batches.named` gives them."""
    if isinstance(tree, (tuple, list)):
        return type(tree)(filled(f"{name}.{at}", each, tensors) for at, each in enumerate(tree))
    if isinstance(tree, dict):
        return {key: filled(f"{name}.{key}", each, tensors) for key, each in tree.items()}
    return tensors[name]


def capture(module: torch.nn.Module, loss_fn: Loss | None, inputs: Any, targets: Any) -> Captured:
    """Trace loss_fn(module(inputs), targets) and its gradients. Raises TraceRefused.

    A tuple of inputs is passed as positional arguments, a dict as keyword arguments; targets are passed as they are.
    """
    parameters, buffers = named_parameters(module), named_buffers(module)
    batch = named((inputs, targets))
    _check(module, {**parameters, **buffers, **batch})
    if not parameters:
        raise TraceRefused("the module has no parameter that requires a gradient")

    def forward(tensors: dict[str, Tensor], values: Sequence[Tensor]) -> Any:
        entries = dict(zip(batch, values, strict=True))
        return loss_of(loss_fn, _call(module, tensors, inputs, entries), filled("targets", targets, entries))

    code = _flat(_Traced(module, forward, parameters, list(buffers)), [parameters, buffers, batch])
    return Captured(code, parameters, buffers, batch)


@dataclass(frozen=True)
class Forward:
    """code takes the module's tensors and batch leaves, in this order, and gives a flat list: the outputs, buffers after.

    state: parameters and buffers; parameters, buffers: the names of each. outputs: names, with shape and torch dtype.
    """

    code: fx.GraphModule
    state: dict[str, Tensor]
    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    batch: dict[str, Tensor]
    outputs: dict[str, Tensor]


def capture_forward(module: torch.nn.Module, inputs: Any) -> Forward:
    """Trace module(inputs), in the mode it is in. Raises TraceRefused. inputs: as for `capture`."""
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    state, batch = {**parameters, **buffers}, dict(leaves("inputs", inputs))
    _check(module, {**state, **batch})
    if not state:
        raise TraceRefused(
            "the module has no parameter and no buffer", hint="register_buffer, of a tensor that it uses"
        )
    step = _TracedForward(module, inputs, list(state), list(batch), list(buffers))
    code = _flat(step, [state, batch])
    if not step.outputs:
        raise TraceRefused("the module returns no tensor")
    return Forward(code, state, tuple(parameters), tuple(buffers), batch, step.outputs)


def _check(module: torch.nn.Module, tensors: dict[str, Tensor]) -> None:
    """Raises TraceRefused for a tensor that no word holds, and for a module without Python code."""
    for name, tensor in tensors.items():
        try:
            dtype_of(tensor.dtype)
        except TraceRefused as refusal:
            raise TraceRefused(f"{name} is {tensor.dtype}", hint=refusal.hint) from None
    if any(isinstance(child, torch.jit.ScriptModule) for child in module.modules()):
        raise TraceRefused("a module of torch.jit", hint="the Python module that it was made from")


def _call(module: torch.nn.Module, tensors: dict[str, Tensor], inputs: Any, entries: dict[str, Tensor]) -> Any:
    """The module on the batch entries that `inputs` is made of, with these parameters and buffers."""
    x = filled("inputs", inputs, entries)
    args, kwargs = (x, {}) if isinstance(x, tuple) else ((), x) if isinstance(x, dict) else ((x,), {})
    return functional_call(module, tensors, args, kwargs)


class _TracedForward:
    """A forward pass as a function of two lists of tensors. outputs: what it gave, by name, known once it was called."""

    def __init__(
        self, module: torch.nn.Module, inputs: Any, state: list[str], batch: list[str], buffers: list[str]
    ) -> None:
        self.source, self.outputs = SourceMode(module), dict[str, Tensor]()
        self._module, self._inputs, self._state, self._batch, self._buffers = module, inputs, state, batch, buffers

    def __call__(self, state: list[Tensor], batch: list[Tensor]) -> Any:
        tensors = dict(zip(self._state, state, strict=True))
        tensors |= {name: tensors[name].clone() for name in self._buffers}  # in-place updates land here
        with substituted(), self.source:
            output = _call(self._module, tensors, self._inputs, dict(zip(self._batch, batch, strict=True)))
        logits = None if type(output) is dict else logits_of(output)  # of Hugging Face, whose outputs have caches too
        try:
            outputs = dict(leaves(OUTPUTS, output if logits is None else logits))
        except ValueError as error:
            raise TraceRefused(
                f"what the module returns ({str(error).removeprefix('batch: ')})",
                hint="return the tensors that you want, alone or in a tuple or dict",
            ) from None
        self.outputs = {
            name: torch.empty(each.shape, dtype=each.dtype, device="meta") for name, each in outputs.items()
        }
        return [*(each.detach() for each in outputs.values()), *(tensors[name].detach() for name in self._buffers)]


class _Traced:
    """The whole step before the optimizer as a function of three lists of tensors."""

    def __init__(
        self, module: torch.nn.Module, forward: Any, parameters: dict[str, Tensor], buffers: list[str]
    ) -> None:
        self.source = SourceMode(module)
        self.forward, self.parameters, self.buffers = forward, parameters, buffers

    def __call__(self, parameters: list[Tensor], buffers: list[Tensor], batch: list[Tensor]) -> Any:
        leaves = [p.detach().requires_grad_() for p in parameters]
        for leaf, (name, own_parameter) in zip(leaves, self.parameters.items(), strict=True):
            _hook(leaf, name, own_parameter)
        own = [b.clone() for b in buffers]  # in-place updates of running statistics land here
        tensors = dict(zip(self.parameters, leaves, strict=True)) | dict(zip(self.buffers, own, strict=True))
        with torch.enable_grad(), substituted(), self.source:
            loss = self.forward(tensors, batch)
        if not isinstance(loss, Tensor) or loss.dim() or loss.dtype != torch.float32:
            raise TraceRefused(f"the loss is {_description(loss)}", hint="return one float32 number, such as a mean")
        if not loss.requires_grad:
            raise TraceRefused(
                "the loss does not depend on any parameter", hint="no detach or no_grad on the way to the loss"
            )
        self.source.backward(loss)
        gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
        return [loss.detach(), *gradients, *(tensors[name].detach() for name in self.buffers)]


def _hook(leaf: Tensor, name: str, own: Any) -> None:
    """Register the parameter's hooks on the tensor that replaces it."""
    if own._post_accumulate_grad_hooks:
        what = f"a hook that runs after the gradient of {name} is there"
        raise TraceRefused(what, hint="parameter.register_hook, which gives the gradient itself")
    for hook in (own._backward_hooks or {}).values():
        leaf.register_hook(hook)  # type: ignore[no-untyped-call]


def _description(loss: Any) -> str:
    return f"{loss.dtype} of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else f"a {type(loss).__name__}"


def _flat(step: _Traced | _TracedForward, inputs: list[dict[str, Tensor]]) -> fx.GraphModule:
    """step as aten operators without mutation, those without a lowering decomposed."""
    with fake_tensor.FakeTensorMode(allow_non_fake_inputs=True), preserve_node_meta():
        fakes = [[torch.empty(tuple(t.shape), dtype=t.dtype) for t in group.values()] for group in inputs]
        with _without_onednn():
            code = _refusing(step.source, lambda: make_fx(step, _decompositions())(*fakes))
        _no_writes_to_batch(code, [name for group in inputs for name in group])
        if any(_is_mutable(node) for node in code.graph.nodes):
            code = _functional(code, step.source, [fake for group in fakes for fake in group])
    code.graph.eliminate_dead_code()
    return code


def _functional(code: fx.GraphModule, source: SourceMode, fakes: list[Tensor]) -> fx.GraphModule:
    """The same without mutation: an in-place write becomes a new tensor.

    Tensors of the user's source go in as arguments, so that what is made from them is seen as well.
    """
    attributes = {node.target: getattr(code, str(node.target)) for node in code.graph.nodes if node.op == "get_attr"}
    flat = functionalize(_Interpreter(code, list(attributes)).run_on, remove="mutations_and_views")
    copies = [torch.empty(tuple(t.shape), dtype=t.dtype) for t in attributes.values()]
    traced = _refusing(source, lambda: make_fx(flat, _decompositions())(*fakes, *copies))
    places = [node for node in traced.graph.nodes if node.op == "placeholder"]
    for place, (name, tensor) in zip(places[len(fakes) :], attributes.items(), strict=True):
        traced.register_buffer(f"held_{name}", tensor)
        with traced.graph.inserting_before(place):
            place.replace_all_uses_with(traced.graph.get_attr(f"held_{name}"))
        traced.graph.erase_node(place)
    return traced


class _Interpreter(fx.Interpreter):
    """Runs a graph with its own tensors as further arguments."""

    def __init__(self, code: fx.GraphModule, names: list[Any]) -> None:
        super().__init__(code)
        self.names = names

    def run_on(self, *tensors: Any) -> Any:
        count = len(tensors) - len(self.names)
        self.attributes = dict(zip(self.names, tensors[count:], strict=True))
        return self.run(*tensors[:count])

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.attributes[target]


def _is_mutable(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


@contextmanager
def _without_onednn() -> Iterator[None]:
    """oneDNN's recurrent layers are one opaque operator; without it they are matmuls and activations."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _refusing(source: SourceMode, trace: Callable[[], fx.GraphModule]) -> fx.GraphModule:
    try:
        return trace()
    except (fake_tensor.DataDependentOutputException, fake_tensor.DynamicOutputShapeException) as error:
        name = error.func._schema.name.removeprefix("aten::")
        what = f"{user_name(name)} makes the program depend on data"
        raise TraceRefused(what, hint=HINTS.get(name, HINTS["_local_scalar_dense"]), site=source.site) from None
    except fake_tensor.UnsupportedOperatorException as error:
        raise TraceRefused(f"the operator {error} cannot be traced", site=source.site) from None
    except fake_tensor.FakeTensorDeviceMismatchError:
        what = "a nested derivative whose tensors torch puts on no device"
        raise TraceRefused(
            what, hint="torch.func.grad or jacrev alone, without a second one", site=source.site
        ) from None
    except TraceRefused as refusal:
        raise refusal.at(source.site) from None
    except RuntimeError as error:
        if "dynamo-optimized" not in str(error):
            raise
        what = "what torch.compile made"
        raise TraceRefused(
            what, hint="the module or function as it was before torch.compile", site=source.site
        ) from None


@cache
def _decompositions() -> dict[Any, Any]:
    """torch's own decompositions for operators without a lowering, except those into primitives of its compiler."""
    aten = {rule: way for rule, way in decomposition_table.items() if way.__module__ == decompositions.__name__}
    return {
        operator: rule
        for operator, rule in {**aten, **core_aten_decompositions()}.items()
        if isinstance(operator, torch._ops.OpOverload)
        and not operator._schema.is_mutable
        and plain_name(operator) not in LOWERINGS
    }


def _no_writes_to_batch(code: fx.GraphModule, names: list[str]) -> None:
    """Raises TraceRefused when the module changes its inputs, or a parameter, in place."""
    own = dict(zip((node for node in code.graph.nodes if node.op == "placeholder"), names, strict=True))
    for node in code.graph.nodes:
        if _is_mutable(node) and node.args:
            written = node.args[0]
            while isinstance(written, fx.Node) and written not in own and _is_alias(written):
                written = written.args[0]
            if written in own:
                what = f"{own[written]} is changed in place by {node.target._schema.name.removeprefix('aten::')}"
                raise TraceRefused(
                    what, hint=HINTS.get(plain_name(node.target), "clone it first"), site=node.stack_trace or ""
                )


def _is_alias(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and bool(node.args) and target.is_view
