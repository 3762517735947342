"""Errors for unsupported code: they name the module, source line and operator, and what to write instead."""

from __future__ import annotations

import torch


class TraceRefused(ValueError):
    """A program cannot express this module, loss or optimizer.

    site: where in the user's source, empty when no line is to blame. hint: what to do instead.
    """

    def __init__(self, what: str, *, hint: str = "", site: str = "") -> None:
        self.what, self.hint, self.site = what, hint, site
        parts = [f"{site}: {what}" if site else what]
        if hint:
            parts.append(f"Instead: {hint}.")
        super().__init__("\n  ".join(parts))

    def at(self, site: str) -> TraceRefused:
        """The same error, with `site` if it had none."""
        return TraceRefused(self.what, hint=self.hint, site=self.site or site)


FIXED = "the shapes of a program do not depend on data"
FOURIER = "a matmul with fixed matrices of cosines and sines, which is a Fourier transform; or a learned convolution"
DECOMPOSED = "compute it outside and pass it as an input, or iterate a fixed number of matmuls (Newton-Schulz for roots, inverses and orthogonal factors)"
SPARSE = "dense tensors: gather and scatter_add for edges, Embedding(sparse=False)"

HINTS = {
    # control flow and shapes that depend on data
    "_local_scalar_dense": "keep the number in a tensor: torch.where for choices, shapes for sizes; a program is the same for all data",
    "equal": "torch.where on (a == b).all(); a program is the same for all data",
    "is_nonzero": "torch.where for choices; a program is the same for all data",
    "nonzero": f"use torch.where with a mask of fixed shape; {FIXED}",
    "nonzero_static": "topk of the mask gives as many places as you ask for",
    "masked_select": f"multiply by the mask, or torch.where; {FIXED}",
    "masked_scatter": "torch.where(mask, values, x), values of x's shape",
    "unique": f"its shape depends on data; {FIXED}",
    "_unique2": f"one_hot of a known number of classes, and sums over it; {FIXED}",
    "unique_dim": f"one_hot of a known number of classes, and sums over it; {FIXED}",
    "unique_consecutive": f"compare with the sequence shifted by one, a mask of fixed shape; {FIXED}",
    "bincount": "torch.nn.functional.one_hot(x, classes).sum(0)",
    "histc": "torch.bucketize with fixed edges, then one_hot(...).sum(0)",
    "histogram": "torch.bucketize with fixed edges, then one_hot(...).sum(0)",
    "_histogramdd_from_bin_cts": "torch.bucketize with fixed edges on each axis, then one_hot(...).sum(0)",
    "mode": "one_hot of a known number of classes, summed, then argmax",
    "_pack_padded_sequence": "the padded batch itself, and a mask in the loss (ignore_index of cross_entropy)",
    "repeat_interleave": f"pass output_size; {FIXED}",
    # random numbers
    "poisson": "torch.rand, randn, bernoulli, exponential_, multinomial and randperm are drawn; pass other numbers as an input",
    "geometric": "torch.floor(torch.log(torch.rand_like(x)) / math.log(1 - p)) + 1",
    "cauchy": "torch.tan(math.pi * (torch.rand_like(x) - 0.5))",
    "log_normal": "torch.exp(torch.randn_like(x) * std + mean)",
    "_standard_gamma": "pass the numbers as an input; torch.rand, randn, bernoulli and exponential_ are drawn",
    "_sample_dirichlet": "pass the numbers as an input; torch.rand, randn, bernoulli and exponential_ are drawn",
    "binomial": "a sum of torch.bernoulli",
    "fractional_max_pool2d": "torch.nn.functional.max_pool2d, whose windows are fixed",
    # Fourier
    "_fft_r2c": FOURIER,
    "_fft_c2c": FOURIER,
    "_fft_c2r": FOURIER,
    "stft": FOURIER,
    "hamming_window": "0.54 - 0.46 * torch.cos(2 * math.pi * torch.arange(n) / n)",
    # linear algebra
    **dict.fromkeys(
        (
            "_linalg_svd",
            "_linalg_eigh",
            "linalg_eig",
            "_linalg_eigvals",
            "linalg_qr",
            "linalg_cholesky_ex",
            "linalg_inv_ex",
            "linalg_lstsq",
            "_linalg_solve_ex",
            "linalg_solve_triangular",
            "triangular_solve",
            "cholesky_solve",
            "linalg_lu_factor_ex",
            "linalg_lu",
            "_linalg_det",
            "_linalg_slogdet",
            "linalg_householder_product",
            "linalg_matrix_exp",
        ),
        DECOMPOSED,
    ),
    # sparse
    "_sparse_coo_tensor_with_dims_and_tensors": SPARSE,
    "sparse_coo_tensor": SPARSE,
    "_to_sparse": SPARSE,
    "_sparse_mm": SPARSE,
    # layers
    "_embedding_bag": "torch.nn.EmbeddingBag with bags of one size, as input (bags, size)",
    "embedding_renorm_": "Embedding without max_norm, and torch.nn.functional.normalize of what it gives",
    "_ctc_loss": "cross entropy of aligned frames; a CTC lattice is a loop over data",
    "_cudnn_rnn": "the module on the CPU, while it is traced",
    "_conv_depthwise2d": "torch.nn.Conv2d on float32 tensors of the CPU",
    "_nested_tensor_from_mask": "enable_nested_tensor=False",
    "erfinv": "math.sqrt(2) * erfinv is the normal quantile: torch.randn draws such numbers; else a rational approximation",
    "lgamma": "Stirling's series: (x - 0.5) * log(x) - x + 0.5 * log(2 pi) + 1 / (12 x)",
    "digamma": "log(x) - 1 / (2 x) - 1 / (12 x * x), for x above 6 after x -> x + 1 steps",
    "i0": "its power series, a few terms",
}
DTYPE_HINT = "cast to float32 (integers to int64 or int32); a program computes in float32 alone"
FALLBACK_HINT = "write it with elementwise arithmetic, matmul, sum, max, sort, where, gather or convolution"
_DTYPES = {
    torch.complex64: "the real and the imaginary part as two tensors (rotary embeddings with cos and sin; a Fourier transform as a matmul with fixed matrices)",
    torch.complex128: "the real and the imaginary part as two tensors, in float32",
    torch.float16: "leave out half() and torch.autocast; a program computes in float32 alone, at the same price",
    torch.bfloat16: "leave out bfloat16 and torch.autocast; a program computes in float32 alone, at the same price",
    torch.float64: "leave out double() and dtype=torch.float64; a program computes in float32 alone",
}


def user_name(operator: str) -> str:
    """The operator's name in the user's code."""
    if operator == "_local_scalar_dense":
        return "reading a number out of a tensor (if, while, .item(), float())"
    return operator.strip("_").replace("linalg_", "linalg.").removesuffix("_ex")


def hint_of(operator: str) -> str:
    return HINTS.get(operator, FALLBACK_HINT)


def dtype_hint(dtype: torch.dtype) -> str:
    return _DTYPES.get(dtype, DTYPE_HINT)
