"""The built-in architectures: ordinary modules whose training follows torch's, described by sections that are checked without torch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from node.compute.programs import Programs
from repops import backend
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.models import GPTSection, LlamaSection, gpt, llama
from zoo_compute.training.rounds import begin

SIZES: dict[str, dict[str, Any]] = {
    "gpt": {"layers": 2, "heads": 2, "width": 32, "context": 16},
    "llama": {"layers": 2, "heads": 4, "kv_heads": 2, "width": 32, "hidden": 48, "context": 16, "vocab": 300},
}
MODULES: dict[str, ModuleType] = {"gpt": gpt, "llama": llama}
SECTIONS = {"gpt": GPTSection, "llama": LlamaSection}
TRAINING = {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 6, "rounds": 1, "slots": 1, "warmup_steps": 3}

each = pytest.mark.parametrize("architecture", SIZES)


def job_of(architecture: str, model: dict[str, Any] | None = None, **training: Any) -> ComputeJob:
    named = {} if architecture == "gpt" else {"architecture": architecture}
    return ComputeJob(named | SIZES[architecture] | (model or {}), {}, TRAINING | training, "10")


def tokens_of(architecture: str, seed: int) -> np.ndarray:
    vocab = SIZES[architecture].get("vocab", 256)
    return np.random.default_rng(seed).integers(0, vocab, (4, 17), dtype=np.int32)


def made(architecture: str, seed: int = 0, **options: Any) -> Any:
    torch.manual_seed(seed)
    return MODULES[architecture].build(**SIZES[architecture] | options)[0]


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [
        *(("gpt", {"tied": tied}) for tied in (True, False)),
        *(("llama", changes) for changes in ({}, {"tied": True}, {"kv_heads": None}, {"kv_heads": 1})),
    ],
)
def test_parameters__are_those_the_section_counts(architecture: str, changes: dict[str, Any]) -> None:
    section = SECTIONS[architecture](**SIZES[architecture] | changes)
    assert section.parameters == sum(p.numel() for p in made(architecture, **changes).parameters())
    job = job_of(architecture, changes)
    assert job.profile.parameters == section.parameters == job.model.parameters
    assert job.profile.state_bytes == 4 * (3 * section.parameters + 1), (
        "moments of AdamW, and the step's number; no table"
    )


@pytest.mark.parametrize("changes", [{}, {"tied": True}, {"kv_heads": 4}])
def test_logits__are_those_of_transformers__with_the_same_tensors(changes: dict[str, Any]) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    module = made("llama", **changes)
    sizes = SIZES["llama"] | changes
    config = LlamaConfig(
        vocab_size=sizes["vocab"],
        hidden_size=sizes["width"],
        intermediate_size=sizes["hidden"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=sizes["context"],
        rms_norm_eps=1e-5,
        tie_word_embeddings=sizes.get("tied", False),
        attn_implementation="eager",
    )
    theirs = LlamaForCausalLM(config)
    missing, unexpected = theirs.load_state_dict(module.state_dict(), strict=False)
    assert not unexpected
    assert missing in ([], ["lm_head.weight"])
    theirs.tie_weights()
    tokens = torch.from_numpy(tokens_of("llama", 0)).long()[:, :16]
    torch.testing.assert_close(module(tokens), theirs(tokens).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("architecture", "model", "training", "message"),
    [
        ("gpt", {"layer": 2}, {}, "unknown key 'layer'; did you mean 'layers'"),
        ("gpt", {"width": 33}, {}, "33 is no multiple of heads = 2"),
        ("gpt", {"architecture": "gtp"}, {}, "unknown 'gtp'; did you mean 'gpt'"),
        ("gpt", {"width": 65536, "layers": 512}, {}, "parameters exceed"),
        ("gpt", {"vocab": 1}, {}, "model.vocab: expected 2 to"),
        ("gpt", {}, {"optimizer": "adam"}, "did you mean 'adamw'"),
        ("gpt", {}, {"optimizer": "sgd", "weight_decay": 0.1}, "the built-in sgd has none"),
        ("gpt", {}, {"beta1": 1.0}, "training.beta1: expected 0 to 0.999999"),
        ("gpt", {}, {"clip_norm": -1.0}, "training.clip_norm: expected 0 to"),
        ("gpt", {}, {"warmup_steps": -1}, "training.warmup_steps: expected 0 to"),
        ("llama", {"hiden": 2}, {}, "unknown key 'hiden'; did you mean 'hidden'"),
        ("llama", {"width": 36}, {}, "36 is no multiple of twice heads = 4"),
        ("llama", {"kv_heads": 3}, {}, "3 do not divide heads = 4"),
        ("llama", {"width": 65536, "layers": 512}, {}, "parameters exceed"),
        ("llama", {"theta": 0.5}, {}, "model.theta: expected 1 to"),
        ("llama", {"norm_epsilon": 0.0}, {}, "model.norm_epsilon: expected"),
        ("llama", {"kv_heads": 0}, {}, "model.kv_heads: expected 1 to"),
    ],
)
def test_section__mistake__is_refused_with_what_was_expected(
    architecture: str, model: dict[str, Any], training: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobError) as refusal:
        job_of(architecture, model, **training)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("architecture", "wrong", "message"),
    [
        ("gpt", {"width": 33}, "33 is no multiple"),
        ("gpt", {"layers": 0}, "layers: expected at least 1"),
        ("llama", {"width": 36}, "36 is no"),
        ("llama", {"kv_heads": 3}, "3 do not"),
        ("llama", {"hidden": 0}, "hidden: expec"),
    ],
)
def test_module__of_sizes_that_do_not_fit__is_refused(architecture: str, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(architecture, **wrong)


@each
@pytest.mark.parametrize(
    "rule", [{"weight_decay": 0.1}, {"optimizer": "sgd", "clip_norm": 0.5}], ids=["adamw", "sgd, clipped"]
)
def test_training__follows_torchs_own(architecture: str, rule: dict[str, Any]) -> None:
    """Six steps of the job's program and of torch's own end in close losses and parameters."""
    job = job_of(architecture, **rule)
    options = {name: value for name, value in rule.items() if name != "clip_norm"}
    module, loss_fn, optimizer = MODULES[architecture].build(**SIZES[architecture], learning_rate=0.01, **options)
    assert job.traced.initial is not None
    programs = Programs(job.traced.graph)
    state = programs.begin(job.traced.initial)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in job.traced.initial.items()})
    for step in range(6):
        tokens = tokens_of(architecture, step)
        ours, taken = programs.advance({"inputs": tokens[:, :-1].copy(), "targets": tokens[:, 1:].copy()})
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * min(1.0, (step + 1) / 3)
        whole = torch.from_numpy(tokens).long()
        loss = loss_fn(module(whole[:, :-1]), whole[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        if "clip_norm" in rule:
            torch.nn.utils.clip_grad_norm_(module.parameters(), rule["clip_norm"])
        optimizer.step()
        assert taken
        assert ours == pytest.approx(loss.item(), rel=2e-5)
    for name, value in module.named_parameters():
        # AdamW's first steps have the size of the rate whatever the gradient, and so carry its last bit's sign.
        close = 1e-5 if rule.get("optimizer") == "sgd" else 3e-3
        torch.testing.assert_close(torch.from_numpy(state[name]), value.detach(), rtol=1e-3, atol=close)


@pytest.mark.parametrize("name", ["native", "numba"])
def test_a_step__of_every_backend__has_the_references_bits(name: str) -> None:
    try:
        backend.backend(name).check()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{name}: {error}")
    tiny = {"layers": 1, "width": 8, "heads": 2, "kv_heads": 1, "hidden": 12, "context": 4, "vocab": 11}
    job = ComputeJob({"architecture": "llama"} | tiny, {}, TRAINING | {"batch_size": 2}, "10")
    assert job.traced.initial is not None
    tokens = np.random.default_rng(3).integers(0, 11, (2, 5), dtype=np.int32)
    batch = {"inputs": tokens[:, :-1].copy(), "targets": tokens[:, 1:].copy()}
    states = []
    for runner in (backend.prepare(job.traced.graph, name="reference"), backend.prepare(job.traced.graph, name=name)):
        begin(job.traced.graph, runner.state, job.traced.initial, 0)
        states.append(({}, runner.step(batch), runner.step(batch)))
        states[-1][0].update({key: array.copy() for key, array in runner.state.items()})
    assert states[0][1:] == states[1][1:]
    for key, array in states[0][0].items():
        assert array.tobytes() == states[1][0][key].tobytes(), key


@each
def test_module__sees_no_future(architecture: str) -> None:
    module = made(architecture)
    tokens = torch.from_numpy(tokens_of(architecture, 0)).long()[:, :16]
    changed = tokens.clone()
    changed[:, 9:] = (changed[:, 9:] + 1) % 256
    one, other = module(tokens), module(changed)
    assert torch.equal(one[:, :9], other[:, :9])
    assert not torch.equal(one[:, 9:], other[:, 9:])


def test_generate__of_a_gpt__depends_on_the_seed_and_outgrows_the_context() -> None:
    module = made("gpt")
    one, same, other = (module.generate(b"def ", 30, seed) for seed in (1, 1, 2))
    assert one == same != other
    assert len(one) == 30
    assert module.generate(b"", 0, 1) == b""
    assert module.generate(b"x", 5, 1, temperature=0) == module.generate(b"x", 5, 2, temperature=0)


def test_generate__gives_bytes_though_the_vocabulary_is_larger() -> None:
    module = made("llama")
    assert module.generate(b"def ", 30, 1) == module.generate(b"def ", 30, 1)
    assert len(module.generate(b"def ", 30, 1)) == 30


def test_initial_weights__of_a_gpts_free_head_start_at_unit_scale_with_sinusoids() -> None:
    free, tied = made("gpt", tied=False), made("gpt", tied=True)
    assert 0.9 < free.tokens.weight.std() < 1.1
    assert tied.tokens.weight.std() < 0.03
    assert torch.equal(free.positions.weight, made("gpt", seed=9, tied=False).positions.weight), "nothing drawn"
    assert torch.equal(free.norm.weight, torch.ones(32))
    assert torch.equal(free.blocks[0].expand.bias, torch.zeros(128))


def test_initial_weights__of_a_llamas_free_head_start_at_unit_scale() -> None:
    free, tied = made("llama"), made("llama", tied=True)
    assert 0.9 < free.model.embed_tokens.weight.std() < 1.1
    assert tied.model.embed_tokens.weight.std() < 0.03
    assert torch.equal(free.model.norm.weight, torch.ones(32))
    layer = free.model.layers[0].mlp
    assert layer.down_proj.weight.std() < 0.6 * layer.gate_proj.weight.std()
