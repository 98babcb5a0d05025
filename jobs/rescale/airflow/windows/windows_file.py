"""The file of windows: a YAML mapping from names to entries. A wrong entry does not affect other entries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rescale.airflow.windows.window import Window, read_entry
from rescale.airflow.yaml_file import read_yaml
from rescale.text.errors import RequestError

WINDOWS_VARIABLE = "RESCALE_WINDOWS"
"""Environment variable with the path of the file; without it, the file is `windows.yaml` beside the DAGs."""


class WindowsFile(NamedTuple):
    """Contents of the file: the windows, and the errors of the entries that are not valid."""

    windows: tuple[Window, ...]
    errors: tuple[RequestError, ...]


def windows_path(dag_file: str) -> Path:
    """Return the path of the file, from the variable or beside a DAG file."""
    return Path(os.environ.get(WINDOWS_VARIABLE) or Path(dag_file).parent / "windows.yaml")


def read_windows(path: Path) -> WindowsFile:
    """Read all entries of the file. A missing file counts as empty, unless the variable names it."""
    if not path.exists() and WINDOWS_VARIABLE not in os.environ:
        return WindowsFile((), ())
    try:
        entries = read_yaml(path, "the file of windows cannot be read")
    except RequestError as error:
        return WindowsFile((), (error,))
    if entries is None:
        return WindowsFile((), ())
    if not isinstance(entries, dict):
        not_a_mapping = RequestError(
            "the file of windows is not a mapping", path=str(path), expected="names, each with its fields"
        )
        return WindowsFile((), (not_a_mapping,))
    windows: list[Window] = []
    errors: list[RequestError] = []
    for name, entry in entries.items():
        window, entry_errors = read_entry(name, entry)
        windows += [window] if window is not None else []
        errors += [error.located(path=str(path)) for error in entry_errors]
    return WindowsFile(tuple(windows), tuple(errors))


class WindowsError(Exception):
    """Error with all errors in the file of windows, one per line; the text of a `RequestError` has no line breaks."""


def raise_errors(errors: Sequence[RequestError]) -> None:
    """Raise a `WindowsError` with the text of all errors, if there are any."""
    if errors:
        raise WindowsError("\n".join(map(str, errors)))
