"""Puts studies on one self-contained HTML page."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from matplotlib.figure import Figure

from tidegate.analysis.capacity import Profile
from tidegate.analysis.correlation import Correlations
from tidegate.analysis.report import figures
from tidegate.analysis.study import Study
from tidegate.history.metriccatalogue import metric_of

_MOST_PAIRS = 40
_MOST_DRIVERS = 8
_MOST_ANOMALIES = 40


def write_report(studies: Sequence[Study], source: str, notes: Sequence[str], path: Path) -> Path:
    """Write the page; return its path."""
    parts = [f"<h1>Analysis of {html.escape(source)}</h1>", _bullets(notes, "Everything was read.")]
    if not studies:
        parts.append("<p>No batches were found.</p>")
    parts += [_application(found) for found in studies]
    path.write_text(_PAGE.replace("@BODY@", "\n".join(parts)), encoding="utf-8")
    return path


def _application(found: Study) -> str:
    table = found.table
    parts = [
        f"<h2>{html.escape(table.application)}</h2>",
        f"<p>{len(table)} samples of {len(table.names)} metrics, {_span(table.times_s[-1] - table.times_s[0])}.</p>",
        "<h3>Recommendations</h3>",
        _bullets([each.text for each in found.recommendations], "Nothing stands out."),
        _bullets(found.notes, ""),
        "<h3>Latency and throughput</h3>",
        _picture(figures.draw_curves(table, found.anomalies), "Latency, rates and resources over time"),
        _anomalies(found),
        _profile(found),
        _drivers(found),
        _learning(found),
        _correlations(found),
        _factors(found),
    ]
    return "\n".join(part for part in parts if part)


def _anomalies(found: Study) -> str:
    rows = [
        [anomaly.metric, _span(anomaly.from_s - found.table.times_s[0]), str(anomaly.samples), f"{anomaly.score:.3f}"]
        for anomaly in found.anomalies[:_MOST_ANOMALIES]
    ]
    return "<h3>Anomalies</h3>" + (
        _table(["metric", "after", "samples", "score"], rows) if rows else "<p>None (or too few samples to tell).</p>"
    )


def _profile(found: Study) -> str:
    profile = found.profile
    if not profile.operators:
        return ""
    rows = [
        [
            each.operator,
            each.type or "–",
            f"{1000 * each.row_s:.3g} ms ({1000 * each.row_s_low:.3g} … {1000 * each.row_s_high:.3g})",
            f"{each.batch_s:.3g} s",
            str(each.slots),
            f"{each.sustainable_rows_per_s:.4g}"
            f" ({each.sustainable_low:.4g} … {_number(each.sustainable_high, 'no bound')})",
            f"{each.peak_rows_per_s:.4g}",
        ]
        for each in profile.operators
    ]
    head = ["operator", "type", "a row costs", "a batch costs", "slots", "sustains (rows/s)", "peak seen (rows/s)"]
    picture = _picture(figures.draw_profiles(found), "Busy time against rows, by operator")
    return f"<h3>Profiles</h3><p>{html.escape(profile_sentence(profile))}</p>{_table(head, rows)}{picture}"


def profile_sentence(profile: Profile) -> str:
    """What the application sustains, and when the load will exceed it."""
    if profile.sustainable_rows_per_s is None:
        return "The slots are not known, so the sustainable load of the whole application is not known either."
    words = [
        f"{profile.slots} slots sustain {profile.sustainable_rows_per_s:.4g} rows/s"
        f" ({_number(profile.sustainable_low)} … {_number(profile.sustainable_high, 'no bound')});"
        f" {profile.bottleneck} saturates first."
    ]
    trend = profile.trend
    if trend is not None:
        words.append(f"The load is {trend.rows_per_s:.4g} rows/s")
        if profile.exceeded_in_s == 0:
            words.append("and already exceeds it.")
        elif trend.growing and profile.exceeded_in_s is not None:
            latest = "perhaps never" if profile.exceeded_in_high_s is None else _span(profile.exceeded_in_high_s)
            soonest = _span(profile.exceeded_in_low_s or 0.0)
            words.append(f"and will exceed it in {_span(profile.exceeded_in_s)} (soonest {soonest}, latest {latest}).")
        else:
            words.append("and does not grow.")
    return " ".join(words)


def _drivers(found: Study) -> str:
    parts = []
    for target, drivers in found.drivers.items():
        rows = [
            [
                each.name + (f" (and {len(each.stands_for)} like it)" if each.stands_for else ""),
                f"{each.score:.2f}",
                f"{each.spearman:+.2f}",
                f"{each.partial:+.2f}",
                "yes" if each.significant else "no",
            ]
            for each in drivers[:_MOST_DRIVERS]
        ]
        if rows:
            head = ["metric", "score", "Spearman", "partial", "significant"]
            parts.append(f"<h4>{html.escape(target)}</h4>{_table(head, rows)}")
    return "<h3>What drives quality of service</h3>" + "".join(parts) if parts else ""


def _learning(found: Study) -> str:
    if not found.replays:
        return ""
    rows = [
        [
            each.target,
            f"{each.horizon} batches",
            _number(each.score.mae),
            _number(each.score.last_value_mae),
            "–" if each.score.gain is None else f"{each.score.gain:+.0%}",
            "used" if each.score.usable else "not used: no better than the last value",
            str(len(each.drifts)),
        ]
        for each in found.replays
    ]
    head = ["metric", "ahead", "mean error", "last value's", "gain", "verdict", "drifts"]
    picture = _picture(figures.draw_predictions(found.table, found.replays), "Predictions and what came")
    return f"<h3>Learning</h3>{_table(head, rows)}{picture}"


def _correlations(found: Study) -> str:
    if found.correlations is None:
        return ""
    names = tuple(group.representative for group in found.groups)
    words = (
        f"{found.correlations.samples} samples, engine {found.correlations.engine}, 95 % intervals, p-values corrected"
        f" by {_CORRECTIONS[found.correlations.correction]}. One metric represents each group of collinear ones; a dot"
        " marks pairs that are not significant. Samples in a row are alike: the last column counts them as the fewer"
        " independent ones that they are worth."
    )
    heat = _picture(figures.draw_heat_map(found.correlations, names), "Heat map of rank correlations", wide=False)
    return f"<h3>Correlations</h3><p>{words}</p>{heat}{_pairs(found.correlations, set(names))}"


def _pairs(correlations: Correlations, names: set[str]) -> str:
    chosen = (pair for pair in correlations.pairs() if pair.a in names and pair.b in names)
    rows = []
    for pair in islice(chosen, _MOST_PAIRS):
        effective = "–" if pair.effective_n is None else f"{pair.effective_n:.0f}"
        lasting = {None: "–", True: "yes", False: "no"}[pair.significant_effective]
        rows.append(
            [
                f"{pair.a} ~ {pair.b}",
                str(pair.n),
                _interval(pair.pearson, pair.pearson_low, pair.pearson_high),
                _interval(pair.spearman, pair.spearman_low, pair.spearman_high),
                "–" if pair.spearman_p_adjusted is None else f"{pair.spearman_p_adjusted:.2g}",
                "yes" if pair.significant else "no",
                effective,
                lasting,
            ]
        )
    head = ["pair", "n", "Pearson", "Spearman", "p", "significant", "effective n", "still significant"]
    return _table(head, rows)


def _factors(found: Study) -> str:
    factors = found.factors
    if factors is None:
        return ""
    words = (
        f"{factors.count} factors explain {factors.explained.sum():.0%} of the variance. Their number is that of the"
        f" eigenvalues above those of noise (Horn's parallel analysis; Kaiser's rule would say {factors.kaiser})."
        f" Sampling adequacy (KMO) {factors.kmo:.2f}, Bartlett's test p = {factors.bartlett_p:.2g}."
    )
    return f"<h3>Factors</h3><p>{words}</p>{_picture(figures.draw_factors(factors), 'Eigenvalues and loadings')}"


_CORRECTIONS = {"bh": "Benjamini and Hochberg", "holm": "Holm", "none": "nothing"}


def _picture(figure: Figure | None, words: str, *, wide: bool = True) -> str:
    if figure is None:
        return ""
    data = base64.b64encode(figures.png(figure)).decode()
    kind = "" if wide else ' class="own"'
    return f'<img{kind} alt="{html.escape(words)}" src="data:image/png;base64,{data}">'


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{_explained(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><tr>{top}</tr>\n{body}</table>"


def _explained(cell: str) -> str:
    """Add a metric's meaning as a tooltip on its name."""
    metric = metric_of(cell)
    words = html.escape(cell)
    return f'<span title="{html.escape(metric.meaning)} ({metric.unit})">{words}</span>' if metric else words


def _bullets(sentences: Sequence[str], nothing: str) -> str:
    if not sentences:
        return f"<p>{nothing}</p>" if nothing else ""
    return "<ul>" + "".join(f"<li>{html.escape(each)}</li>" for each in sentences) + "</ul>"


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:+.2f}" if low is None or high is None else f"{value:+.2f} ({low:+.2f} … {high:+.2f})"


def _number(value: float | None, unknown: str = "–") -> str:
    return unknown if value is None else f"{value:.4g}"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Tidegate: analysis</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body { font: 15px/1.5 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h2 { margin-top: 3rem; border-bottom: 2px solid #1f6f8b; } h3 { margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: 13px; } td, th { padding: .25rem .5rem; text-align: right; }
td:first-child, th:first-child { text-align: left; } tr + tr { border-top: 1px solid #ddd; }
img { width: 100%; } img.own { width: auto; max-width: 100%; }
</style></head><body>
@BODY@
</body></html>
"""
