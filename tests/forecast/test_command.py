"""`tidegate forecast`: what it writes, that it never looks ahead, and what it says of bad input."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tidegate.cli.forecast import forecast
from tidegate.domain import InvalidInput

app = typer.Typer()
app.command()(forecast)


def series(path: Path, values: np.ndarray, name: str = "value") -> Path:
    hours = [f"2024-01-{1 + hour // 24:02d} {hour % 24:02d}:00:00" for hour in range(len(values))]
    path.write_text(f"timestamp,{name}\n" + "".join(f"{h},{v:.6g}\n" for h, v in zip(hours, values, strict=True)))
    return path


@pytest.fixture
def values() -> np.ndarray:
    rng = np.random.default_rng(0)
    made: np.ndarray = 100 + 50 * np.sin(2 * np.pi * np.arange(400) / 24) + rng.normal(0, 5, 400)
    return made


def run(*arguments: object) -> dict[str, float]:
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    document: dict[str, float] = json.loads(result.stdout)
    return document


def table(out: Path) -> np.ndarray:
    with (out / "forecast.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["row", "forecast", "lower", "upper"]
    return np.array(rows[1:], dtype=float)


def test_figures_agree_with_the_file(tmp_path: Path, values: np.ndarray) -> None:
    path = series(tmp_path / "s.csv", values)
    document = run(path, "--column", "value", "--horizon", 3, "--warmup", 100, "--out", tmp_path / "out")
    assert list(document) == ["rows", "mae", "rmse", "mape", "nrmse", "coverage_90", "seconds"]
    made = table(tmp_path / "out")
    assert made[:, 0].tolist() == list(range(100, 397))
    assert document["rows"] == len(made) == 297
    actual = np.loadtxt(path, delimiter=",", skiprows=1, usecols=1)[made[:, 0].astype(int) + 3]
    error = made[:, 1] - actual
    assert document["mae"] == pytest.approx(np.abs(error).mean(), rel=1e-6)
    assert document["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-6)
    assert document["nrmse"] == pytest.approx(np.sqrt(np.mean(error**2)) / actual.std(), rel=1e-6)
    assert document["mape"] == pytest.approx(100 * np.mean(np.abs(error / actual)), rel=1e-6)
    assert document["coverage_90"] == pytest.approx(np.mean((made[:, 2] <= actual) & (actual <= made[:, 3])))
    assert (tmp_path / "out" / "forecast.png").stat().st_size > 1000


@pytest.mark.slow
def test_later_rows_change_no_earlier_forecast(tmp_path: Path, values: np.ndarray) -> None:
    values = values[:240]
    other = values.copy()
    other[180:] = 9999
    whole = series(tmp_path / "a.csv", values)
    run(whole, "--horizon", 4, "--warmup", 60, "--out", tmp_path / "a")
    run(series(tmp_path / "b.csv", other), "--horizon", 4, "--warmup", 60, "--out", tmp_path / "b")
    run(series(tmp_path / "c.csv", values[:185]), "--horizon", 4, "--warmup", 60, "--out", tmp_path / "c")
    a, b, c = (table(tmp_path / name) for name in "abc")
    np.testing.assert_array_equal(a[a[:, 0] < 180], b[b[:, 0] < 180])
    np.testing.assert_array_equal(a[: len(c)], c)
    assert not np.array_equal(a[-1], b[-1])


def test_empty_cells_are_missing_samples(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(
        "value\n" + "".join("\n" if row % 10 == 5 else f"{row % 7}\n" for row in range(200)).replace("\n\n", '\n""\n')
    )
    assert run(path, "--warmup", 50)["rows"] == 149 - len([row for row in range(51, 200) if row % 10 == 5])


def test_people_get_words(tmp_path: Path, values: np.ndarray) -> None:
    result = CliRunner().invoke(app, [str(series(tmp_path / "s.csv", values))], catch_exceptions=False)
    assert "NRMSE" in result.stdout
    assert "row 400:" in result.stdout


def test_bad_input_is_named(tmp_path: Path, values: np.ndarray) -> None:
    path = series(tmp_path / "s.csv", values[:80])
    broken = tmp_path / "broken.csv"
    broken.write_text("value\n1\n2\nmany\n")
    for arguments, message in (
        ([tmp_path / "none.csv"], "none.csv: cannot be read"),
        ([path, "--column", "load"], "no column 'load'; it has timestamp, value"),
        ([broken], "value in row 2 is 'many', not a number"),
        ([path, "--horizon", "0"], "--horizon 0: forecast at least 1 row ahead"),
        ([path, "--warmup", "0"], "--warmup 0: use at least 1 row"),
        ([path, "--warmup", "70", "--horizon", "10"], "80 rows; a warm-up of 70 and a horizon of 10 need at least 81"),
    ):
        with pytest.raises(InvalidInput, match=message.replace("(", r"\(")):
            CliRunner().invoke(app, [str(part) for part in arguments], catch_exceptions=False)
