"""A wrong entry does not take the others along, and what is wrong is all told."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.demo.airflow_home import dag_folder
from rescale.errors import RequestError
from rescale.orchestration.windows.windows_file import VARIABLE, read_windows, refuse, windows_path

ENTRY = """
  schedule: "0 6 * * *"
  timezone: UTC
  closes: "07:30"
  source: /save
  target: /rescaled/{date}
  same_shape: true
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "windows.yaml"
    path.write_text(text)
    return path


def test_the_others_stay(tmp_path: Path) -> None:
    path = written(tmp_path, f"good:{ENTRY}bad:{ENTRY}  max_parallelism: 0\nworse: 7\n")
    windows, refused = read_windows(path)
    assert [window.name for window in windows] == ["good"]
    with pytest.raises(RequestError) as caught:
        refuse(refused)
    for words in ("the window 'bad' makes no sense: max_parallelism", "the window 'worse' makes no sense", str(path)):
        assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "# nothing yet\n"])
def test_a_file_may_be_empty(tmp_path: Path, text: str) -> None:
    windows, refused = read_windows(written(tmp_path, text))
    assert (windows, refused) == ((), ())
    refuse(refused)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", "holds none"),
        ("a: [", "cannot be read"),
        (f"a:{ENTRY}a:{ENTRY}", "'a' stands twice"),
        (f"a:{ENTRY}  closes: '08:00'\n", "'closes' stands twice"),
        (f"a:{ENTRY}? [a, b]\n: c\n", "cannot be read"),
        (f"a:{ENTRY}b: 2026-13-01\n", "cannot be read"),
        ("a: !!python/object/apply:os.system ['true']", "cannot be read"),
    ],
)
def test_a_file_that_makes_no_sense_has_one_error(tmp_path: Path, text: str, words: str) -> None:
    windows, (refused,) = read_windows(written(tmp_path, text))
    assert windows == ()
    assert words in str(refused)


def test_a_file_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    beside = windows_path(str(tmp_path / "rescale_windows.py"))
    assert (beside, read_windows(beside).refused) == (tmp_path / "windows.yaml", ())
    monkeypatch.setenv(VARIABLE, str(tmp_path / "others.yaml"))
    named = windows_path(str(tmp_path / "rescale_windows.py"))
    assert named == tmp_path / "others.yaml"
    assert "No such file" in str(read_windows(named).refused[0])


def test_the_example_is_a_pair() -> None:
    windows, refused = read_windows(dag_folder() / "windows.example.yaml")
    assert refused == ()
    assert [(window.name, window.of_a_job, window.values["parallelism"]) for window in windows] == [
        ("clicks-out", True, 16),
        ("clicks-back", True, 4),
    ]
