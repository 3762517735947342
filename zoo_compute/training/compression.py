"""Compression of updates, written as a graph, so that it is computed, committed to and refereed like a training step.

A tensor of E elements is cut, row-major, into n = ceil(E / chunk) chunks of ceil(E / n) words, the last one padded with +0. NaN and
infinities count as +0. Each chunk keeps the k elements with the largest keys, k = max(1, round(keep * words / chunk)).
An element's key is the word of its absolute value with the lowest 12 bits replaced by 4095 minus its index: distinct signed
integers, ordered by magnitude (11 bits of mantissa), then by lower index. The smallest kept key is computed bit by bit, by
counting; nothing is sorted. A kept element decodes to its sign and one of 2^(bits - 1) magnitudes:

    t + (q + 1/2) * w,  q = min(floor((|x| - t) / w), levels - 1),  w = (m - t) / levels

t is the smallest kept magnitude (+0 if all are kept), m the chunk's largest. t, w and, with 2 bits, the magnitudes themselves
are truncated to bfloat16, towards zero, so that no chunk decodes to more than its largest element.

With 1 bit a chunk sends the signs of random elements and one magnitude s: the mean of its nonzero ones times chunk / keep, so
that the mean of many updates is as large as the changes; at most the largest float32. An element is kept if the Philox word of
(its index, the chunk's number) under the key s is, as a signed integer, below round(keep / chunk * 2^32) - 2^31. So the places
follow from s, which is sent anyway and differs between slots and rounds. What one slot leaves out another one sends, or a later
round: nothing has to be remembered.
"""

from __future__ import annotations

from math import lgamma, log

from repops.builder import Builder, View
from repops.words import SIGN
from zoo_compute.formats.manifest import EXACT, Compression

INDEX = 0xFFF  # the bits of a key that encode the element's index in its chunk
BFLOAT16 = 0xFFFF0000
LARGEST = 0x7F7FFFFF  # the word of the largest finite float32


def zero_nonfinite(writer: Builder, x: View) -> View:
    """x, with +0 for NaN and infinities."""
    size = writer.map("and", writer.map("bits", x), SIGN - 1)
    return writer.map("where", writer.map("ilt", LARGEST, size), 0.0, x)


def decoded_update(writer: Builder, x: View, how: Compression) -> View:
    """The values that a reader of the update decodes from finite x: mostly +0."""
    if not x.elements:
        return x
    x_CW = _chunks(writer, x, how.chunk)
    size = writer.map("and", writer.map("bits", x_CW), SIGN - 1)
    kept, column = _random(writer, size, how) if how.sends_signs else _largest(writer, size, how)
    if how.bits != EXACT:
        sign = writer.map("and", writer.map("bits", x_CW), SIGN)
        magnitude = column if how.sends_signs else _quantised(writer, size, column, how.bits)
        x_CW = writer.map("from_bits", writer.map("or", sign, magnitude))
    zero = writer.scalar(0.0, x.dtype)
    some = writer.map("add", writer.map("where", kept, x_CW, zero), zero)  # a magnitude of 0 has no sign
    return writer.reshape(writer.reshape(some, (some.elements,)).slice(0, 0, x.elements), x.shape)


def packed_bits(elements: int, how: Compression) -> float:
    """Estimated bits of a tensor's update: for each chunk the set of kept elements, their values, and two bfloat16.

    Assumes that all values are equally likely; the entropy coder needs less when they are not.
    """
    if not elements:
        return 0.0
    count, words = chunk_shape(elements, how.chunk)
    if how.sends_signs:
        return count * (words * how.fraction + 32)
    keep = _kept(words, how)
    places = (lgamma(words + 1) - lgamma(keep + 1) - lgamma(words - keep + 1)) / log(2)
    return count * (places + keep * how.bits + (0 if how.bits == EXACT else 32))


def chunk_shape(elements: int, chunk: int) -> tuple[int, int]:
    """The number of chunks, and the words of each, of a tensor of so many elements."""
    count = -(-elements // chunk)
    return count, -(-elements // max(count, 1))


def _chunks(writer: Builder, x: View, chunk: int) -> View:
    count, words = chunk_shape(x.elements, chunk)
    flat = writer.reshape(x, (x.elements,))
    return writer.reshape(writer.pad(flat, 0, 0, count * words - x.elements), (count, words))


def _largest(writer: Builder, size_CW: View, how: Compression) -> tuple[View, View]:
    """Whether each element is kept, and the word of the smallest kept magnitude, as a column. size_CW: words of magnitudes."""
    count, words = size_CW.shape
    some = writer.map("ilt", 0, size_CW)
    keep = _kept(words, how)
    if keep == words:
        return some, writer.scalar(0, size_CW.dtype).expand((count, 1))
    places = writer.map("isub", INDEX, writer.iota(words))
    key = writer.map("or", writer.map("and", size_CW, 0x7FFFFFFF ^ INDEX), places)
    least = writer.scalar(0, key.dtype).expand((count,))
    for bit in range(30, -1, -1):
        tried = writer.map("or", least, 1 << bit)
        below = writer.reduce("isum", writer.map("ilt", key, tried.unsqueeze(1)), [1])
        least = writer.map("where", writer.map("ilt", words - keep, below), least, tried)
    chosen = writer.map("ieq", writer.map("ilt", key, least.unsqueeze(1)), 0)
    return writer.map("and", chosen, some), least.unsqueeze(1)


def random_bound(how: Compression) -> int:
    """An element is sent if its Philox word, as a signed integer, is below this."""
    return min(round(how.fraction * 2**32), 2**32 - 1) - 2**31


def _random(writer: Builder, size_CW: View, how: Compression) -> tuple[View, View]:
    """Whether each element is kept, and the word of the chunk's magnitude, as a column."""
    count, words = size_CW.shape
    some = writer.map("ilt", 0, size_CW)
    nonzero = writer.reduce("isum", some, [1])
    nonzero = writer.map("to_float", writer.map("where", writer.map("ilt", 0, nonzero), nonzero, 1))
    total = writer.reduce("sum", writer.map("from_bits", size_CW), [1])
    mean = writer.map("bits", writer.map("div", total, writer.map("mul", nonzero, how.fraction)))
    magnitude = writer.map("where", writer.map("ilt", LARGEST, mean), LARGEST, mean).unsqueeze(1)
    word = writer.map("random", writer.iota(words), writer.iota(count).unsqueeze(1), magnitude)
    return writer.map("and", writer.map("ilt", word, random_bound(how)), some), magnitude


def _kept(words: int, how: Compression) -> int:
    return max(1, round((how.keep or how.chunk) * words / how.chunk))


def _quantised(writer: Builder, size_CW: View, least_C1: View, bits: int) -> View:
    """The words of the magnitudes to which kept elements decode."""
    levels = 1 << (bits - 1)
    most = writer.reduce("reduce_imax", size_CW, [1]).unsqueeze(1)
    low = writer.map("from_bits", writer.map("and", least_C1, BFLOAT16))
    span = writer.map("mul", writer.map("sub", writer.map("from_bits", most), low), 1 / levels)
    width = writer.map("from_bits", writer.map("and", writer.map("bits", span), BFLOAT16))
    above = writer.map("sub", writer.map("from_bits", size_CW), low)
    step = writer.map("to_int", writer.map("div", above, width))  # 0 / 0 is 0
    step = writer.map("where", writer.map("ilt", step, levels), step, levels - 1)
    middle = writer.map("add", writer.map("to_float", step), 0.5)
    magnitude = writer.map("bits", writer.map("fma", middle, width, low))
    return writer.map("and", magnitude, BFLOAT16) if bits == 2 else magnitude
