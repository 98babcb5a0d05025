"""A PostgreSQL server for one test, which can be stopped and started again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rescale.demo.processes import free_port
from support.needs import skip_for_lack

PASSWORD = "planted-of-the-database"

_NOBODY = "nobody"
"""PostgreSQL refuses to run as root."""


@dataclass(frozen=True)
class Postgres:
    """A PostgreSQL server with its `programs`, and its data in `folder`."""

    programs: Path
    folder: Path
    port: int

    @property
    def url(self) -> str:
        """URL for SQLAlchemy; the server ignores its password, for which tests search logs."""
        return f"postgresql+psycopg2://postgres:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder}"
        self._run("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)

    def stop(self) -> None:
        """Stop as if its machine failed: connections break, and the next start recovers the data."""
        self._run("pg_ctl", "stop", "-D", "data", "-m", "immediate")

    def create(self) -> None:
        self._run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        # A server that keeps running holds its output open, so the output goes to a file.
        with (self.folder / f"{program}.out").open("w+") as output:
            done = subprocess.run(
                command,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                user=_NOBODY if os.getuid() == 0 else None,
                check=False,
            )
            output.seek(0)
            assert done.returncode == 0, output.read()


@contextmanager
def postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        folder = Path(name)
        if os.getuid() == 0:
            shutil.chown(folder, _NOBODY)
        server = Postgres(_needed_programs(), folder, free_port())
        server.create()
        server.start()
        try:
            yield server
        finally:
            with suppress(AssertionError):
                server.stop()


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None if PostgreSQL is not installed.

    Debian has a folder of programs for each release. Only `pg_ctlcluster`, which chooses a release, is on the path.
    """
    if initdb := shutil.which("initdb"):
        return Path(initdb).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin")) if shutil.which("pg_ctlcluster") else []
    return folders[-1] if folders else None


def _needed_programs() -> Path:
    return programs() or skip_for_lack(
        "there is no PostgreSQL: the test stops Airflow's database (apt install postgresql)"
    )
