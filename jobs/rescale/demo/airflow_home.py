"""An embedded Airflow: SQLite in a temporary folder, isolated from any Airflow on this machine."""

from __future__ import annotations

import json
import os
import secrets
import sys
from dataclasses import dataclass, field
from pathlib import Path

from rescale.demo.processes import free_port, process_error, running
from rescale.storage.files import owned
from rescale.text.errors import RequestError

DAG_ID = "rescale_savepoint"
CONNECTION_ID = "rescale_demo"
USER = "admin"

_LOCK_SECONDS = 60
"""Seconds to wait for a locked database; the default of five is too short on a busy machine."""

PARSING_LIMITS = {
    "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": "300",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "300",
}
"""Limits of the parsing of a DAG file; Airflow's defaults, 30 and 50 seconds, are too short on a busy machine."""

_DAG_FOLDERS = (Path(__file__).parents[3] / "dags", Path(sys.prefix) / "share" / "rescale" / "dags")
"""Folders of the DAGs: in a checkout, and of an installed package."""


@dataclass(frozen=True)
class AirflowHome:
    """An Airflow in a folder of its own.

    `connection_json` is the connection `CONNECTION_ID` in Airflow's JSON, and `variables` are further Airflow
    variables. The roles are viewer, user, op and admin; all users have the same password.
    """

    folder: Path
    connection_json: str
    variables: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    password: str = field(default_factory=lambda: secrets.token_urlsafe(9))
    secret: str = field(default_factory=secrets.token_hex)
    role_by_user: dict[str, str] = field(default_factory=lambda: {USER: "admin"})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment of every process of this Airflow; only the connection gives access to S3."""
        removed_prefixes = ("AIRFLOW", "AWS_")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(removed_prefixes)},
            "TMPDIR": str(self._temporary_folder),
            "SPARK_LOCAL_DIRS": str(self._temporary_folder),
            "AIRFLOW_HOME": str(self.folder),
            f"AIRFLOW_CONN_{CONNECTION_ID.upper()}": self.connection_json,
            "AIRFLOW__CORE__DAGS_FOLDER": str(dag_folder()),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.folder / 'airflow.db'}?timeout={_LOCK_SECONDS}",
            # The DAGs do not change, and parsing them every 30 s, the default, would keep a core busy.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            **PARSING_LIMITS,
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(map(":".join, self.role_by_user.items())),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._password_file),
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__SECRET_KEY": self.secret,
            "AIRFLOW__API_AUTH__JWT_SECRET": self.secret,
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            **self.variables,
        }

    @property
    def _temporary_folder(self) -> Path:
        """Folder for temporary files: killed processes leave some behind."""
        return self.folder / "tmp"

    @property
    def _password_file(self) -> Path:
        return self.folder / "passwords.json"

    def migrate(self) -> None:
        """Create the database, the password file and the folder for temporary files."""
        owned.make_folder(self._temporary_folder)
        owned.write_new(self._password_file, json.dumps(dict.fromkeys(self.role_by_user, self.password)).encode())
        log = self.folder / "migrate.log"
        with running(airflow("db", "migrate"), self.environment, log) as process:
            if process.wait():
                raise process_error("the migration of Airflow's database failed", log)


def airflow(*arguments: str) -> list[str]:
    """Return the command line of an Airflow command in this Python environment."""
    return [sys.executable, "-m", "airflow", *arguments]


def dag_folder() -> Path:
    """Return the folder of the DAGs. Raises `RequestError` if no DAGs are installed."""
    for folder in _DAG_FOLDERS:
        if (folder / f"{DAG_ID}.py").is_file():
            return folder
    raise RequestError("the DAGs are not installed", expected=f"one of {', '.join(map(str, _DAG_FOLDERS))}")
