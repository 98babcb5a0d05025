"""The file of windows: YAML, a mapping from names to entries. A wrong entry does not take the others along."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rescale.errors import RequestError
from rescale.orchestration.windows.window import Window, read_entry
from rescale.orchestration.yaml_file import read_yaml

VARIABLE = "RESCALE_WINDOWS"
"""Variable with the path of the file, where it does not lie beside the DAGs as `windows.yaml`."""


class WindowsFile(NamedTuple):
    """What a file holds: windows, and what is wrong with the entries that are none."""

    windows: tuple[Window, ...]
    refused: tuple[RequestError, ...]


def windows_path(dag_file: str) -> Path:
    """Where the file lies, by the variable or beside a DAG file."""
    return Path(os.environ.get(VARIABLE) or Path(dag_file).parent / "windows.yaml")


def read_windows(path: Path) -> WindowsFile:
    """All entries of the file; nothing if there is none and none was named."""
    if not path.exists() and VARIABLE not in os.environ:
        return WindowsFile((), ())
    try:
        entries = read_yaml(path, "the file of windows cannot be read")
    except RequestError as error:
        return WindowsFile((), (error,))
    if entries is None:
        return WindowsFile((), ())
    if not isinstance(entries, dict):
        wrong = RequestError("the file of windows holds none", path=str(path), expected="names, each with its fields")
        return WindowsFile((), (wrong,))
    windows: list[Window] = []
    refused: list[RequestError] = []
    for name, entry in entries.items():
        window, faults = read_entry(name, entry)
        windows += [window] if window is not None else []
        refused += [fault.located(path=str(path)) for fault in faults]
    return WindowsFile(tuple(windows), tuple(refused))


def refuse(wrong: Sequence[RequestError]) -> None:
    """Raises one `RequestError` that tells all that is wrong."""
    if wrong:
        raise RequestError("\n".join(map(str, wrong)))
