"""A wrong entry leaves the other entries in force, and all faults are reported."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from rescale.airflow.windows.windows_file import (
    WINDOWS_VARIABLE,
    WindowsError,
    raise_errors,
    read_windows,
    windows_path,
)
from rescale.demo.airflow_home import dag_folder

ENTRY = """
  schedule: "0 6 * * *"
  timezone: UTC
  closes: "07:30"
  source: /save
  target: /rescaled/{date}
  same_shape: true
"""


def write_windows_file(folder: Path, text: str) -> Path:
    path = folder / "windows.yaml"
    path.write_text(text)
    return path


def test_wrong_entries_are_refused_and_valid_ones_kept(tmp_path: Path) -> None:
    path = write_windows_file(tmp_path, f"good:{ENTRY}bad:{ENTRY}  max_parallelism: 0\nworse: 7\n")
    windows, errors = read_windows(path)
    assert [window.name for window in windows] == ["good"]
    with pytest.raises(WindowsError) as caught:
        raise_errors(errors)
    first, *_ = str(caught.value).splitlines()
    assert first == "the window 'bad' is not valid: max_parallelism"
    for part in ("the window 'bad' is not valid: max_parallelism", "the window 'worse' is not valid", str(path)):
        assert part in str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_file_may_be_empty(tmp_path: Path, text: str) -> None:
    windows, errors = read_windows(write_windows_file(tmp_path, text))
    assert (windows, errors) == ((), ())
    raise_errors(errors)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n", "is not a mapping"),
        ("a: [", "cannot be read"),
        (f"a:{ENTRY}a:{ENTRY}", "'a' occurs twice"),
        (f"a:{ENTRY}  closes: '08:00'\n", "'closes' occurs twice"),
        (f"a:{ENTRY}? [a, b]\n: c\n", "cannot be read"),
        (f"a:{ENTRY}b: 2026-13-01\n", "cannot be read"),
        ("a: !!python/object/apply:os.system ['true']", "cannot be read"),
    ],
)
def test_invalid_file_has_one_error(tmp_path: Path, text: str, message: str) -> None:
    windows, (errors,) = read_windows(write_windows_file(tmp_path, text))
    assert windows == ()
    assert message in str(errors)


def test_named_file_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WINDOWS_VARIABLE, raising=False)
    beside = windows_path(str(tmp_path / "rescale_windows.py"))
    assert (beside, read_windows(beside).errors) == (tmp_path / "windows.yaml", ())
    monkeypatch.setenv(WINDOWS_VARIABLE, str(tmp_path / "others.yaml"))
    path = windows_path(str(tmp_path / "rescale_windows.py"))
    assert path == tmp_path / "others.yaml"
    assert "No such file" in str(read_windows(path).errors[0])


def test_example_has_a_pair_of_windows_and_a_live_one() -> None:
    windows, errors = read_windows(dag_folder() / "windows.example.yaml")
    assert errors == ()
    assert [(window.name, window.has_job, window.form_values.get("parallelism")) for window in windows] == [
        ("clicks-out", True, 16),
        ("clicks-back", True, 4),
        ("clicks-live", True, None),
    ]
    assert windows[-1].begins_before == timedelta(hours=2)
