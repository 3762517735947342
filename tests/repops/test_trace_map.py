"""Maps: a forward pass as a program whose outputs are kept, batch after batch; equal to torch, and the same bits on every backend."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import repops
from repops import backend, encoding
from repops.tracing import TraceRefused

BATCH, STEPS = 3, 4


class Several(torch.nn.Module):
    """Two inputs and two outputs; it counts its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, words: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        self.seen.add_(1)
        rows = self.table(words).mean(1) * scale[:, None]
        return {"rows": rows + self.seen, "classes": self.head(rows)}


def items(steps: int = STEPS) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randint(0, 7, (steps, BATCH, 5)), torch.rand(steps, BATCH)


def run(program: repops.Program, module: torch.nn.Module, batches: list[object]) -> repops.State:
    state = program.initial_state(module)
    for batch in batches:
        state, _ = program.step(state, (batch, ()))
    return state


def test_outputs__are_the_modules_in_the_order_of_the_steps() -> None:
    torch.manual_seed(0)
    module = Several().eval()
    words, scale = items()
    program = repops.trace_map(module, (words[0], scale[0]), STEPS)
    assert program.graph.outputs == program.exchanged == ("outputs.classes", "outputs.rows")
    state = run(program, module, list(zip(words, scale, strict=True)))
    for step in range(STEPS):
        wanted = module(words[step], scale[step])  # its count goes on, as the state's does
        for name, tensor in wanted.items():
            assert torch.allclose(state[f"outputs.{name}"][step], tensor, atol=1e-6), (name, step)
    assert state["seen"].item() == state["step"].item() == STEPS
    assert torch.equal(state["head.weight"], module.head.weight)


def test_outputs_that_no_step_made__are_zero() -> None:
    module = torch.nn.Linear(5, 2).eval()
    program = repops.trace_map(module, torch.zeros(BATCH, 5), STEPS)
    assert program.graph.outputs == ("outputs",)
    state = run(program, module, [torch.ones(BATCH, 5)])
    assert torch.any(state["outputs"][0])
    assert not torch.any(state["outputs"][1:])


def test_a_batch_with_an_index_out_of_range__is_nan_and_the_next_one_has_its_place() -> None:
    module = Several().eval()
    words, scale = items()
    program = repops.trace_map(module, (words[0], scale[0]), STEPS)
    words[1, 0, 0] = 7
    rows = run(program, module, list(zip(words, scale, strict=True)))["outputs.rows"]
    assert torch.isnan(rows[1]).all()
    assert torch.isfinite(rows[[0, 2, 3]]).all()


def test_a_map__has_the_same_bits_in_every_backend_and_after_its_encoding() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(5, 9), torch.nn.GELU(), torch.nn.Linear(9, 3), torch.nn.Softmax(-1)
    ).eval()
    program = repops.trace_map(module, torch.zeros(BATCH, 5), 2)
    assert encoding.decode(program.to_bytes()) == program.graph
    batch = {"inputs": torch.randn(BATCH, 5).numpy()}
    made = []
    for name in ("native", "numba"):
        runner = backend.prepare(program.graph, name=name)
        for entry, tensor in program.initial_state(module).items():
            runner.state[entry][...] = tensor.numpy()
        runner.step(batch)
        made.append(runner.state["outputs"].view(np.uint32).copy())
    assert np.array_equal(*made)


def test_random_draws__differ_by_step_and_follow_from_the_seed() -> None:
    class Noise(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("level", torch.ones(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.level * torch.rand(x.shape)

    module = Noise().eval()
    program = repops.trace_map(module, torch.zeros(BATCH, 5), 2)

    def drawn(seed: int) -> torch.Tensor:
        state = program.initial_state(module, seed)
        for _ in range(2):
            state, _ = program.step(state, (torch.zeros(BATCH, 5), ()))
        return state["outputs"].clone()

    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))
    assert not torch.equal(drawn(3)[0], drawn(3)[1])


class Returns(torch.nn.Module):
    def __init__(self, what: object) -> None:
        super().__init__()
        self.head, self.what = torch.nn.Linear(5, 2), what

    def forward(self, x: torch.Tensor) -> object:
        return self.what(self.head(x))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda y: y.argmax(-1), "outputs is torch.int64"),
        (lambda y: y.mean(), r"outputs of shape \(\) for a batch of 3 items"),
        (lambda y: y.T, r"outputs of shape \(2, 3\) for a batch of 3 items"),
        (lambda y: {"y": y, "name": "text"}, "what the module returns"),
        (lambda y: (), "the module returns no tensor"),
    ],
)
def test_a_module_that_gives_no_row_for_each_item__is_refused(what: object, message: str) -> None:
    with pytest.raises(TraceRefused, match=message):
        repops.trace_map(Returns(what), torch.zeros(BATCH, 5))


def test_a_module_without_tensors__is_refused() -> None:
    with pytest.raises(TraceRefused, match="no parameter and no buffer"):
        repops.trace_map(torch.nn.Flatten(), torch.zeros(BATCH, 5))


def test_a_name_that_the_step_needs__is_refused() -> None:
    module = torch.nn.Linear(5, 2)
    module.register_buffer("outputs", torch.zeros(1))
    with pytest.raises(TraceRefused, match="'outputs' names a tensor of the module"):
        repops.trace_map(module, torch.zeros(BATCH, 5))


def test_of_a_hugging_face_model__the_logits_are_the_outputs() -> None:
    transformers = pytest.importorskip("transformers", reason="the extra hf is not installed")
    torch.manual_seed(0)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 11, "n_positions": 6}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).eval()
    words = torch.randint(0, 11, (BATCH, 6))
    program = repops.trace_map(model, words)
    assert program.graph.outputs == ("outputs",)
    made = run(program, model, [words])["outputs"][0]
    with torch.no_grad():
        assert torch.allclose(made, model(words).logits, atol=1e-5)


class Counts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.full((), 40.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.add_(1)
        return x + self.seen


def test_a_fresh_buffer__begins_at_zero_and_is_no_part_of_the_checkpoint() -> None:
    module = Counts()
    for fresh, first in (((), 41.0), (("seen",), 1.0)):
        program = repops.trace_map(module, torch.zeros(BATCH, 1), 2, fresh=fresh)
        made = run(program, module, [torch.zeros(BATCH, 1)] * 2)["outputs"]
        assert made[:, 0, 0].tolist() == [first, first + 1]
        kinds = {entry.name: entry.kind for entry in program.graph.state}
        assert kinds["seen"] == ("optimizer" if fresh else "buffer")


def test_a_fresh_name_that_is_no_buffer__is_refused() -> None:
    with pytest.raises(TraceRefused, match="'weight' begins at zero and is no buffer"):
        repops.trace_map(torch.nn.Linear(5, 2), torch.zeros(BATCH, 5), fresh=("weight",))
