"""Correlations of histories too large for one machine: the numbers of `tidegate.analysis.correlation`, on Spark.

Pearson: one pass adds up n, Σx, Σx² and Σxy for each pair of metrics over the samples that both have, after centring
by means from a sample. The sums of a task take a few kilobytes, so nothing large is collected.

Spearman: ranks need an order. A sample gives the edges of up to 4096 bins per metric. Edges are separate bins, so a
frequent value keeps its own bin. One pass counts every bin exactly, and a second correlates the mean ranks of the bins.
Up to 50 000 samples, every value is a bin and the ranks are exact. Above that, samples inside one bin count as ties,
which changes ρ by far less than 0.0001. Pairs whose metrics miss different samples are ranked over shared samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidegate.analysis.correlation import Coefficients, Correction, Correlations, Measured, judge
from tidegate.domain import InvalidInput
from tidegate.history.metrictable import MetricTable
from tidegate.history.parquet import TIME_COLUMNS

Floats = npt.NDArray[np.float64]
BINS = 4096
EXACT_ROWS = 50_000
_SAMPLE_ROWS = 100_000
_MOST_TASKS = 32
_LABELS = {"application", "day", "batch_id", *TIME_COLUMNS}
_Sums = Callable[[Floats], tuple[Floats, ...]]


def correlate_frame(
    frame: DataFrame, columns: Sequence[str] | None = None, correction: Correction = "bh"
) -> Correlations:
    """Correlate the numeric columns of a frame, pairwise-complete. Effective sample sizes are not computed here."""
    names = tuple(columns) if columns is not None else numeric_columns(frame)
    if len(names) < 2:
        raise InvalidInput("correlations need at least two numeric columns")
    numbers = frame.select([F.col(f"`{name}`").cast("double").alias(f"c{at}") for at, name in enumerate(names)])
    rows = numbers.count()
    share = min(1.0, _SAMPLE_ROWS / max(rows, 1))  # no limit() after it, which would run in a single task
    exact = rows <= EXACT_ROWS
    sample = _collect(numbers if exact else numbers.sample(fraction=share, seed=1), len(names))
    linear = _moments(numbers, _centred(sample))
    ranked = _spearman(numbers, sample, linear.n, exact)
    return judge(Measured(names, rows, linear, ranked, "spark"), correction)


def correlate_table(spark: SparkSession, table: MetricTable, correction: Correction = "bh") -> Correlations:
    """Correlate a table in memory: what `--engine spark` does with histories that fit."""
    columns = {name: pa.array(table.values[:, at], from_pandas=True) for at, name in enumerate(table.names)}
    return correlate_frame(spark.createDataFrame(pa.table(columns)), table.names, correction)


def correlate_history(
    spark: SparkSession, path: str, application: str, names: Sequence[str], correction: Correction = "bh"
) -> Correlations:
    """Correlate metrics of one application in a Parquet history of any length, without cold batches."""
    frame = spark.read.option("mergeSchema", "true").parquet(path)
    if "application" in frame.columns:
        frame = frame.where(F.col("application").cast("string") == application)
    if "warming" in frame.columns:
        frame = frame.where(F.coalesce(F.col("warming"), F.lit(0.0)) != 1.0)
    return correlate_frame(frame, names, correction)


def numeric_columns(frame: DataFrame) -> tuple[str, ...]:
    """The metrics of a history: all numbers except times and labels."""
    kinds = ("double", "float", "int", "bigint", "smallint", "tinyint")
    return tuple(name for name, kind in frame.dtypes if kind in kinds and name not in _LABELS)


def _centred(sample: Floats) -> Callable[[Floats], Floats]:
    """Shift and scale by the sample's means and deviations, because sums of large numbers would lose precision."""
    with np.errstate(invalid="ignore"):
        present = np.isfinite(sample).any(axis=0)
        shift, scale = np.zeros(sample.shape[1]), np.ones(sample.shape[1])
        if present.any():
            shift[present] = np.nanmean(sample[:, present], axis=0)
            scale[present] = np.nanstd(sample[:, present], axis=0)
    scale[~(scale > 0)] = 1.0
    return lambda values: (values - shift) / scale


def _moments(numbers: DataFrame, transform: Callable[[Floats], Floats]) -> Coefficients:
    """Pearson coefficients of the transformed columns, from one pass."""

    def sums(values: Floats) -> tuple[Floats, ...]:
        found = transform(values)
        present = np.isfinite(found)
        found = np.where(present, found, 0.0)
        mask = present.astype(np.float64)
        return mask.T @ mask, found.T @ mask, (found**2).T @ mask, found.T @ found

    n, total, squares, products = _fold(numbers, sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = products - total * total.T / n
        variance = squares - total**2 / n
        # Rounding leaves a small variance in a constant column.
        variance = np.where(variance > 1e-12 * np.maximum(squares, 1e-300), variance, np.nan)
        r = covariance / np.sqrt(variance * variance.T)
    r = np.where(n > 1, np.clip(r, -1.0, 1.0), np.nan)
    np.fill_diagonal(r, np.where(np.isfinite(np.diag(r)), 1.0, np.nan))
    return Coefficients(r, n.astype(np.int64))


def _spearman(numbers: DataFrame, sample: Floats, n: npt.NDArray[np.int64], exact: bool) -> Coefficients:
    """Columns that miss the same samples are ranked together, other pairs over the samples they share."""
    metrics = sample.shape[1]
    edges = [_edges(column, exact) for column in sample.T]
    groups = _same_samples(n)
    r = np.full((metrics, metrics), np.nan)
    for first, left in enumerate(groups):
        for right in groups[first:]:
            both = left if left is right else left + right
            # If they share as many samples as each has, both miss the same samples.
            shared = numbers.select([f"c{at}" for at in both])
            if n[left[0], right[0]] < max(n[left[0], left[0]], n[right[0], right[0]]):
                shared = shared.dropna(subset=[f"c{left[0]}", f"c{right[0]}"])
            found = _moments(shared, _ranks(shared, [edges[at] for at in both])).r
            r[np.ix_(both, both)] = np.where(np.isnan(r[np.ix_(both, both)]), found, r[np.ix_(both, both)])
            if left is not right:
                place = {at: position for position, at in enumerate(both)}
                for i in left:
                    for j in right:
                        r[i, j] = r[j, i] = found[place[i], place[j]]
    return Coefficients(r, n)


def _same_samples(n: npt.NDArray[np.int64]) -> list[list[int]]:
    """Columns grouped by the samples they have: two belong together if each has exactly the samples they share."""
    groups: list[list[int]] = []
    for at in range(len(n)):
        for group in groups:
            other = group[0]
            if n[at, other] == n[at, at] == n[other, other]:
                group.append(at)
                break
        else:
            groups.append([at])
    return groups


def _edges(column: Floats, exact: bool) -> Floats:
    present = column[np.isfinite(column)]
    values = np.unique(present)
    if exact or len(values) <= BINS:
        return values
    return np.unique(np.quantile(present, np.linspace(0.0, 1.0, BINS), method="nearest"))


def _bin(values: Floats, edges: Floats) -> npt.NDArray[np.int64]:
    """Odd bins hold one value, an edge. Even bins hold the values between two edges."""
    at = np.searchsorted(edges, values)
    on_edge = at < len(edges)
    on_edge[on_edge] = edges[at[on_edge]] == values[on_edge]
    return np.asarray(2 * at + on_edge, dtype=np.int64)


def _ranks(numbers: DataFrame, edges: list[Floats]) -> Callable[[Floats], Floats]:
    """A function that maps values to centred mean ranks, after one pass that counts the bins."""

    def counts(values: Floats) -> tuple[Floats, ...]:
        found = []
        for column, cuts in zip(values.T, edges, strict=True):
            present = np.sort(column[np.isfinite(column)])  # sorted values are binned more than twice as fast
            found.append(np.bincount(_bin(present, cuts), minlength=2 * len(cuts) + 2).astype(np.float64))
        return tuple(found)

    middles = []
    for count in _fold(numbers, counts):
        before = np.concatenate([[0.0], np.cumsum(count)[:-1]])
        middles.append((before + (count + 1.0) / 2.0) / max(count.sum(), 1.0) - 0.5)

    def ranks(values: Floats) -> Floats:
        found = np.full(values.shape, np.nan)
        for at, (cuts, middle) in enumerate(zip(edges, middles, strict=True)):
            present = np.isfinite(values[:, at])
            found[present, at] = middle[_bin(values[present, at], cuts)]
        return found

    return ranks


def _fold(numbers: DataFrame, sums: _Sums) -> tuple[Floats, ...]:
    """Apply `sums` to every chunk of rows and add up the results, first in each task, then here."""

    def add_up(chunks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total: list[Floats] | None = None
        for chunk in chunks:
            found = sums(_matrix(chunk))
            total = [*found] if total is None else [a + b for a, b in zip(total, found, strict=True)]
        if total is not None:
            yield pa.RecordBatch.from_pydict({"part": pa.array([part.tobytes() for part in total], pa.binary())})

    width = len(numbers.columns)
    empty = sums(np.zeros((0, width)))
    total = [*empty]
    task: list[bytes] = []
    # Not toLocalIterator(), which runs one partition after another. Few tasks, so that their sums fit in the driver.
    tasks = max(_MOST_TASKS, 2 * numbers.sparkSession.sparkContext.defaultParallelism)
    for row in numbers.coalesce(tasks).mapInArrow(add_up, "part binary").collect():
        task.append(bytes(row["part"]))
        if len(task) == len(total):
            total = [
                whole + np.frombuffer(part, dtype=np.float64).reshape(whole.shape)
                for whole, part in zip(total, task, strict=True)
            ]
            task = []
    return tuple(total)


def _matrix(chunk: pa.RecordBatch) -> Floats:
    columns = [column.to_numpy(zero_copy_only=False) for column in chunk.columns]
    values = np.column_stack(columns).astype(np.float64, copy=False)
    values[np.isinf(values)] = np.nan
    return values


def _collect(numbers: DataFrame, width: int) -> Floats:
    found = numbers.toArrow()
    if not found.num_rows:
        return np.zeros((0, width))
    return np.concatenate([_matrix(chunk) for chunk in found.to_batches() if chunk.num_rows])
