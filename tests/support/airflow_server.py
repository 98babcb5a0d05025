"""A whole Airflow, which tests control over its REST API, and its DAG runs."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from email.message import Message
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from rescale.demo.airflow_home import CONNECTION_ID, DAG_ID, USER, AirflowHome
from rescale.demo.processes import Process, running
from rescale.demo.ui import component_commands, component_log
from support.watching import Watch

PATIENCE_SECONDS = 900
"""Time limit for an action of a run on a machine that is busy with several runs."""

_ENDED = ("success", "failed")
_REQUEST_SECONDS = 120
"""Requests may take long on a busy machine."""

_TRIES = 10

SECONDS_TO_READ = 5
"""Pause before an answer to a question. If a task resumes before the scheduler has seen its worker exit, Airflow
considers the task lost, and the task asks again."""

T = TypeVar("T")


@dataclass(frozen=True)
class AirflowServer:
    """An Airflow with all its components; requests are those of `user`.

    `secret` is the password of the connection, and `watch` observes all processes. `processes` has the process of
    each component by its name, if the components run on this machine.
    """

    home: AirflowHome
    watch: Watch
    secret: str
    user: str = USER
    processes: dict[str, Process] = field(default_factory=dict)

    def as_user(self, name: str) -> AirflowServer:
        """Return the same server for another user."""
        return replace(self, user=name)

    @cached_property
    def _token(self) -> str:
        login = {"username": self.user, "password": self.home.password}
        return str(self._ask("POST", "/auth/token", login, {})[1]["access_token"])

    def ended(self) -> set[str]:
        """Return the names of components that have ended."""
        return {name for name, process in self.processes.items() if process.poll() is not None}

    @contextmanager
    def restarted_components(self) -> Iterator[None]:
        """Restart ended components, as a platform does; they end with the block."""
        with ExitStack() as stack:
            for name in self.ended():
                command, log = component_commands(self.home)[name], component_log(self.home, name)
                self.processes[name] = stack.enter_context(running(command, self.home.environment, log))
            yield

    def api(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        """Send a request to Airflow's API, and return the status and the document of the answer."""
        return self._ask(method, f"/api/v2{path}", document, {"Authorization": f"Bearer {self._token}"})

    def ui(self, path: str) -> Any:
        """Return the answer of an endpoint that Airflow's own pages use."""
        status, document = self._ask("GET", f"/ui{path}", None, {"Authorization": f"Bearer {self._token}"})
        assert status == 200, document
        return document

    def page(self, url: str) -> tuple[int, Message, bytes]:
        """Return status, headers and content of an address that a page links to."""
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {self._token}"})
        try:
            with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def _ask(self, method: str, path: str, document: Any, headers: dict[str, str]) -> tuple[int, Any]:
        """Return status and document of an answer; repeat a request that failed for a reason that passes.

        Under load, SQLite refuses to turn a read transaction into a write transaction, whatever the timeout. Airflow
        then rolls the transaction back and answers with status 500. And `kubectl port-forward`, through which tests
        reach a pod, drops connections when the pod's container starts again; only reading requests are repeated then.
        """
        for number in range(1, _TRIES + 1):
            try:
                status, answer = self._ask_once(method, path, document, headers)
            except ConnectionResetError:
                if method != "GET" or number == _TRIES:
                    raise
            else:
                if status != 500 or not _is_database_error(answer):
                    break
            time.sleep(1)
        return status, answer

    def _ask_once(self, method: str, path: str, document: Any, headers: dict[str, str]) -> tuple[int, Any]:
        data = None if document is None else json.dumps(document).encode()
        headers = {**headers, "Content-Type": "application/json"}
        try:
            request = urllib.request.Request(self.home.url + path, data, headers, method=method)
            with urllib.request.urlopen(request, timeout=_REQUEST_SECONDS) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def trigger(self, **conf: Any) -> Run:
        """Trigger a run with these form values."""
        return self.trigger_dag(DAG_ID, conf)

    def try_to_trigger(self, **conf: Any) -> tuple[int, Any]:
        return self.api("POST", f"/dags/{DAG_ID}/dagRuns", {"logical_date": None, "conf": conf})

    def trigger_dag(self, dag_id: str, conf: dict[str, Any], **more: Any) -> Run:
        """Trigger a run of a DAG; `more` are further fields of the request, such as `dag_run_id`."""
        request = {"logical_date": None, "conf": conf, **more}

        def accepted() -> Any:
            status, document = self.api("POST", f"/dags/{dag_id}/dagRuns", request)
            assert status in (200, 404, 500), document  # 404: not parsed yet; 500: SQLite is locked
            return document if status == 200 else None

        return Run(self, wait_for(accepted, f"a run of {dag_id}")["dag_run_id"], dag_id)

    def parse_anew(self, dag_id: str) -> None:
        """Let Airflow parse the file of a DAG now, and wait until it has."""
        _, before = self.api("GET", f"/dags/{dag_id}")
        status, answer = self.api("PUT", f"/parseDagFile/{before['file_token']}")
        assert status == 201, answer

        def is_parsed() -> bool:
            return bool(self.api("GET", f"/dags/{dag_id}")[1]["last_parsed_time"] != before["last_parsed_time"])

        wait_for(is_parsed, f"{dag_id} to be parsed")

    def run_to(self, target: str) -> Run:
        """Return the run with this target as soon as it exists; anybody may have started it."""
        return wait_for(lambda: self._run_to(target), f"a run to {target}")

    def _run_to(self, target: str) -> Run | None:
        runs = self.api("GET", f"/dags/{DAG_ID}/dagRuns")[1]["dag_runs"]
        return next((Run(self, run["dag_run_id"]) for run in runs if run["conf"].get("target") == target), None)


def _is_database_error(answer: Any) -> bool:
    detail = answer.get("detail") if isinstance(answer, dict) else None
    return isinstance(detail, dict) and detail.get("reason") == "Database error"


@dataclass(frozen=True)
class Run:
    """A DAG run."""

    airflow: AirflowServer
    run_id: str
    dag_id: str = DAG_ID

    @property
    def _path(self) -> str:
        return f"/dags/{self.dag_id}/dagRuns/{urllib.parse.quote(self.run_id)}"

    def _get(self, path: str = "") -> Any:
        status, document = self.airflow.api("GET", self._path + path)
        assert status == 200, document
        return document

    @property
    def state(self) -> str:
        return str(self._get()["state"])

    def end(self, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait for the end of the run, and return its state."""
        return wait_for(lambda: self.state if self.state in _ENDED else None, f"the end of {self.run_id}", seconds)

    def cancel(self) -> None:
        status, answer = self.airflow.api("PATCH", self._path, {"state": "failed"})
        assert status == 200, answer

    def clear(self, **which: Any) -> None:
        """Clear all tasks, so that they run again; `which` are further fields of the request."""
        status, answer = self.airflow.api("POST", f"{self._path}/clear", {"dry_run": False, **which})
        assert status == 200, answer

    def clear_task(self, task_id: str) -> None:
        """Clear one task, so that it runs again."""
        which = {"dag_run_id": self.run_id, "task_ids": [task_id], "only_failed": False, "dry_run": False}
        status, answer = self.airflow.api("POST", f"/dags/{self.dag_id}/clearTaskInstances", which)
        assert status == 200, answer

    def mark(self, task_id: str, state: str) -> None:
        """Set the state of a task, as a user may."""
        status, answer = self.airflow.api("PATCH", f"{self._path}/taskInstances/{task_id}", {"new_state": state})
        assert status == 200, answer

    def task(self, task_id: str) -> dict[str, Any]:
        """Return the task instance, with `state`, `try_number`, `pid` and so on."""
        document: dict[str, Any] = self._get(f"/taskInstances/{task_id}")
        return document

    def tasks(self) -> dict[str, dict[str, Any]]:
        return {instance["task_id"]: instance for instance in self._get("/taskInstances")["task_instances"]}

    def states(self) -> dict[str, str]:
        return {task_id: instance["state"] for task_id, instance in self.tasks().items()}

    def wait_for_task(self, task_id: str, *states: str) -> dict[str, Any]:
        def reached() -> dict[str, Any] | None:
            instance = self.task(task_id)
            return instance if instance["state"] in states else None

        return wait_for(reached, f"{task_id} to be {' or '.join(states)}")

    def question(self, task_id: str = "approve") -> dict[str, Any]:
        """Return the question of a task as soon as the task waits for an answer."""
        self.wait_for_task(task_id, "awaiting_input")
        document: dict[str, Any] = self._get(f"/taskInstances/{task_id}/-1/hitlDetails")
        return document

    def by(self, name: str) -> Run:
        """Return the same run as another user sees it."""
        return replace(self, airflow=self.airflow.as_user(name))

    def answer(self, option: str, task_id: str = "approve") -> None:
        """Answer a question as a user does: after the scheduler has seen the task's worker exit (`SECONDS_TO_READ`)."""
        log = self.airflow.home.folder / "scheduler.log"
        if log.is_file():
            wait_for(lambda: self._is_parked(task_id, log), f"the scheduler to notice that {task_id} waits")
        else:
            time.sleep(SECONDS_TO_READ)
        status, document = self.try_to_answer(option, task_id)
        assert status == 200, document

    def _is_parked(self, task_id: str, log: Path) -> bool:
        """Return whether the scheduler, by its `log`, has seen the worker exit each time that this try was parked."""
        marks = (self.run_id, task_id, f"try_number={self.task(task_id)['try_number']}")
        lines = [line for line in log.read_text(errors="replace").splitlines() if all(mark in line for mark in marks)]
        parked = sum("Pausing task as AWAITING_INPUT" in line for line in lines)
        exited = sum("executor event with state success" in line and f"task_id='{task_id}'" in line for line in lines)
        return exited >= parked > 0

    def try_to_answer(self, option: str, task_id: str = "approve") -> tuple[int, Any]:
        document = {"chosen_options": [option], "params_input": {}}
        return self.airflow.api("PATCH", f"{self._path}/taskInstances/{task_id}/-1/hitlDetails", document)

    def log(self, task_id: str, attempt: int | None = None, *, or_none: bool = False) -> list[dict[str, Any]]:
        """Return the log lines of a task's last try, or of an `attempt`, each with its `event` and perhaps a `level`.

        With `or_none`, the log may be missing: on a busy machine, Airflow may consider a try lost before it began, and
        then begins another one.
        """
        attempt = attempt or self.task(task_id)["try_number"]
        status, document = self.airflow.api("GET", f"{self._path}/taskInstances/{task_id}/logs/{attempt}")
        assert status == 200 or (or_none and status == 404), document
        content: list[dict[str, Any]] = document["content"] if status == 200 else []
        return content

    def xcom(self, task_id: str) -> Any:
        return self._get(f"/taskInstances/{task_id}/xcomEntries/return_value")["value"]

    def links(self, task_id: str) -> dict[str, str | None]:
        """Return the addresses of a task's buttons by name."""
        links: dict[str, str | None] = self._get(f"/taskInstances/{task_id}/links")["extra_links"]
        return links

    def log_text(self, task_id: str) -> str:
        """Return the events of a task's log, one per line."""
        return "\n".join(line["event"] for line in self.log(task_id))


def wait_for(ask: Callable[[], T | None], what: str, seconds: float = PATIENCE_SECONDS, period: float = 0.5) -> T:
    """Return the result of `ask` as soon as it is true; fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (answer := ask()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(period)
    return answer


def request(source: str, target: str, **more: Any) -> dict[str, Any]:
    """Return form values with the server's connection."""
    return {"source": source, "target": target, "connection": CONNECTION_ID, **more}
