"""Programs: validation with hints, the same bits in every process, AdamW against an oracle that is not ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from node.device import reproducible
from node.training import arrays_of
from repops.architectures import GPT
from repops.commitments import state_root
from repops.fields import BadField
from repops.program import NonFiniteStep, Program, ProgramSpec, State, build

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
GPT_SMALL = {"name": "gpt", "vocab": 256, "context": 16, "layers": 2, "heads": 2, "width": 32}
ADAMW = {"name": "adamw", "learning_rate": 1e-2, "weight_decay": 0.1, "warmup_steps": 3}


def spec_of(architecture: dict[str, object] | None = None, optimizer: dict[str, object] | None = None) -> ProgramSpec:
    given = {"architecture": GPT_SMALL | (architecture or {}), "optimizer": ADAMW | (optimizer or {}), "batch_size": 4}
    return ProgramSpec.from_dict(given)


def batch_of(seed: int = 0, size: int = 4) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(97, 105, (size, 17), dtype=np.uint8))


def run(program: Program, steps: int = 5) -> tuple[State, list[float]]:
    state, losses = program.begin(program.initial_state(7)), []
    with reproducible(CPU):
        for step in range(steps):
            state, loss = program.step(state, batch_of(step))
            losses.append(loss.item())
    return state, losses


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batchsize": 4}, "unknown key 'batchsize'; did you mean 'batch_size'"),
        ({"batch_size": "4"}, "batch_size: expected a whole number, got '4'"),
        ({"batch_size": True}, "expected a whole number, got True"),
        ({"batch_size": 0}, "expected 1 to 65536, got 0"),
        ({"version": 2}, "reads version 1, got 2"),
        ({"architecture": {**GPT_SMALL, "layer": 2}}, "unknown key 'layer'; did you mean 'layers'"),
        ({"architecture": {**GPT_SMALL, "width": 33}}, "33 is no multiple of heads = 2"),
        ({"architecture": {**GPT_SMALL, "name": "gtp"}}, "unknown 'gtp'; did you mean 'gpt'"),
        ({"architecture": {**GPT_SMALL, "width": 65536, "layers": 512}}, "parameters exceed"),
        ({"architecture": 3}, "expected a mapping, got 3"),
        ({"optimizer": {**ADAMW, "learning_rte": 1}}, "did you mean 'learning_rate'"),
        ({"optimizer": {**ADAMW, "learning_rate": float("nan")}}, "expected a finite number"),
        ({"optimizer": {**ADAMW, "name": "adam"}}, "did you mean 'adamw'"),
        ({"optimizer": {"name": "sgd"}}, "missing key 'learning_rate'"),
    ],
)
def test_spec__mistake__is_refused_with_what_was_expected(given: dict[str, object], message: str) -> None:
    good = {"architecture": GPT_SMALL, "optimizer": ADAMW, "batch_size": 4}
    with pytest.raises(BadField) as refusal:
        ProgramSpec.from_dict(good | given)
    assert message in str(refusal.value)


def test_spec__canonical_bytes_and_root__do_not_depend_on_how_it_was_written() -> None:
    one = spec_of(optimizer={"learning_rate": 1, "beta1": 0.9})
    other = ProgramSpec.from_json(one.to_json())
    assert (other, other.root) == (one, one.root)
    assert one.to_json() == spec_of(optimizer={"learning_rate": 1.0}).to_json()
    assert len({spec_of().root, one.root, spec_of({"tied": False}).root}) == 3


def test_spec__hostile_json__is_refused() -> None:
    for data in (
        b"[" * 200_000,
        b'"' + b"]" * 99 + b'"',
        b'{"a":1,"a":2}',
        b'{"a":NaN}',
        b"\xff",
        b"[" * 65 + b"]" * 65,
    ):
        with pytest.raises(BadField):
            ProgramSpec.from_json(data)


@pytest.mark.parametrize("tied", [True, False])
def test_profile__parameters_and_state__are_exact(tied: bool) -> None:
    program = build(spec_of({"tied": tied}))
    parameters = program.initial_state(0)
    assert program.profile.parameters == sum(p.numel() for p in parameters.values())
    state = program.begin(parameters)
    assert program.profile.state_bytes == sum(t.numel() * t.element_size() for t in state.values())
    assert set(state) == {f"{kind}{n}" for kind in ("", "m/", "v/") for n in program.names} | {"step"}


def test_profile__flops__are_those_torch_counts() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    program = build(spec_of())
    state = program.begin(program.initial_state(0))
    with FlopCounterMode(display=False) as counter:
        program.step(state, batch_of())
    # Ours counts the input gradient of the first layer's matmuls too, as theirs does; embeddings cost none.
    assert counter.get_total_flops() == program.profile.flops


def test_initial_state__depends_on_the_seed_alone() -> None:
    program = build(spec_of())
    one, same, other = (state_root(arrays_of(program.initial_state(seed))) for seed in (3, 3, 4))
    assert one == same != other


def test_step__leaves_the_given_state_as_it_was() -> None:
    program = build(spec_of())
    state = program.begin(program.initial_state(0))
    before = state_root(arrays_of(state))
    new, _ = program.step(state, batch_of())
    assert state_root(arrays_of(state)) == before != state_root(arrays_of(new))
    assert int(new["step"]) == 1


def test_begin__copies_the_parameters() -> None:
    program = build(spec_of())
    parameters = program.initial_state(0)
    state = program.begin(parameters)
    assert all(state[name].data_ptr() != parameters[name].data_ptr() for name in program.names)


def test_step__twice_on_equal_inputs__gives_equal_bits() -> None:
    (first, losses), (second, again) = run(build(spec_of())), run(build(spec_of()))
    assert state_root(arrays_of(first)) == state_root(arrays_of(second))
    assert losses == again
    assert losses[-1] < losses[0]


SCRIPT = """
import sys; sys.path.insert(0, "tests/unit")
from test_repops_program import *
state, losses = run(build(spec_of()))
print(state_root(arrays_of(state)).hex(), [loss.hex() for loss in losses])
"""


def test_step__in_a_fresh_interpreter__gives_the_same_bits() -> None:
    state, losses = run(build(spec_of()))
    expected = f"{state_root(arrays_of(state)).hex()} {[loss.hex() for loss in losses]}"
    for threads in ("2",):  # the environment's thread count is overruled
        environment = {"OMP_NUM_THREADS": threads, "PATH": "", "PYTHONPATH": str(ROOT)}
        out = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert out.stdout.strip() == expected


@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
@pytest.mark.parametrize("name", ["adamw", "sgd"])
def test_step__follows_torch_optim(name: str, clip_norm: float) -> None:
    program = build(spec_of(optimizer={"name": name, "clip_norm": clip_norm}))
    ours, losses = run(program, 6)
    rule = program.rule
    module = GPT(program.config)
    module.load_state_dict(program.initial_state(7))
    matrices = [p for p in module.parameters() if p.dim() > 1]
    vectors = [p for p in module.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": rule.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    if name == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=rule.learning_rate, betas=(rule.beta1, rule.beta2), eps=rule.epsilon)
    else:
        optimizer = torch.optim.SGD([{**g, "weight_decay": 0.0} for g in groups], lr=rule.learning_rate)
    for step in range(6):
        rate = rule.learning_rate * min(1.0, (step + 1) / 3)
        for group in optimizer.param_groups:
            group["lr"] = rate
        tokens = batch_of(step).long()
        loss = torch.nn.functional.cross_entropy(module(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip_norm)
        if name == "sgd":  # torch's own decay is coupled; ours is decoupled
            with torch.no_grad():
                for p in matrices:
                    p.mul_(1 - rate * rule.weight_decay)
        optimizer.step()
        assert loss.item() == pytest.approx(losses[step], rel=2e-5)
    for key, value in module.named_parameters():
        # AdamW's first steps have the size of the rate whatever the gradient, and so carry its last bit's sign.
        torch.testing.assert_close(ours[key], value.detach(), rtol=1e-3, atol=3e-3 if name == "adamw" else 1e-5)


def test_step__loss_not_finite__raises_and_names_the_step() -> None:
    program = build(spec_of())
    state = program.begin(program.initial_state(0))
    state["norm.weight"][0] = float("inf")
    state["step"] = torch.tensor(4)
    with pytest.raises(NonFiniteStep, match="step 4") as error:
        program.step(state, batch_of())
    assert error.value.step == 4


def test_begin__other_programs_parameters__are_refused() -> None:
    program = build(spec_of())
    with pytest.raises(ValueError, match=r"'tokens.weight' is .*\(256, 64\)"):
        program.begin(build(spec_of({"width": 64})).initial_state(0))
    with pytest.raises(ValueError, match="is missing"):
        program.begin({})


def test_loss__of_many_examples__is_the_mean_over_all() -> None:
    program = build(spec_of())
    parameters = program.initial_state(0)
    each = [program.loss(parameters, batch_of(i, 1)) for i in range(40)]
    together = program.loss(parameters, torch.cat([batch_of(i, 1) for i in range(40)]))
    assert together == pytest.approx(sum(each) / 40, rel=1e-5)


def test_model__sees_no_future() -> None:
    program = build(spec_of())
    module = GPT(program.config)
    module.load_state_dict(program.initial_state(0))
    tokens = batch_of().long()[:, :16]
    changed = tokens.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % 256
    one, other = module(tokens), module(changed)
    assert torch.equal(one[:, :9], other[:, :9])
    assert not torch.equal(one[:, 9:], other[:, 9:])


def test_generate__depends_on_the_seed_and_outgrows_the_context() -> None:
    program = build(spec_of())
    parameters = program.initial_state(0)
    one, same, other = (program.generate(parameters, b"def ", 30, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(one) == 30
    assert program.generate(parameters, b"", 0, 1) == b""
    greedy = program.generate(parameters, b"x", 5, 1, temperature=0)
    assert greedy == program.generate(parameters, b"x", 5, 2, temperature=0)
