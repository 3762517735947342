"""A small model that knows one sentence, so that what it answers can be read."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from repops.files import state_bytes, write_file
from zoo_compute.jobs.config_file import read_file
from zoo_compute.models import gpt

SENTENCE = "the quick brown fox jumps over the lazy dog and runs on. "
STEPS, BATCH, RATE = 160, 16, 3e-3


def taught(service: Path) -> nn.Module:
    """The model that a service's file describes, after a few seconds of AdamW on the sentence."""
    section = read_file(service).content["model"]
    sizes = {name: section[name] for name in ("layers", "heads", "width", "context")}
    torch.manual_seed(0)
    module, loss_fn, _ = gpt.build(**sizes)
    text = torch.tensor(list((SENTENCE * 8).encode()))
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE)
    for _ in range(STEPS):
        starts = torch.randint(len(text) - sizes["context"] - 1, (BATCH,))
        rows = torch.stack([text[at : at + sizes["context"] + 1] for at in starts.tolist()])
        optimizer.zero_grad()
        loss_fn(module(rows[:, :-1]), rows[:, 1:]).backward()
        optimizer.step()
    return module.eval()


def save_weights(module: nn.Module, path: Path) -> None:
    write_file(path, state_bytes({name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}))
