"""The status page in a browser: tasks, lags, rates, why it probes; and names from the data run no code."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from itertools import count, repeat

import pytest

from kstreams_assign.group.member import State
from kstreams_assign.model import HostInfo, TaskId
from kstreams_assign.status.page import POLICY
from kstreams_assign.status.values import Holder, ReplicaProgress, TaskStatus
from kstreams_assign.status.views import GlobalTableView
from kstreams_assign.worker.streams_assignments import BROKERS
from tests.looks import cut_tables, faint_texts, in_each_look, page_width
from tests.status.statuses import NEW, NOWHERE, orders, settled, task, warming
from tests.status.test_server import serving


class Shown:
    """A page of a server that answers each request with the next of ``moments``."""

    def __init__(self, browser, status, *, clock=False, **options):
        self.moments = repeat(status)
        self.complaints, self.requests = [], []
        stack = ExitStack()
        self.port, _ = stack.enter_context(serving(lambda: next(self.moments)))
        self.end = stack.close
        self.page = browser.new_page(**({"viewport": {"width": 1280, "height": 900}} | options))
        if clock:
            self.page.clock.install()
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
    """Open the page on a status. At the end its console is empty, and all its requests went to its own server."""
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


def test_the_page_shows_task_process_changelog_progress_rate_and_time_left(opened):
    shown = opened(warming())
    assert shown.page.text_content("h1") == "shop"
    assert shown.page.locator(".verdict").all_text_contents() == ["Live", "Ready", "Do not scale now"]
    assert "in 9 min 12 s" in shown.page.locator(".card", has_text="Next probing rebalance").inner_text()
    assert shown.rows("warmups") == [
        ["0_0", "newcomer:80", "shop-totals-changelog-0", "100 %", "0", "–", "caught up"],
        ["0_1", "newcomer:80", "shop-totals-changelog-1", "59 %", "41,000", "850", "48 s"],
    ]
    assert "1 of 2 warm-ups have not caught up" in shown.page.text_content("#probing-note")
    assert [row[:6] for row in shown.rows("tasks")] == [
        ["0_0", "active", "running", "0", "100 %", "0"],
        ["0_1", "active", "running", "250", "100 %", "0"],
        ["0_2", "standby", "tailing", "–", "100 %", "12"],
    ]
    assert "most in orders-1: 250" in shown.page.locator(".card", has_text="Input lag").inner_text()
    processes = shown.page.locator("#processes tr")
    assert "this process" in processes.nth(0).inner_text()
    assert processes.nth(2).locator(".chip.warmup").all_text_contents() == ["0_0", "0_1"]


def test_in_a_streams_group_the_page_speaks_of_assignments_and_brokers_and_of_no_leader(opened):
    shown = opened(settled(streams_group=True, generation=3, leads=False, assignor=BROKERS, early=""))
    header = shown.page.text_content("#who")
    assert header.split(" · ")[2:] == ["assignment 3"]
    assert shown.page.text_content("#group-note").startswith("From the brokers: ")
    alone = opened(settled(streams_group=True, leads=False, assignor=BROKERS, holders=settled().holders[:1]))
    assert "application_server" in alone.page.text_content("#group-note")
    unjoined = {"state": State.UNJOINED, "generation": None, "assigned": False, "assignor": None, "holders": ()}
    outside = opened(settled(streams_group=True, leads=False, **unjoined))
    assert outside.page.text_content("#who").endswith(" · no assignment")
    for each in (shown, alone, outside):
        assert not re.search("leader|follower|generation|rebalance", each.page.inner_text("main"))


def test_a_follower_of_a_classic_group_names_the_generation_and_the_leaders_page(opened):
    shown = opened(settled(leads=False))
    assert shown.page.text_content("#who").endswith(" · generation 7 · follower")
    assert "The leader's page shows all." in shown.page.text_content("#group-note")


def test_the_page_updates_itself_and_shows_when_the_worker_does_not_answer(opened):
    shown = opened(warming())
    shown.page.evaluate("window.still = true")
    now = settled()
    shown.moments = (
        replace(
            now,
            now_ms=now.now_ms + 2_000 * n,
            records_total=now.records_total + 500 * n,
            records_out_total=now.records_out_total + 300 * n,
        )
        for n in count(1)
    )
    shown.page.wait_for_selector("#probing", state="hidden")
    assert shown.page.locator(".verdict").last.text_content() == "May be scaled"
    rates = shown.page.locator(".card", has_text="Records a second").locator("strong")
    assert rates.inner_text() == "250 in, 150 out"
    assert shown.page.evaluate("window.still")
    shown.end()
    shown.page.wait_for_selector("#fresh.stale")
    assert "has not answered for" in shown.page.text_content("#fresh")
    shown.complaints[:] = [text for text in shown.complaints if "ERR_CONNECTION_REFUSED" not in text]


def test_the_page_is_paused_and_goes_on(opened):
    shown = opened(warming(), clock=True)
    shown.page.click("#pause")
    shown.page.wait_for_selector("#fresh.paused")
    shown.moments, asked = repeat(settled()), len(shown.requests)
    shown.page.clock.run_for(20_000)
    assert len(shown.requests) == asked
    assert shown.page.is_visible("#probing")
    shown.page.click("#pause")
    shown.page.wait_for_selector("#probing", state="hidden")
    assert shown.page.inner_text("#fresh") == "up to date"


def test_while_the_page_is_paused_the_worker_is_not_silent(opened):
    shown = opened(warming(), clock=True)
    shown.page.click("#pause")
    shown.end()
    shown.page.clock.fast_forward("01:00:00")
    shown.page.click("#pause")
    shown.page.wait_for_selector("#fresh.stale")
    assert re.fullmatch("the worker has not answered for [0-5] s", shown.page.inner_text("#fresh"))
    shown.complaints[:] = [text for text in shown.complaints if "ERR_CONNECTION_REFUSED" not in text]


def test_global_tables_are_listed_with_state_and_lag_where_there_are_any(opened):
    tables = (
        GlobalTableView("countries", "codes", ready=True, lag=1_234),
        GlobalTableView("rates", "r", ready=False, lag=None),
        GlobalTableView("names", "n", ready=True, lag=0, stopped="its topic n does not exist; create it again"),
    )
    shown = opened(settled(global_tables=tables))
    assert shown.page.locator("#global-tables li").all_inner_texts() == [
        "countries (topic codes): can be read, lag 1,234",
        "rates (topic r): is being read to its end, lag –",
        "names (topic n): its topic n does not exist; create it again, lag 0",
    ]
    assert opened(settled(global_tables=())).page.locator("#tables").is_hidden()


def test_names_are_shown_as_text_and_not_run(opened):
    shown = opened(replace(warming(NOWHERE), application_id=NOWHERE))
    assert shown.page.text_content("h1") == NOWHERE
    assert shown.rows("warmups")[0][1] == f"{NOWHERE}:80"
    assert shown.page.locator("img").count() == 0
    assert "unsafe" not in POLICY


def test_a_replica_with_unknown_values_is_shown_as_such(opened):
    tasks = (
        TaskStatus(TaskId(1, 0), "active", "restoring", None),
        TaskStatus(TaskId(1, 1), "standby", "tailing", ReplicaProgress(9)),
    )
    shown = opened(settled(tasks=tasks, holders=(), assignor=None))
    assert shown.rows("tasks")[0][:6] == ["1_0", "active", "restoring", "–", "not known yet", "–"]
    assert shown.rows("processes") == [["no assignment yet"]]


def test_a_task_without_a_changelog_has_no_share_restored(opened):
    done = ReplicaProgress(0, 1.0)
    stateless = TaskStatus(TaskId(1, 0), "active", "running", done, True, has_changelog=False, inputs={orders(0): 7})
    shown = opened(settled(tasks=(stateless,)))
    assert shown.rows("tasks")[0][:6] == ["1_0", "active", "running", "7", "no changelog", "–"]
    assert shown.page.locator(".meter").count() == 0


@pytest.mark.parametrize("status", [warming, settled])
def test_the_page_is_readable_at_each_width_in_light_and_dark(opened, status):
    names = "orders-0.orders.shop.svc.cluster.local"
    holders = (*status().holders, Holder(NEW, HostInfo(names, 80), (), None, (task(0), task(1))))
    tables = (GlobalTableView("countries", "acme.billing.public.customer_country_codes_v1", ready=True, lag=3),)
    shown = replace(status(), holders=holders, application_id=names, global_tables=tables)
    page = opened(shown).page
    for width in in_each_look(page):
        assert page_width(page) == width
        assert cut_tables(page) == []
        assert faint_texts(page) == []


def test_on_a_narrow_screen_each_value_has_its_label(opened):
    page = opened(warming(), viewport={"width": 390, "height": 900}).page
    row = page.locator("#tasks tr").nth(2)
    labels = row.locator("td:visible").evaluate_all(
        "(cells) => cells.map((cell) => getComputedStyle(cell, '::before').content.replaceAll('\"', ''))"
    )
    assert labels == ["none", "role", "state", "restored", "changelog lag", "restored/s", "time left", "largest lag in"]


def test_the_dark_page_has_a_dark_background(opened):
    page = opened(settled(), color_scheme="dark").page
    shade = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(shade) == "rgb(21, 24, 28)"
    page.emulate_media(color_scheme="light")
    assert page.evaluate(shade) == "rgb(255, 255, 255)"
