"""Airflow's pages in a headless browser, and what users do there: log in, fill in a form, look at a run, cancel it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, unquote

from selenium.webdriver import Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.expected_conditions import (
    element_to_be_clickable,
    presence_of_element_located,
    visibility_of_element_located,
)
from selenium.webdriver.support.wait import WebDriverWait

from support.airflow_server import SECONDS_TO_READ
from support.needs import need

_PATIENCE_SECONDS = 180
_REQUEST_SECONDS = 600
"""Limit of a request to ChromeDriver, which waits up to 300 s for a page; Selenium's default is 120 s."""


class Pages:
    """Pages of one DAG, and a user's actions on them."""

    def __init__(self, driver: Chrome, url: str, dag_id: str) -> None:
        self.driver = driver
        self._dag = f"{url}/dags/{dag_id}"

    def log_in(self, user: str, password: str) -> None:
        """Log in, and open the page of the DAG."""
        self.driver.get(self._dag)
        self._see("[name=username]").send_keys(user)
        self._see("[name=password]").send_keys(password, Keys.ENTER)
        self._see("[data-testid=trigger-dag-button]")

    def open_form(self) -> None:
        self.driver.get(self._dag)
        self._press("[data-testid=trigger-dag-button]")
        self._see("[name=element_target]")

    def fill(self, **values: Any) -> None:
        """Write into the visible fields of the form."""
        for name, value in values.items():
            field = self._see(f"[name=element_{name}]")
            field.send_keys(Keys.CONTROL, "a")
            # Pasted, not typed: on a busy machine the page loses keys that come this fast.
            self.driver.execute_cdp_cmd("Input.insertText", {"text": str(value)})
            field.send_keys(Keys.TAB)

    @property
    def fields_in_sight(self) -> list[str]:
        """Return the names of the visible fields, from top to bottom."""
        fields = self.driver.find_elements(By.CSS_SELECTOR, "[name^=element_], [id^=element_]")
        names = [field.get_attribute("name") or field.get_attribute("id") for field in fields if field.is_displayed()]
        return list(dict.fromkeys(name.removeprefix("element_") for name in names if name))

    def open_section(self, title: str) -> None:
        """Open another section of the form, which closes the open one."""
        self._press(f"//*[@role='dialog']//button[normalize-space()='{title}']", By.XPATH)

    def choose(self, name: str, value: str) -> None:
        """Choose one of the values of a list."""
        self._see(f"#element_{name} [role=combobox]").send_keys(value, Keys.ENTER)

    def switch_on(self, name: str) -> None:
        switch = self._see(f"[name=element_{name}]")
        switch.send_keys(Keys.SPACE)
        WebDriverWait(self.driver, _PATIENCE_SECONDS).until(lambda _: switch.is_selected())

    @property
    def can_be_triggered(self) -> bool:
        return self._trigger_button().is_enabled()

    def trigger(self) -> None:
        WebDriverWait(self.driver, _PATIENCE_SECONDS).until(lambda _: self.can_be_triggered)
        self._trigger_button().send_keys(Keys.ENTER)  # not a click: a message may cover the button

    def refusal(self) -> str:
        """Return the form's message about values that it refuses."""
        return self._see("[data-testid=error-alert]").text

    def wait_for_the_run(self) -> str:
        """Wait for the page of the triggered run; return the run's id."""
        WebDriverWait(self.driver, _PATIENCE_SECONDS).until(lambda driver: "/runs/" in driver.current_url)
        return unquote(self.driver.current_url.partition("/runs/")[2].partition("?")[0])

    def leave(self) -> None:
        """Show an empty page, because the page of an active run takes more CPU than the run."""
        self.driver.get("about:blank")

    def wait_for_state(self, state: str, seconds: float) -> None:
        """Wait until the page of a run shows this state."""
        of_the_run = "@data-testid='state-badge' and not(ancestor::table)"  # tables have the badges of tasks
        badge = (By.XPATH, f"//*[{of_the_run} and contains(., '{state}')]")
        WebDriverWait(self.driver, seconds).until(visibility_of_element_located(badge))

    def wait_for_question(self, seconds: float) -> None:
        """Wait until the page of a run shows that a task waits for an answer."""
        badge = (By.XPATH, "//table//*[@data-testid='state-badge' and contains(., 'Awaiting Input')]")
        WebDriverWait(self.driver, seconds).until(presence_of_element_located(badge))

    def mark_as_failed(self) -> None:
        """Mark the run on this page as failed."""
        self._press("[data-testid=mark-run-as-button]")
        self._press("[data-testid=mark-run-as-failed]")
        self._press("[data-testid=mark-run-as-confirm]")

    def show_end_of_log(self) -> None:
        """Break the long lines of the log that is shown, and scroll to its end."""
        self._see("body").send_keys("w")
        scroll = "for (let e = arguments[0]; e; e = e.parentElement) e.scrollTop = e.scrollHeight"
        for _ in range(3):  # a line gets its height only when it is visible, and then the end moves
            self.driver.execute_script(scroll, self._see("[data-testid=virtualized-list]"))
            time.sleep(1)

    def log_of(self, run_id: str, task_id: str, text: str) -> str:
        """Return the log of a task as the page shows it, as soon as it has the `text`."""
        self.driver.get(f"{self._dag}/runs/{quote(run_id)}/tasks/{task_id}")
        line = self._see(f"//*[@data-testid='virtualized-list']//*[contains(., '{text}')]", By.XPATH)
        return line.text

    def question_of(self, run_id: str, task_id: str) -> str:
        """Return the question of a task, open or answered, as the page shows it."""
        self.driver.get(f"{self._dag}/runs/{quote(run_id)}/tasks/{task_id}/required_actions")
        self._see("[data-testid^=hitl-option-]")
        return self._see("main, #root", By.CSS_SELECTOR).text

    @property
    def can_be_answered(self) -> bool:
        """Return whether the question on this page still waits for an answer."""
        return self._see("[data-testid^=hitl-option-]").is_enabled()

    def answer(self, option: str) -> None:
        """Press the button below the question, and wait until the answer was accepted."""
        time.sleep(SECONDS_TO_READ)
        self._press(f"[data-testid='hitl-option-{option}']")
        WebDriverWait(self.driver, _PATIENCE_SECONDS).until(lambda _: not self.can_be_answered)

    def report_in_tab(self) -> str:
        """Return the text of the tab *Report* on the page of a run."""
        self._press("//a[normalize-space()='Report']", By.XPATH)
        self.driver.switch_to.frame(self._see("iframe[title=Report]"))
        text = self._see("body").text
        self.driver.switch_to.default_content()
        return text

    def open_run(self, run_id: str) -> None:
        self.driver.get(f"{self._dag}/runs/{quote(run_id)}")

    def show_graph(self) -> None:
        self._press("[aria-label^='Show Graph']")
        self._see(".react-flow__node")

    def _trigger_button(self) -> WebElement:
        return self._see("//*[@role='dialog']//button[normalize-space()='Trigger']", By.XPATH)

    def _see(self, selector: str, by: str = By.CSS_SELECTOR) -> WebElement:
        return WebDriverWait(self.driver, _PATIENCE_SECONDS).until(visibility_of_element_located((by, selector)))

    def _press(self, selector: str, by: str = By.CSS_SELECTOR) -> None:
        ready = element_to_be_clickable((by, selector))
        WebDriverWait(self.driver, _PATIENCE_SECONDS).until(ready).click()


@contextmanager
def browser(width: int, height: int) -> Iterator[Chrome]:
    """Run Debian's chromium without a window; it can only reach this machine."""
    for program in ("chromium", "chromedriver"):
        need(program, "pages are looked at in a browser")
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        *("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu", "force-prefers-reduced-motion"),
        f"window-size={width},{height}",
    ):
        options.add_argument(f"--{argument}")
    driver = Chrome(options, Service(shutil.which("chromedriver")))
    driver.command_executor.client_config.timeout = _REQUEST_SECONDS
    try:
        yield driver
    finally:
        driver.quit()


def shown_as(driver: Chrome, width: int, theme: str) -> None:
    """Let the browser show pages as on a screen of this width, in the theme `light` or `dark`."""
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wish = {"name": "prefers-color-scheme", "value": theme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [wish]})
