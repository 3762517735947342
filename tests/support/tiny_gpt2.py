"""A GPT-2 of a few thousand weights with a tokenizer of its own, and a few stories: no hub, no download."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from repops import backend
from repops.commitments import Array
from repops.graph import RATE, Graph

VOCABULARY, CONTEXT = 300, 16
STORIES = [
    f"Story {number}: the {animal} went {way} and came back with {count} {thing}.\n"
    for number, (animal, way, count, thing) in enumerate(
        (animal, way, count, thing)
        for animal in ("fox", "hen", "old goat", "bear")
        for way in ("home", "up the hill", "over the sea")
        for count in ("two", "seven", "nineteen")
        for thing in ("eggs", "blue stones", "friends")
    )
]


def save_tokenizer(folder: Path, size: int = VOCABULARY) -> None:
    """A byte-level BPE with an end-of-text token, trained on STORIES."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import PreTrainedTokenizerFast

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator(STORIES, vocab_size=size, special_tokens=["<|endoftext|>"], show_progress=False)
    end = "<|endoftext|>"
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe._tokenizer, eos_token=end, bos_token=end)
    tokenizer.save_pretrained(folder)


def save_model(folder: Path, *, dropout: float = 0.0, weights: bool = True) -> None:
    """Without weights: the configuration alone."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    sizes = {"vocab_size": VOCABULARY, "n_positions": CONTEXT, "n_embd": 16, "n_layer": 2, "n_head": 2}
    config = GPT2Config(**sizes, **rates, bos_token_id=0, eos_token_id=0)
    if not weights:
        config.save_pretrained(folder)
        return
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        GPT2LMHeadModel(config).save_pretrained(folder)


def save_all(folder: Path) -> None:
    """`gpt2`, a folder of model and tokenizer; the stories as .jsonl, .parquet and .csv."""
    import pandas

    save_model(folder / "gpt2")
    save_tokenizer(folder / "gpt2")
    table = pandas.DataFrame({"id": range(len(STORIES)), "story": STORIES})
    table.to_parquet(folder / "stories.parquet")
    table.to_csv(folder / "stories.csv", index=False)
    rows = [json.dumps({"id": number, "story": story}) for number, story in enumerate(STORIES)]
    (folder / "stories.jsonl").write_text("\n".join(rows))


def logits_of(program: Graph, state: Mapping[str, Array], inputs: Array) -> Array:
    """What a job's own program computes before its loss: its first node of as many elements as logits have.

    inputs: (examples, CONTEXT). No torch: the reference backend runs it.
    """
    runner = backend.prepare(program, name="reference")
    for name, array in runner.state.items():
        array[...] = state.get(name, 0)
    batch = {"inputs": inputs, "targets": inputs}
    if RATE in runner.batch:  # of a schedule, which does not change what is computed before the update
        batch[RATE] = np.ones(len(inputs), np.float32)
    values = runner.trace(batch)
    size = inputs.size * VOCABULARY
    logits = next(value for value in values if value.size == size and value.dtype == np.float32)
    return logits.reshape(*inputs.shape, VOCABULARY)


def generated(folder: Path, prompt: str) -> tuple[Array, int]:
    """Tokens of the prompt and what the folder's model takes for the likeliest to follow, and how many are the prompt's."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    words = AutoTokenizer.from_pretrained(folder)(prompt, return_tensors="pt")
    length = words.input_ids.shape[1]
    model = AutoModelForCausalLM.from_pretrained(folder)
    return model.generate(**words, max_new_tokens=CONTEXT - length, do_sample=False)[0].numpy(), length
