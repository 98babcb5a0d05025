"""Only the module `owned` makes, overwrites and removes local files: shown in the sources, and in runs."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.slow import slow
from support.snapshots import directory
from support.trees import tree

JOBS = Path(__file__).parents[3] / "jobs"
OWNED_MODULE = "rescale/storage/files/owned.py"

_OS_CALLS = {
    *("unlink", "remove", "rmdir", "removedirs", "rename", "renames", "replace", "link", "symlink", "mkdir"),
    *("makedirs", "mkfifo", "mknod", "truncate", "chmod", "chown", "utime", "setxattr"),
}
_SHUTIL_CALLS = {"rmtree", "move", "copy", "copy2", "copyfile", "copytree", "unpack_archive", "chown", "make_archive"}
_TEMPFILE_CALLS = {
    *("mkdtemp", "mkstemp", "mktemp", "TemporaryDirectory", "NamedTemporaryFile", "TemporaryFile"),
    "SpooledTemporaryFile",
}
_PATH_CALLS = {
    *("unlink", "rmdir", "mkdir", "touch", "rename", "symlink_to", "hardlink_to", "write_text", "write_bytes"),
    *("chmod", "extract", "extractall"),
}
_MODULES = {"os": _OS_CALLS, "shutil": _SHUTIL_CALLS, "tempfile": _TEMPFILE_CALLS}
_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND"}


def calls_that_change_files(source: str) -> Iterator[str]:
    """Yield the calls in a module that visibly change files, and the imports that would hide such calls."""
    for node in ast.walk(ast.parse(source)):
        if (isinstance(node, ast.Call) and _changes_files(node)) or (
            isinstance(node, ast.ImportFrom) and _hides_calls(node)
        ):
            yield f"line {node.lineno}: {ast.unparse(node)}"


def _hides_calls(statement: ast.ImportFrom) -> bool:
    hidden_names = {*_MODULES.get(statement.module or "", ()), *_FLAGS, "open", "*"}
    return statement.module in _MODULES and any(name.name in hidden_names for name in statement.names)


def _changes_files(call: ast.Call) -> bool:
    function, text = call.func, ast.unparse(call)
    if isinstance(function, ast.Name):
        return function.id == "open" and _is_for_writing(_mode_arguments(call, 1)) and "os.devnull" not in text
    if not isinstance(function, ast.Attribute):
        return False
    owner, name = ast.unparse(function.value), function.attr
    if owner == "owned" or "'/proc/" in owner or "Propagator" in owner:
        return False
    if owner == "os" and name == "open":
        return any(flag in text for flag in _FLAGS) and "os.devnull" not in text
    if owner in _MODULES:
        return name in _MODULES[owner]
    if name == "replace":  # `Path.replace` has one argument, `str.replace` two; others name theirs
        return len(call.args) == 1 and not call.keywords
    return name in _PATH_CALLS or (name == "open" and _is_for_writing(_mode_arguments(call, 0)))


def _mode_arguments(call: ast.Call, position: int) -> list[ast.expr]:
    """Return the keyword argument `mode` of a call of `open`, or the positional arguments from `position` on."""
    return [keyword.value for keyword in call.keywords if keyword.arg == "mode"] or call.args[position:]


def _is_for_writing(arguments: list[ast.expr]) -> bool:
    modes = [
        argument.value
        for argument in arguments
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
    return any(set(mode) & set("wax+") for mode in modes[:1])


def test_only_the_module_owned_calls_functions_that_change_files() -> None:
    all_files = [*JOBS.rglob("*.py"), *(JOBS.parent / "dags").rglob("*.py")]
    files = [path for path in all_files if path != JOBS / OWNED_MODULE]
    calls_by_file = {
        path.relative_to(JOBS.parent).as_posix(): [*calls_that_change_files(path.read_text())] for path in files
    }
    assert len(files) > 500
    assert {path: calls for path, calls in calls_by_file.items() if calls} == {}
    assert [*calls_that_change_files((JOBS / OWNED_MODULE).read_text())]


@pytest.mark.parametrize(
    "call",
    [
        "os.unlink(path)",
        "os.open(path, os.O_RDWR | os.O_CREAT)",
        "shutil.rmtree(path)",
        "tempfile.mkdtemp()",
        "path.write_bytes(b'')",
        "path.replace(other)",
        "path.open('r+b')",
        "open(path, 'w')",
        "open(path, mode='ab')",
        "path.open(mode='w')",
        "from shutil import rmtree",
        "from os import unlink as gone",
        "Path(place).mkdir(parents=True)",
    ],
)
def test_calls_that_change_files_are_recognised(call: str) -> None:
    assert [*calls_that_change_files(call)]


AUDIT_HOOK = """
import os, sys

LOG, BUSY = os.environ["AUDIT"], []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
DEEDS = {"remove", "rmdir", "rename", "link", "symlink", "mkdir", "truncate", "chmod", "chown", "utime"}
JOBS = os.environ["JOBS"]


def hook(event, args):
    if event == "open":
        if not args[2] & WRITES or isinstance(args[0], int) or str(args[0]).startswith(("/dev/", "/proc/")):
            return
    elif event.partition(".")[0] != "os" or event.partition(".")[2] not in DEEDS or isinstance(args[0], int):
        return
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if "importlib" in file:  # compiled modules
            return
        if "site-packages" in file or file.startswith(JOBS):
            break
        frame = frame.f_back
    else:
        return
    if BUSY:
        return
    BUSY.append(1)  # some processes close all files that they find open
    try:
        out = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(out, f"{event}\\t{args[0]!r}\\t{file}\\n".encode())
        os.close(out)
    finally:
        BUSY.clear()


sys.addaudithook(hook)
"""

SHUFFLE_PROGRAM = """
from {module} import {tasks}
from rescale.execution.progress import ByteAction, Progress

def make_sender(done):
    return lambda parts: ((one % 4, bytes([one])) for part in parts for one in part)

with {started} as tasks:
    shuffled = tasks.shuffle(make_sender, [(1, unit) for unit in range(20)], 4, Progress("audit", 20, ByteAction.READ))
    writing = Progress("audit", 20, ByteAction.WRITTEN)
    rows = shuffled.write(dict.fromkeys(range(4), 1), lambda _, rows: iter([*rows]), writing)
    assert len(rows) == 20
"""


class ProcessAuditor:
    """Runner of processes that log which module changes a file, in them or in their child processes."""

    def __init__(self, home: Path) -> None:
        self._log, library = home / "audit", home / "library"
        library.mkdir()
        (library / "sitecustomize.py").write_text(AUDIT_HOOK)
        scratch = home / "scratch"
        scratch.mkdir()
        path = os.pathsep.join([str(library), str(JOBS), str(JOBS.parent / "tests")])
        self._environment = {
            **os.environ,
            **{"AUDIT": str(self._log), "JOBS": str(JOBS), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            **{"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)},
        }
        self.scratch = scratch

    def run(self, *arguments: str, code: int = 0) -> None:
        process = subprocess.run(
            [sys.executable, *arguments], env=self._environment, check=False, capture_output=True, text=True
        )
        assert process.returncode == code, process.stderr

    def changes_by_module(self) -> dict[str, list[str]]:
        """Return the changes, by the file of the innermost calling module outside Python's standard library."""
        changes_by_file: dict[str, list[str]] = {}
        for line in self._log.read_text().splitlines():
            event, path, file = line.split("\t")
            changes_by_file.setdefault(file.removeprefix(f"{JOBS}/"), []).append(f"{event} {path}")
        return changes_by_file


@pytest.fixture
def auditor(tmp_path: Path) -> ProcessAuditor:
    return ProcessAuditor(tmp_path)


def _rescale(auditor: ProcessAuditor, *arguments: str, code: int = 0) -> None:
    auditor.run(
        "-c", "import sys; from rescale.cli.main import main; sys.exit(main(sys.argv[1:]))", *arguments, code=code
    )


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("2-clicks", ["--parallelism", "3"]),
        slow("2-rocksdb-native", ["--max-parallelism", "96"]),
        slow("2-rocksdb-native", ["--parallelism", "3", "--format", "canonical"]),
    ],
)
def test_whole_runs_change_files_only_through_the_module_owned(
    auditor: ProcessAuditor, tmp_path: Path, source: str, options: list[str]
) -> None:
    target = tmp_path / "target"
    _rescale(auditor, "run", directory(source), "--target", str(target), *options)
    _rescale(auditor, "validate", directory(source), str(target))
    _rescale(auditor, "diff", directory(source), str(target))
    _rescale(auditor, "report", str(target), "-o", str(tmp_path / "page.html"))
    _rescale(auditor, "discard", str(target), code=2)
    _rescale(auditor, "discard", str(tmp_path / "other"))
    changes_by_file = auditor.changes_by_module()
    assert [file for file in changes_by_file if file.startswith("rescale/")] == [OWNED_MODULE]
    assert len(changes_by_file[OWNED_MODULE]) > 20
    assert tree(auditor.scratch).keys() == {"."}


PROCESSES_PROGRAM = SHUFFLE_PROGRAM.format(
    module="rescale.execution.tasks.processes", tasks="process_tasks", started="process_tasks(2)"
)
SPARK_PROGRAM = SHUFFLE_PROGRAM.format(
    module="rescale.execution.tasks.spark.spark_tasks",
    tasks="spark_tasks",
    started='spark_tasks("audit", "local[2]", None)',
)


@pytest.mark.parametrize("program", [pytest.param(PROCESSES_PROGRAM, id="processes"), slow(SPARK_PROGRAM, id="spark")])
def test_tasks_change_files_only_through_the_module_owned(program: str, auditor: ProcessAuditor) -> None:
    auditor.run("-c", program)
    changes_by_file = auditor.changes_by_module()
    assert [file for file in changes_by_file if file.startswith("rescale/")] == [OWNED_MODULE]
    other_files = {file for file in changes_by_file if file != OWNED_MODULE}
    assert all("pyspark" in file or "numba" in file for file in other_files), other_files
    assert tree(auditor.scratch).keys() == {"."}
