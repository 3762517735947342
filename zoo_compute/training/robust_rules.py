"""Robust rules that aggregate all slots' updates, some of which may be hostile, written as nodes of the aggregation program.

A rule needs only the inner products of whole updates, one matrix of slots x slots. From it `weigh_rows` computes which rows
count, and their weights or how they are mixed; `aggregate_rows` then works tensor by tensor. A worker therefore needs memory
for one tensor of all slots, and may run the program in parts.

A row counts if its squared norm is above zero and below MAX_SQUARED_NORM. Rows of absent slots, rows of zeros, and rows with an
infinity or NaN do not count: they have no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from repops.builder import Builder, View
from repops.graph import F32, I32
from zoo_compute.formats.aggregation import Aggregation

MAX_SQUARED_NORM = 2.0**100  # below this, sums of products over the maximum number of slots stay finite
WEISZFELD, CENTRINGS = 8, 4  # iterations of the geometric median, of centred clipping
MIN_DIVISOR = 2.0**-60  # the least divisor: for squares of unit vectors, or relative to the median norm
BUCKET = 2


def row_mean(b: Builder, rows: View, number: View) -> View:
    """The sum of the rows (slots, *shape) in ascending order of slots, divided by `number`."""
    return b.map("div", b.reduce("sum_sequential", rows, [0]), number)


def nonzero_rows(b: Builder, rows: View) -> View:
    """How many rows have a nonzero value at each element; at least 1.

    Compressed updates keep different elements. Dividing by all slots would scale down an element that only one slot sends, as
    if the others had voted for no change.
    """
    number = b.sum(b.map("ieq", b.map("eq", rows, 0.0), 0), [0])
    return b.map("to_float", _at_least_one(b, number))


@dataclass(frozen=True)
class RowWeights:
    """How a rule combines rows, computed from the matrix of products.

    counted: (slots,) int32, 1 if a row counts. shares: float32, the weights (slots,) of a weighted sum, or for a coordinatewise
    rule the mixing matrix (slots, slots), if it mixes rows.
    """

    counted: View
    shares: View | None


def shares_shape(rule: Aggregation, slots: int) -> tuple[int, ...] | None:
    """The shape of `RowWeights.shares`."""
    if not rule.is_coordinatewise:
        return (slots,)
    return (slots, slots) if rule.mixing != "none" else None


def scores_shape(slots: int) -> tuple[int, int]:
    """One row per slot: norm over the median norm, cosine to the mean direction, weight."""
    return slots, 3


def row_products(b: Builder, rows: Iterable[View], total: View) -> View:
    """(slots, slots): the inner products of the rows (slots, *shape), added to `total` tensor by tensor."""
    for view in rows:
        flat = b.reshape(view, (view.shape[0], view.elements // view.shape[0]))
        total = b.map("add", total, b.matmul(flat, flat.transpose(0, 1)))
    return total


def weigh_rows(b: Builder, gram: View, rule: Aggregation) -> tuple[RowWeights, View]:
    """The row weights and the slots' scores. gram: `row_products` of all tensors."""
    rows = _Rows.of(b, gram, rule.hostile)
    mixing = {"none": lambda: None, "nearest": rows.nearest, "buckets": rows.buckets}[rule.mixing]()
    mixed = rows if mixing is None else rows.mixed(mixing)
    if rule.is_coordinatewise:
        weights, shares = rows.equal_weights(), mixing
    else:
        weights = shares = _WEIGHTS[rule.rule](mixed)
    if mixing is not None:
        weights = rows.sum(b.map("mul", mixing.transpose(0, 1), weights))
        shares = mixing if rule.is_coordinatewise else weights
    return RowWeights(rows.counted, shares), rows.scores(weights)


def aggregate_rows(b: Builder, rows: View, verdict: RowWeights, rule: Aggregation) -> View:
    """Aggregate one tensor's rows (slots, *shape) to (*shape)."""
    slots, shape = rows.shape[0], rows.shape[1:]
    flat = b.reshape(rows, (slots, rows.elements // slots))
    counted = verdict.counted.unsqueeze(1)
    if not rule.is_coordinatewise:
        assert verdict.shares is not None
        terms = b.map("mul", verdict.shares.unsqueeze(1), b.map("where", counted, flat, 0.0, dtype=F32))
        return b.reshape(b.reduce("sum_sequential", terms, [0]), shape)
    if verdict.shares is not None:
        flat = b.matmul(verdict.shares, b.map("where", counted, flat, 0.0, dtype=F32))
    count = b.sum(verdict.counted, [0])
    trim = _middle(b, count) if rule.rule == "median" else _hostile(b, count, rule.hostile)
    values = b.map("where", counted, flat, float("-inf"), dtype=F32)  # below what counts
    place = b.rank(values, 0)
    above, below = b.map("ilt", place, trim), b.map("ilt", place, b.map("isub", count, trim))
    kept = b.map("where", b.map("ilt", above, below), values, 0.0, dtype=F32)
    number = _at_least_one(b, b.map("isub", count, b.map("iadd", trim, trim)))
    row_mean = b.map("div", b.reduce("sum_sequential", kept, [0]), b.map("to_float", number))
    return b.reshape(row_mean, shape)


def _at_least_one(b: Builder, count: View) -> View:
    return b.map("where", b.map("ilt", count, 1), 1, count, dtype=I32)


def _middle(b: Builder, count: View) -> View:
    """How many rows to drop at each end so that only the middle one or two remain."""
    return b.map("idiv", b.map("isub", _at_least_one(b, count), 1), 2)


def _hostile(b: Builder, count: View, hostile: int) -> View:
    """The hostile rows that the job expects, but fewer than half of the rows that count."""
    most = _middle(b, count)
    return b.map("where", b.map("ilt", most, hostile), most, hostile, dtype=I32)


@dataclass(frozen=True)
class _Rows:
    """The rows that count, as one sees them from their products alone.

    gram: products, 0 of what does not count. square: its diagonal. one: 1 row or more, for dividing.
    """

    b: Builder
    gram: View
    counted: View
    count: View
    hostile: View
    square: View
    whole: View  # the squared norms as given, also of what does not count

    @classmethod
    def of(cls, b: Builder, gram: View, hostile: int) -> _Rows:
        square = _diagonal(b, gram)
        counted = b.map("and", b.map("lt", 0.0, square), b.map("lt", square, MAX_SQUARED_NORM))
        both = b.map("and", counted.unsqueeze(1), counted.unsqueeze(0))
        clean = b.map("where", both, gram, 0.0, dtype=F32)
        count = b.sum(counted, [0])
        return cls(b, clean, counted, count, _hostile(b, count, hostile), _diagonal(b, clean), square)

    @property
    def slots(self) -> int:
        return self.gram.shape[0]

    @property
    def number(self) -> View:
        """The number of rows that count, as a divisor."""
        return self.b.map("to_float", _at_least_one(self.b, self.count))

    def sum(self, view: View) -> View:
        return self.b.reduce("sum_sequential", view, [view.rank - 1])

    def where_counted(self, view: View, otherwise: float = 0.0) -> View:
        """`view` (..., slots), with `otherwise` for rows that do not count."""
        return self.b.map("where", self.counted, view, otherwise, dtype=F32)

    def equal_weights(self) -> View:
        return self.b.map("div", self.b.map("to_float", self.counted), self.number)

    def median(self, sizes: View) -> View:
        """The median of the rows that count; the lower of two middle values."""
        place = self.b.rank(self.where_counted(sizes, float("-inf")), 0)
        middle = self.b.map("and", self.counted, self.b.map("ieq", place, self.b.map("idiv", self.count, 2)))
        return self.sum(self.b.map("where", middle, sizes, 0.0, dtype=F32))

    def smallest(self, sizes: View, count: View) -> View:
        """1 for the `count` smallest along the last axis among rows that count; ties by index."""
        place = self.b.rank(self.where_counted(self.b.map("neg", sizes), float("-inf")), sizes.rank - 1)
        return self.b.map("and", self.counted, self.b.map("ilt", place, count))

    def clipped(self, sizes: View) -> View:
        """min(1, median size / size); 0 for rows that do not count."""
        return self.where_counted(self.b.map("min", 1.0, self.b.map("div", self.median(sizes), sizes)))

    # --- how rows lie to each other

    def distances(self) -> View:
        """Squared distances, (slots, slots); 0 from a row that counts to itself."""
        b = self.b
        far = b.map("sub", b.map("add", self.square.unsqueeze(1), self.square), b.map("add", self.gram, self.gram))
        return b.map("max", 0.0, far)

    def from_centre(self, weights: View) -> View:
        """The rows' distances from their weighted sum, at least MIN_DIVISOR of the median norm."""
        b = self.b
        along = self.sum(b.map("mul", self.gram, weights))
        centre = self.sum(b.map("mul", weights, along))
        square = b.map("add", b.map("sub", self.square, b.map("add", along, along)), centre)
        return b.map("sqrt", b.map("max", square, b.map("mul", 1e-6, self.median(self.square))))

    # --- mixing

    def nearest(self) -> View:
        """Replace each row by the mean of its nearest rows, including itself: all but the number that may be hostile."""
        count = self.b.map("isub", self.count, self.hostile)
        return self._means(self.smallest(self.distances(), count))

    def buckets(self) -> View:
        """Replace each row by the mean of a bucket of two, drawn from the updates' own bits."""
        b = self.b
        key = b.sum(b.map("bits", self.square), [0])
        drawn = b.map("random", b.iota(self.slots), 0, key)
        place = b.rank(self.where_counted(b.map("from_bits", b.map("shr", drawn, 2)), float("-inf")), 0)
        bucket = b.map("idiv", place, BUCKET)
        return self._means(b.map("and", self.counted, b.map("ieq", bucket.unsqueeze(1), bucket)))

    def _means(self, chosen: View) -> View:
        """Turn a 0/1 matrix (slots, slots) into means over rows that count."""
        b = self.b
        chosen = b.map("and", self.counted.unsqueeze(1), chosen)
        number = b.map("to_float", _at_least_one(b, b.sum(chosen, [1])))
        return b.map("div", b.map("to_float", chosen), number.unsqueeze(1))

    def mixed(self, mixing: View) -> _Rows:
        b = self.b
        gram = b.matmul(b.matmul(mixing, self.gram), mixing.transpose(0, 1))
        return replace(self, gram=gram, square=_diagonal(b, gram))

    # --- rules by weights

    def clipped_mean(self) -> View:
        """The mean of the rows, each clipped to the median norm."""
        return self.b.map("div", self.clipped(self.b.map("sqrt", self.square)), self.number)

    def krum(self) -> View:
        """The mean of the rows whose nearest neighbours are closest: all but the number that may be hostile."""
        b, far = self.b, self.distances()
        honest = b.map("isub", self.count, self.hostile)
        near = self.smallest(far, b.map("isub", honest, 1))
        chosen = self.smallest(self.sum(b.map("where", near, far, 0.0, dtype=F32)), honest)
        return b.map("div", b.map("to_float", chosen), b.map("to_float", _at_least_one(b, b.sum(chosen, [0]))))

    def geometric_median(self) -> View:
        """Weiszfeld's iterations from the clipped mean: weights inverse to the distance from the centre."""
        b, weights = self.b, self.clipped_mean()
        for _ in range(WEISZFELD):
            pull = self.where_counted(b.map("div", 1.0, self.from_centre(weights)))
            weights = b.map("div", pull, b.map("max", self.sum(pull), MIN_DIVISOR))
        return weights

    def centred_clipping(self) -> View:
        """Starts at the clipped mean; each iteration moves the centre by the mean of the differences, clipped to their median."""
        b, weights = self.b, self.clipped_mean()
        for _ in range(CENTRINGS):
            step = b.map("div", self.clipped(self.from_centre(weights)), self.number)
            weights = b.map("add", b.map("sub", weights, b.map("mul", weights, self.sum(step))), step)
        return weights

    def scores(self, weights: View) -> View:
        """`scores_shape`: an infinite norm marks a row that does not count but is not all zeros."""
        b = self.b
        size = b.map("sqrt", self.square)
        along = self.sum(self.where_counted(b.map("div", self.gram, size)))
        direction = self.sum(self.where_counted(b.map("div", along, size)))
        length = b.map("mul", size, b.map("sqrt", b.map("max", direction, MIN_DIVISOR)))
        odd = b.map("where", b.map("eq", self.whole, 0.0), 0.0, float("inf"), dtype=F32)
        norm = b.map("where", self.counted, b.map("div", size, self.median(size)), odd, dtype=F32)
        columns = (norm, self.where_counted(b.map("div", along, length)), weights)
        return b.concat([column.unsqueeze(1) for column in columns], 1)


def _diagonal(b: Builder, matrix: View) -> View:
    extent = matrix.shape[0]
    return b.reshape(matrix, (extent * extent,)).slice(0, 0, extent * extent, extent + 1)


_WEIGHTS = {
    "clipped_mean": _Rows.clipped_mean,
    "krum": _Rows.krum,
    "geometric_median": _Rows.geometric_median,
    "centred_clipping": _Rows.centred_clipping,
}
