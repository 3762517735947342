"""What a program cannot say, told where the user can see it: module, source line, operator, and what to write instead."""

from __future__ import annotations


class TraceRefused(ValueError):
    """The module, the loss or the optimizer is outside what a program can express.

    site: where in the user's source, empty when no line is to blame. hint: what to do instead.
    """

    def __init__(self, what: str, *, hint: str = "", site: str = "") -> None:
        self.what, self.hint, self.site = what, hint, site
        parts = [f"{site}: {what}" if site else what]
        if hint:
            parts.append(f"Instead: {hint}.")
        super().__init__("\n  ".join(parts))

    def at(self, site: str) -> TraceRefused:
        """The same refusal, with the place it was missing."""
        return TraceRefused(self.what, hint=self.hint, site=self.site or site)


HINTS = {
    "_local_scalar_dense": "keep the number in a tensor: torch.where for choices, shapes for sizes; a program is the same for all data",
    "nonzero": "use torch.where with a mask of fixed shape; the shapes of a program do not depend on data",
    "masked_select": "multiply by the mask, or torch.where; the shapes of a program do not depend on data",
    "unique": "its shape depends on data; a program's shapes are fixed",
    "_fft_r2c": "convolutions and matmuls with fixed matrices are supported, Fourier transforms are not",
    "_fft_c2c": "convolutions and matmuls with fixed matrices are supported, Fourier transforms are not",
    "sort": "topk along the last axis is supported where torch.where and max cannot do",
    "_conv_depthwise2d": "use torch.nn.Conv2d on float32 tensors of the CPU",
}
DTYPE_HINT = "cast to float32 (integers to int64 or int32); a program computes in float32 alone"
FALLBACK_HINT = "write it with elementwise arithmetic, matmul, sum, max, where, gather or convolution"


def hint_of(operator: str) -> str:
    return HINTS.get(operator, FALLBACK_HINT)
