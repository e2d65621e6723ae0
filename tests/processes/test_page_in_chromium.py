"""The page for all processes in a browser: it renews its values in place, and can be read at each width."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import count

import pytest

from kstreams_assign.model import HostInfo
from kstreams_assign.processes.endpoint import Endpoint, Reply
from kstreams_assign.processes.supervision import State
from kstreams_assign.processes.views import ProcessView, SupervisorView
from kstreams_assign.status.server import StatusServer, answer
from kstreams_assign.worker.events import EventLog
from tests.looks import cut_tables, faint_texts, in_each_look, page_width
from tests.processes.test_endpoint import RESTING, RUNNING
from tests.status.statuses import NOWHERE, settled, warming

MANY = 123_456_789_000_000
RECORDS_IN = "#processes tr:first-child td:last-child"
LABEL = "(cell) => getComputedStyle(cell, '::before').content.replaceAll('\"', '')"


class Shown:
    """A page of a supervisor of ``processes``; each that runs answers with what ``status`` returns for its URL."""

    def __init__(self, browser, processes, status, **options):
        self.processes, self.status = processes, status
        self.complaints, self.requests, self.port = [], [], 0
        self.stack = ExitStack()
        self.serve()
        self.page = browser.new_page(**({"viewport": {"width": 1280, "height": 900}} | options))
        self.page.clock.install()
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"http://127.0.0.1:{self.port}/")

    def serve(self):
        server = StatusServer(HostInfo("127.0.0.1", self.port))
        self.port = server.address.port
        server.serve(Endpoint(lambda: SupervisorView(self.processes), self.ask).answer, EventLog("p", [].append))
        self.stack.callback(server.stop)

    def ask(self, url, path, accept):
        own = answer(path, lambda: self.status(url), accept)
        return Reply(own.code, own.content_type, own.body)

    def until(self, condition, arg=None):
        self.page.wait_for_function(condition, arg=arg)

    def records_in(self):
        return int(self.page.inner_text(RECORDS_IN).replace(",", ""))

    def until_renewed(self, times=1):
        """Wait until the value that each answer increases has grown so often."""
        grown = "([cell, least]) => Number(document.querySelector(cell).innerText.replaceAll(',', '')) >= least"
        self.until(grown, [RECORDS_IN, self.records_in() + times])


@pytest.fixture
def opened(browser):
    """Open the page. At the end its console is empty, no name from the data ran, and it asked only its own server."""
    pages = []

    def open_page(processes=(RUNNING[0], RESTING), status=lambda _url: settled(), **options):
        pages.append(Shown(browser, processes, status, **options))
        return pages[-1]

    yield open_page
    for shown in pages:
        hit = shown.page.evaluate("window.hit ?? null")
        shown.page.close()
        shown.stack.close()
        assert (shown.complaints, hit) == ([], None)
        asked = {url for url in shown.requests if not url.startswith("data:")}
        assert asked == {f"http://127.0.0.1:{shown.port}/"}


def growing():
    """Return a status with one more record at each call."""
    records = count(MANY)
    return lambda _url: settled(records_total=next(records), generation=MANY)


def test_values_are_renewed_without_a_loss_of_focus_or_place(opened):
    shown = opened(status=growing(), viewport={"width": 770, "height": 200})
    link = shown.page.locator("#processes a")
    link.focus()
    places = "(link) => [document.activeElement === link, document.querySelector('.scroll').scrollLeft, scrollY]"
    shown.page.evaluate("document.querySelector('.scroll').scrollLeft = 40; scrollTo(0, 60)")
    assert link.evaluate(places) == [True, 40, 60]
    handle = link.element_handle()
    shown.until_renewed(times=2)
    assert handle.evaluate(places) == [True, 40, 60]


def test_a_paused_page_stays_as_it_is_and_asks_nothing_until_it_goes_on(opened):
    shown = opened(status=growing())
    button, fresh = shown.page.locator("#pause"), shown.page.locator("#fresh")
    shown.page.clock.run_for(2_000)
    shown.until_renewed(times=0)
    button.focus()
    shown.page.keyboard.press("Enter")
    assert fresh.get_attribute("class") == "paused"
    assert fresh.inner_text().startswith("paused at ")
    before, asked = shown.records_in(), len(shown.requests)
    shown.page.clock.run_for(20_000)
    assert (shown.records_in(), len(shown.requests)) == (before, asked)
    assert button.inner_text() == "Go on"
    button.click()
    shown.until_renewed()
    shown.until("() => document.getElementById('fresh').innerText === 'up to date'")
    assert button.inner_text() == "Pause"
    after = len(shown.requests)
    for _ in range(3):
        with shown.page.expect_request("**/"):
            shown.page.clock.run_for(2_000)
    assert len(shown.requests) == after + 3


def test_a_process_that_fails_changes_its_row_the_summary_and_the_verdicts(opened):
    shown = opened(processes=(RUNNING[0], RUNNING[1]))
    assert shown.page.inner_text("#summary") == "processes: 2 running"
    shown.page.focus("#processes tr:first-child a")
    shown.processes = (RUNNING[0], RESTING)
    shown.until("() => document.getElementById('summary').innerText === 'processes: 1 resting, 1 running'")
    cells = shown.page.locator("#processes tr").nth(1).locator("td").all_inner_texts()
    assert cells == ["1", "failed, starts again in 4 s", "–", "3", *["–"] * 6]
    assert shown.page.locator("#processes a").all_inner_texts() == ["0"]
    assert shown.page.locator(".verdict").all_inner_texts() == ["Live", "Not ready", "Do not scale now"]
    assert shown.page.locator(".verdict").nth(1).get_attribute("class") == "verdict no"
    assert shown.page.locator(".reasons li").all_inner_texts() == ["process 1: it failed, and starts again in 4 s"]
    shown.processes = (RUNNING[0], RUNNING[1])
    shown.until("() => !document.querySelector('.reasons') && document.querySelectorAll('#processes a').length === 2")
    assert shown.page.evaluate("document.activeElement.getAttribute('href')") == "processes/0/"


def test_the_page_shows_that_the_supervisor_is_away_and_when_it_is_back(opened):
    shown = opened()
    shown.page.focus("#processes a")
    before = shown.page.inner_text("#processes")
    shown.stack.close()
    shown.page.wait_for_selector("#fresh.stale")
    assert shown.page.inner_text("#fresh").startswith("no answer since ")
    assert shown.page.inner_text("#processes") == before
    shown.status = growing()
    shown.serve()
    shown.page.wait_for_selector("#fresh:not(.stale)")
    shown.until_renewed()
    assert shown.page.inner_text("#fresh") == "up to date"
    assert shown.page.evaluate("document.activeElement.getAttribute('href')") == "processes/0/"
    shown.complaints[:] = [text for text in shown.complaints if "net::ERR_" not in text]


def test_an_answer_that_is_not_this_page_changes_nothing(opened):
    shown = opened()
    before = shown.page.inner_text("main section")
    shown.page.route("**/", lambda route: route.fulfill(body="<h1 id=application>another</h1>"))
    shown.page.wait_for_selector("#fresh.stale")
    assert (shown.page.inner_text("h1"), shown.page.inner_text("main section")) == ("shop", before)


def test_a_hidden_page_asks_for_nothing_until_it_is_seen_again(opened):
    shown = opened(status=growing())
    shown.page.evaluate(
        """() => { const own = fetch; window.asked = 0;
        window.fetch = (...all) => { asked += 1; return own(...all); }; }"""
    )
    shown.until_renewed()
    hide = "() => { Object.defineProperty(document, 'hidden', { get: () => !window.seen }); return asked; }"
    asked = shown.page.evaluate(hide)
    shown.page.clock.run_for(60_000)
    assert shown.page.evaluate("asked") == asked > 0
    shown.page.evaluate("window.seen = true; document.dispatchEvent(new Event('visibilitychange'))")
    shown.until_renewed()


def test_names_are_shown_as_text_and_not_run(opened):
    shown = opened(status=lambda _url: replace(warming(NOWHERE), application_id="shop"))
    shown.status = lambda _url: replace(warming(NOWHERE), application_id=NOWHERE)
    shown.until("(name) => document.querySelector('h1').innerText === name", NOWHERE)
    assert shown.page.locator("main img").count() == 0


def test_without_javascript_the_browser_loads_the_page_again(opened, browser):
    shown = opened()
    page = browser.new_page(java_script_enabled=False)
    page.goto(f"http://127.0.0.1:{shown.port}/")
    shown.processes = (RUNNING[0],)
    page.get_by_text("processes: 1 running", exact=True).wait_for()
    page.close()


def test_the_page_is_readable_at_each_width_in_light_and_dark(opened):
    many = tuple(ProcessView(n, State.RUNNING, n, pid=4_000_000 + n, url=f"http://{n}/") for n in range(3))
    busy = replace(warming(), application_id="orders-0.orders.shop.svc.cluster.local", records_total=MANY // 100)
    page = opened((*many, replace(RESTING, number=3)), lambda _url: busy).page
    for width in in_each_look(page):
        assert page_width(page) == width
        assert cut_tables(page) == []
        assert faint_texts(page) == []


def test_on_a_narrow_screen_each_value_has_its_label_and_unknown_ones_are_left_out(opened):
    page = opened(viewport={"width": 390, "height": 900}).page
    running, resting = (row.locator("td:visible") for row in page.locator("#processes tr").all())
    heads = ["process", "state", "pid", "restarts", "generation", "active", "warm-up", "standby", "input lag"]
    assert [cell.evaluate(LABEL) for cell in running.all()] == [*heads, "records in"]
    assert [cell.evaluate(LABEL) for cell in resting.all()] == ["process", "state", "restarts"]
