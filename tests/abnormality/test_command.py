"""`tidegate detect`: what it prints and writes, and how it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.abnormality import series
from tidegate.cli.detect import detect
from tidegate.domain import InvalidInput
from tidegate.evaluate.abnormality import THRESHOLD, SurpriseDetector

SPIKE = series.ABNORMAL["spike"]


def written(folder: Path, values: list[str], header: str = "value", name: str = "series.csv") -> Path:
    path = folder / name
    path.write_text("\n".join([header, *values]) + "\n")
    return path


def test_json_names_the_flagged_rows_and_the_files_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, [repr(value) for value in SPIKE.tolist()])
    detect(path, out=tmp_path / "out", json=True)
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"rows", "threshold", "flagged", "seconds"}
    assert document["rows"] == len(SPIKE)
    assert document["threshold"] == THRESHOLD
    assert series.EVENT in document["flagged"]
    with (tmp_path / "out" / "scores.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == list(range(len(SPIKE)))
    assert [int(row["row"]) for row in rows if float(row["score"]) >= THRESHOLD] == document["flagged"]
    expected = SurpriseDetector().walk(SPIKE)
    assert [float(row["score"]) for row in rows] == pytest.approx(expected.tolist(), abs=2e-6)
    assert (tmp_path / "out" / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_a_timestamp_column_is_used_by_itself_as_dates_or_seconds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holiday, times_s = series.ABNORMAL["a holiday"].tolist(), series.times_s().tolist()
    seconds = [f"{time_s},{value!r}" for time_s, value in zip(times_s, holiday, strict=True)]
    flagged = []
    for header, timestamp in (("timestamp,value", None), ("at,value", "at"), ("at,value", None)):
        detect(written(tmp_path, seconds, header), timestamp=timestamp, json=True)
        flagged.append(json.loads(capsys.readouterr().out)["flagged"])
    assert flagged[0] == flagged[1] != flagged[2]
    detect(written(tmp_path, ["1970-01-01 00:00:00,5", "1970-01-01T00:05:00Z,6"], "timestamp,value"))
    assert "0 of 2 rows flagged" in capsys.readouterr().out


def test_times_that_cannot_be_read_are_done_without_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, ["soon,5"], "timestamp,value")
    detect(path, json=True)
    assert json.loads(capsys.readouterr().out)["rows"] == 1
    with pytest.raises(InvalidInput, match=r"row 0 \(line 2\): timestamp is 'soon'"):
        detect(path, timestamp="timestamp")


def test_the_threshold_can_be_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, [repr(value) for value in SPIKE.tolist()])
    flagged = []
    for threshold in (0.3, 0.8):
        detect(path, threshold=threshold, json=True)
        flagged.append(json.loads(capsys.readouterr().out)["flagged"])
    assert len(flagged[0]) > len(flagged[1])


@pytest.mark.parametrize(
    ("lines", "arguments", "message"),
    [
        (["1"], {"column": "load"}, "no column 'load'; it has value"),
        (["1"], {"timestamp": "at"}, "no column 'at'"),
        ([], {}, "no rows below the header"),
        (["1", "oops"], {}, r"row 1 \(line 3\): value is 'oops'; write a number"),
        (["1", "nan"], {}, "row 1"),
        (["1"], {"threshold": 1.5}, "between 0 and 1"),
    ],
)
def test_bad_input_is_refused_with_what_to_do(
    tmp_path: Path, lines: list[str], arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        detect(written(tmp_path, lines), **arguments)  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        detect(tmp_path / "none.csv")
