"""The status page as a browser shows it: who has what and why it still probes, silent, and of no names' making."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from itertools import count, repeat

import pytest
from playwright.sync_api import sync_playwright

from kstreams_assign.model import TaskId
from kstreams_assign.worker.http.page import POLICY
from kstreams_assign.worker.http.status import TaskStatus, Way
from tests.worker.http.statuses import NOWHERE, settled, warming
from tests.worker.http.test_server import serving


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


class Shown:
    """A page of a server that tells one of ``moments`` at each request."""

    def __init__(self, browser, status, **options):
        self.moments = repeat(status)
        self.complaints, self.requests = [], []
        stack = ExitStack()
        self.port, _ = stack.enter_context(serving(lambda: next(self.moments)))
        self.end = stack.close
        self.page = browser.new_page(**({"viewport": {"width": 1280, "height": 900}} | options))
        self.page.on("console", lambda said: self.complaints.append(said.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(f"http://127.0.0.1:{self.port}/")
        self.page.wait_for_selector("body[data-shown]")

    def rows(self, table):
        return [
            [cell.strip() for cell in row.inner_text().split("\t")] for row in self.page.locator(f"#{table} tr").all()
        ]


@pytest.fixture
def opened(browser):
    """Opens the page on a status; at the end nothing may have been complained of, or asked for elsewhere."""
    pages = []

    def open_page(status, **options):
        pages.append(Shown(browser, status, **options))
        return pages[-1]

    yield open_page
    for shown in pages:
        hit = shown.page.evaluate("window.hit ?? null")
        shown.page.close()
        shown.end()
        assert (shown.complaints, hit) == ([], None)
        allowed = {f"http://127.0.0.1:{shown.port}/", f"http://127.0.0.1:{shown.port}/status.json"}
        assert {url for url in shown.requests if not url.startswith("data:")} == allowed


def test_it_tells_which_task_which_member_which_changelog_how_far_how_fast_and_how_long(opened):
    shown = opened(warming())
    assert shown.page.text_content("h1") == "shop"
    assert shown.page.locator(".verdict").all_text_contents() == ["Live", "Ready", "Do not scale now"]
    assert "in 9 min 12 s" in shown.page.locator(".card", has_text="Next probe").inner_text()
    assert shown.rows("warmups") == [
        ["0_0", "newcomer:80", "shop-totals-changelog-0", "100 %", "0", "–", "caught up"],
        ["0_1", "newcomer:80", "shop-totals-changelog-1", "59 %", "41,000", "850", "48 s"],
    ]
    assert "1 of 2 warm-ups have not caught up" in shown.page.text_content("#probing-note")
    assert [row[:3] for row in shown.rows("tasks")] == [
        ["0_0", "active", "running"],
        ["0_1", "active", "running"],
        ["0_2", "standby", "tailing"],
    ]
    processes = shown.page.locator("#processes tr")
    assert "this process" in processes.nth(0).inner_text()
    assert processes.nth(2).locator(".chip.warmup").all_text_contents() == ["0_0", "0_1"]


def test_it_keeps_up_without_being_loaded_again_and_says_when_the_worker_is_silent(opened):
    shown = opened(warming())
    shown.page.evaluate("window.still = true")
    now = settled()
    shown.moments = (
        replace(now, now_ms=now.now_ms + 2_000 * n, records_total=now.records_total + 500 * n) for n in count(1)
    )
    shown.page.wait_for_selector("#probing", state="hidden")
    assert shown.page.locator(".verdict").last.text_content() == "May be scaled"
    assert "250 a second" in shown.page.locator(".card", has_text="Records").inner_text()
    assert shown.page.evaluate("window.still")
    shown.end()
    shown.page.wait_for_selector("#fresh.stale")
    assert "has not answered for" in shown.page.text_content("#fresh")
    shown.complaints[:] = [text for text in shown.complaints if "ERR_CONNECTION_REFUSED" not in text]


def test_names_are_written_and_not_run(opened):
    shown = opened(replace(warming(NOWHERE), application_id=NOWHERE))
    assert shown.page.text_content("h1") == NOWHERE
    assert shown.rows("warmups")[0][1] == f"{NOWHERE}:80"
    assert shown.page.locator("img").count() == 0
    assert "unsafe" not in POLICY


def test_a_copy_of_which_little_is_known_is_told_as_such(opened):
    tasks = (
        TaskStatus(TaskId(1, 0), "active", "restoring", None),
        TaskStatus(TaskId(1, 1), "standby", "tailing", Way(9)),
    )
    shown = opened(settled(tasks=tasks, holders=(), assignor=None))
    assert shown.rows("tasks")[0][:5] == ["1_0", "active", "restoring", "not known yet", "–"]
    assert shown.rows("processes") == [["no assignment yet"]]


@pytest.mark.parametrize("width", [700, 1280])
def test_nothing_sticks_out_of_the_page_and_dark_is_dark(opened, width):
    names = "orders-0.orders.shop.svc.cluster.local"
    shown = opened(warming(names), viewport={"width": width, "height": 900}, color_scheme="dark")
    assert shown.page.evaluate("document.documentElement.scrollWidth") == width
    cut = "[...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth).length"
    assert shown.page.evaluate(cut) == 0
    shade = "getComputedStyle(document.body).backgroundColor"
    assert shown.page.evaluate(shade) == "rgb(21, 24, 28)"
    shown.page.emulate_media(color_scheme="light")
    assert shown.page.evaluate(shade) == "rgb(255, 255, 255)"
