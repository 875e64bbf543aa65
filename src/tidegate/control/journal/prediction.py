"""Columns of integers, each predicted from earlier columns. Only the residuals are stored.

A batch's busy time is the sum of its operators' busy times, a reason repeats the arrival rate, latencies follow the
duration. None of these relations is hard-coded. For every column a few earlier columns are chosen by orthogonal
matching pursuit (Pati, Rezaiifar, Krishnaprasad 1993), as lossless audio coders predict one channel from another:

    target[i] = residual[i] + floor((bias + Σ weight_j · reference_j[i] + ½) / 2^20)

All arithmetic is on integers, so every machine reads back the same values. Targets are a column's values relative to
its first value, or their differences. References are other columns at the same steps, treated the same way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate.control.journal.bitpacking import Joined, Numbers, Sink, Source, Split, low_bits, zigzag

_SCALE = 20
_HALF = 1 << (_SCALE - 1)
_MOST_REFERENCES = 4
_REFERENCE_BITS = 40.0  # cost of naming another column and its weight
_NEAREST = 512  # candidate columns; keeps the search linear in the number of columns
_SAFE = float(1 << 61)
_NO_RESIDUALS = 63  # in place of k

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """Numbers and the steps at which they were seen, in increasing order."""

    rows: npt.NDArray[np.int64]
    values: Numbers


@dataclass(frozen=True, slots=True)
class _Model:
    differences: bool
    references: tuple[int, ...]
    weights: tuple[int, ...]
    bias: int

    def predict(self, features: Sequence[Numbers], count: int) -> Numbers:
        total = np.full(count, self.bias + _HALF, np.int64)
        for weight, feature in zip(self.weights, features, strict=True):
            total += weight * feature
        return total >> _SCALE


def write_columns(columns: Sequence[NumberColumn], steps: int, meta: Sink, split: Split) -> None:
    """Append all columns. The reader knows their rows from elsewhere."""
    dense = [_dense(column, steps) for column in columns]
    changing = [index for index, values in enumerate(dense) if values.any()]
    groups: dict[bytes, list[int]] = {}
    for index in changing:
        if len(columns[index].values) > 1:
            groups.setdefault(columns[index].rows.tobytes(), []).append(index)
    models: dict[int, tuple[_Model, Numbers]] = {}
    for members in groups.values():
        start, end = bisect_left(changing, members[0]), bisect_left(changing, members[-1])
        search = _Search(columns[members[0]].rows, dense, changing[max(0, start - _NEAREST) : end + 1])
        for index in members:
            models[index] = search.best(index)
    for index, column in enumerate(columns):
        if not len(column.values):
            continue
        meta.number(int(column.values[0]))
        if len(column.values) == 1:
            continue
        model, residuals = models.get(index) or (_Model(False, (), (), 0), np.zeros(len(column.values), np.int64))
        k = split.add(residuals) if residuals.any() else _NO_RESIDUALS
        meta.count(k << 1 | model.differences)
        meta.count(len(model.references))
        meta.number(model.bias)
        for reference, weight in zip(model.references, model.weights, strict=True):
            meta.count(index - reference)
            meta.number(weight)


def read_columns(rows: Sequence[npt.NDArray[np.int64]], steps: int, meta: Source, joined: Joined) -> list[Numbers]:
    """The values of columns whose rows are known."""
    found: list[Numbers] = []
    dense: list[Numbers] = []
    for index, at in enumerate(rows):
        if not len(at):
            values = np.zeros(0, np.int64)
        elif len(at) == 1:
            values = np.array([meta.number()], np.int64)
        else:
            first = meta.number()
            head = meta.count()
            differences, k = bool(head & 1), head >> 1
            count, bias = meta.count(), meta.number()
            named = [(index - meta.count(), meta.number()) for _ in range(count)]
            model = _Model(differences, tuple(name for name, _ in named), tuple(weight for _, weight in named), bias)
            features = [_feature(dense[name], at, differences) for name in model.references]
            target = model.predict(features, len(at))
            if k != _NO_RESIDUALS:
                target = target + joined.take(len(at), k)
            values = (np.cumsum(target) if differences else target) + first
        found.append(values)
        dense.append(_dense(NumberColumn(at, values), steps))
    return found


class _Search:
    """Searches for predictors among columns that were seen at the same steps."""

    def __init__(self, rows: npt.NDArray[np.int64], dense: Sequence[Numbers], changing: Sequence[int]) -> None:
        self._rows = rows
        self._dense = dense
        self._names = np.array(changing, np.int64)
        level = np.stack([dense[name][rows] for name in changing]).astype(np.float64)
        self._bases = tuple(_normal(values) for values in (level, np.diff(level, axis=1, prepend=level[:, :1])))

    def best(self, index: int) -> tuple[_Model, Numbers]:
        """The model that needs the fewest bits, and its residuals."""
        found: tuple[_Model, Numbers] | None = None
        least = np.inf
        end = int(np.searchsorted(self._names, index))
        start = max(0, end - _NEAREST)
        for differences in (False, True):
            target = _feature(self._dense[index], self._rows, differences)
            base = self._bases[differences][start:end]
            chosen: list[int] = []
            for _ in range(_MOST_REFERENCES + 1):
                model = self._fit(target, chosen, differences)
                if model is None:
                    break
                features = [_feature(self._dense[name], self._rows, differences) for name in chosen]
                residuals = target - model.predict(features, len(target))
                bits = _bits(residuals) + _REFERENCE_BITS * len(chosen)
                if bits < least:
                    least, found = bits, (model, residuals)
                elif chosen:
                    break
                if not residuals.any() or not len(base):
                    break
                left = residuals - residuals.mean()
                match = np.abs(base @ left)
                best = int(match.argmax())
                name = int(self._names[start + best])
                if match[best] <= 1e-9 or name in chosen:
                    break
                chosen.append(name)
        if found is None:
            raise ArithmeticError("a column without references always has a model")
        return found

    def _fit(self, target: Numbers, chosen: Sequence[int], differences: bool) -> _Model | None:
        """Least squares in fixed point; None if the sums could overflow 64 bits."""
        features = [_feature(self._dense[name], self._rows, differences) for name in chosen]
        wanted = target.astype(np.float64)
        matrix = np.stack([*(feature.astype(np.float64) for feature in features), np.ones(len(target))], axis=1)
        middle = np.array([np.median(wanted)])
        weights = np.linalg.lstsq(matrix, wanted, rcond=None)[0] if chosen else middle
        scaled = np.rint(weights * (1 << _SCALE))
        if not np.all(np.abs(scaled) < 1 << 50) or (np.abs(matrix) @ np.abs(scaled)).max() > _SAFE:
            return None if chosen else _Model(differences, (), (), 0)
        *some, bias = (int(weight) for weight in scaled)
        return _Model(differences, tuple(chosen), tuple(some), bias)


def _dense(column: NumberColumn, steps: int) -> Numbers:
    """One value per step: the last one seen, relative to the first."""
    if not len(column.values):
        return np.zeros(steps, np.int64)
    values: Numbers = column.values - column.values[0]
    if len(values) == steps:
        return values
    newest = np.searchsorted(column.rows, np.arange(steps), side="right") - 1
    return np.where(newest >= 0, values[np.maximum(newest, 0)], 0)


def _feature(dense: Numbers, rows: npt.NDArray[np.int64], differences: bool) -> Numbers:
    values: Numbers = dense[rows]
    return np.diff(values, prepend=values[:1]) if differences else values


def _normal(values: Floats) -> Floats:
    """Rows with zero mean and length 1. Constant rows stay zero."""
    centred = values - values.mean(axis=1, keepdims=True)
    length = np.sqrt((centred * centred).sum(axis=1, keepdims=True))
    normal: Floats = centred / np.where(length > 0, length, 1.0)
    return normal


def _bits(residuals: Numbers) -> float:
    """Their cost: low bits as they are, quotients by their entropy."""
    values = zigzag(residuals)
    k = low_bits(values)
    quotients = np.minimum(values >> np.uint64(k), np.uint64(255)).astype(np.int64)
    counts = np.bincount(quotients)
    counts = counts[counts > 0]
    entropy = float((counts * np.log2(len(values) / counts)).sum())
    return len(values) * k + entropy
