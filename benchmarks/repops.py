"""Are reproducible programs as fast as ordinary training, and do they learn the same? Measured beside torch, interleaved.

Prints a table, or one object with --json. Ratios are medians over interleaved rounds. KEY is measured with one thread, KEY_2t
with two:
  matmul_N            speed of the kernels' N x N x N product over torch.mm's (higher is better)
  step_gpt_small      time of a training step over native eager torch's with fused AdamW, 0.9M parameters (lower)
  step_gpt_13m        the same at 13M; *_sdpa and *_compiled: over torch with scaled_dot_product_attention, over torch.compile
  loss_gap            largest relative gap to torch's loss after 500 steps over three tasks; loss_gap_TASK one by one
  loss_gap_torch_TASK torch's own gap between one thread and two, the largest over the seeds
  loss_gap_ulp_TASK   torch's gap to itself from weights one float32 up: what the smallest change does in as many steps
  commit_overhead     hashing the state at every segment, over the time of the segment's steps
  peak_memory_13m     bytes a 13M step needs over what eager torch's needs
  bits                one hash of the state after the steps, over threads, instruction sets, fusion and processes
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])  # this file bears the library's name

from benchmarks.arithmetic.reproducible import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(__doc__))
