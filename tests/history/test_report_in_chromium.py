"""The page as a browser shows it: drawn, silent, without a request, and with its hands working."""

from __future__ import annotations

from random import Random

import pytest
from playwright.sync_api import sync_playwright

from kstreams_assign.history.layout import Layout
from kstreams_assign.history.report import report
from kstreams_assign.history.tables import empty_tables, joined_tables
from kstreams_assign.history.writing import HistoryWriter
from tests.history.report_data import NOON_MS, Story, derived, write_tables
from tests.history.streams_coordinator import A, B, Coordinator
from tests.history.streams_coordinator import derived as streams_derived
from tests.looks import cut_tables, faint_texts, in_each_look, page_width

LIMIT_MS = 100_000
"""For Chromium to start, or to show something, on a busy machine."""
pytestmark = pytest.mark.timeout(600)  # well above it: Playwright hangs where a signal ends its wait
HOSTILE = "<img src=x onerror=window.hit=1><script>window.hit=1</script>"


def scaled_out():
    """Six tasks on two processes; a third is warmed up and takes its share, then the first leaves."""
    story = Story({"orders": 6}, standbys=1)
    story.start(1)
    story.start(2)
    story.rebalance()
    story.group.wait(300_000)
    story.start(3)
    story.rebalance()
    story.settle(10)
    story.stop(1)
    story.rebalance()
    return story


def never_warm():
    """A fourth process whose copies are read so slowly that no probe finds them caught up."""
    story = Story({"orders": 8, "clicks": 4})
    for number in (1, 2, 3):
        story.start(number)
    story.rebalance()
    story.group.wait(60_000)
    story.start(4)
    story.rebalance()
    story.settle(5, offsets_per_s=3)
    return story


def wandering(tasks=200, generations=100):
    """Tables of a group in which every generation gives each task to the next of 11 instances: none merge."""
    tables, instances = empty_tables(), 11
    for generation in range(generations):
        own = {"group": "wandering", "generation": generation, "offsets_partition": 1, "offsets_offset": generation}
        own["time_ms"] = NOON_MS + generation * 60_000
        _add(tables, "rebalances", own, state="stable", cause="rejoin", owner_changes=tasks)
        for task in range(tasks):
            for role, later in (("active", 0), ("standby", 1)):
                holder = f"process-{(task + generation + later) % instances}"
                where = {"task": f"{task % 2}_{task // 2}", "subtopology": task % 2, "process_id": holder}
                _add(tables, "task_placements", own, role=role, warmup_known=True, **where)
    return tables


def _add(tables, name, own, **values):
    for column, cells in tables[name].items():
        cells.append((own | values).get(column))


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"], timeout=LIMIT_MS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def fleet_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    parts = [derived("orders-app", scaled_out()), derived(HOSTILE, never_warm())]
    write_tables(folder, joined_tables(parts))
    report(folder, folder / "page.html")
    return folder / "page.html"


@pytest.fixture(scope="module")
def wandering_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wandering")
    write_tables(folder, wandering())
    report(folder, folder / "page.html")
    return folder / "page.html"


@pytest.fixture
def opened(browser):
    """Opens a page; at the end nothing may have been complained of, asked for, or run that is not ours."""
    complaints, requests, pages = [], [], []

    def open_page(path, fragment="", **options):
        page = browser.new_page(**({"viewport": {"width": 1280, "height": 900}} | options))
        page.set_default_timeout(LIMIT_MS)
        page.on("console", lambda said: complaints.append(said.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(f"{path.as_uri()}{fragment}")
        pages.append(page)
        return page

    yield open_page
    assert len(requests) == len(pages)  # itself
    hits = [page.evaluate("window.hit ?? null") for page in pages]
    for page in pages:
        page.close()
    assert complaints == []
    assert set(hits) <= {None}


def bars_in(page):
    return int(page.get_attribute("#timeline", "data-bars"))


def painted(page):
    """How many colours the timeline shows."""
    return page.evaluate(
        """() => { const body = document.querySelector("#timeline canvas.body"), context = body.getContext("2d");
        return new Set(new Uint32Array(context.getImageData(0, 0, body.width, body.height).data.buffer)).size; }"""
    )


def test_the_group_in_trouble_is_shown_first_with_all_its_bars_and_plots(opened, fleet_page):
    page = opened(fleet_page)
    assert page.text_content("#choose option:checked") == HOSTILE
    assert page.text_content(".card.bad strong") == "1 group never finishes probing"
    assert page.text_content("#timeline-title") == "12 tasks and none moved in 7 generations"
    assert (bars_in(page), page.get_attribute("#timeline", "data-rows")) == (14, "12")  # two of them warm-ups
    assert painted(page) > 4
    assert page.locator("#causes .bars path").count() == 2 + 5  # the first, a join, and its probes
    assert page.locator("#skew .scatterlayer .trace").count() >= 2
    assert page.evaluate("document.getElementById('warmups').data.map(kind => kind.y.reduce((a, b) => a + b))") == [2]
    assert page.locator("#fleet-causes .bars path").count() > 5


def test_many_tasks_without_a_standby_fit_into_the_timeline(opened, tmp_path):
    story = Story({"orders": 40})
    story.start(1)
    story.rebalance()
    story.rebalance()
    write_tables(tmp_path, joined_tables([derived("orders-app", story)]))
    report(tmp_path, tmp_path / "page.html")
    page = opened(tmp_path / "page.html")
    page.click("#timeline .tools button:text-is('fit')")
    assert (page.get_attribute("#timeline", "data-rows"), bars_in(page)) == ("40", 40)


def test_another_group_is_chosen_by_the_box_the_link_and_the_address(opened, fleet_page):
    page = opened(fleet_page)
    page.select_option("#choose", "1")
    assert page.text_content("#timeline-title").startswith("4 of 6 tasks moved")
    page.click("#groups a[data-group='0']")
    page.wait_for_function("document.getElementById('group').dataset.shown === '0'")
    by_address = opened(fleet_page, "#group-1")
    assert by_address.get_attribute("#group", "data-shown") == "1"
    assert by_address.locator("#moves tbody tr").count() == 4


def test_dragging_zooms_into_the_time_and_a_double_click_shows_all_again(opened, fleet_page):
    page = opened(fleet_page, "#group-1")
    page.locator("#timeline").scroll_into_view_if_needed()
    whole, bars = page.get_attribute("#timeline", "data-range"), bars_in(page)
    box = page.locator("#timeline canvas.body").bounding_box()
    page.mouse.move(box["x"] + 120, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 240, box["y"] + 30, steps=3)
    page.mouse.up()
    first, last = map(float, page.get_attribute("#timeline", "data-range").split())
    assert float(whole.split()[0]) < first < last < float(whole.split()[1])
    assert bars_in(page) < bars
    page.mouse.dblclick(box["x"] + 300, box["y"] + 30)
    assert page.get_attribute("#timeline", "data-range") == whole


def test_hovering_tells_task_instance_generations_and_lag(opened, fleet_page):
    page = opened(fleet_page, "#group-0")
    page.locator("#timeline .view").focus()
    page.click("#timeline .tools button:text-is('equal')")
    view = page.locator("#timeline canvas.body")
    view.scroll_into_view_if_needed()
    warm = page.evaluate(
        """() => { const group = JSON.parse(document.getElementById("group-0").textContent), at = group.bars.findIndex(
        (role, index) => index % 6 === 3 && role === 2); return group.tasks[group.bars[at - 3]][0]; }"""
    )
    assert warm.startswith("0_")
    box = view.bounding_box()
    texts = []
    for y in range(6, int(box["height"]), 6):
        page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + y)
        texts.append(page.text_content("#timeline .tip"))
    (text,) = {text for text in texts if f"{warm}: warm-up" in text}
    assert "on 4 w4:8080" in text
    assert "Generations 2 to 7" in text
    assert "Lag as it joined generation 7: " in text
    assert "Generation 7: probe (certain)" in text


def test_keys_walk_through_tasks_and_generations_and_what_they_find_is_said(opened, fleet_page):
    page = opened(fleet_page, "#group-1")
    page.locator("#timeline .view").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    said = page.text_content("#timeline .status")
    assert said.startswith("0_1: active on ")
    assert "Generation 2: join" in said
    page.keyboard.press("+")
    zoomed = page.get_attribute("#timeline", "data-range")
    page.keyboard.press("0")
    assert page.get_attribute("#timeline", "data-range") != zoomed


def test_the_groups_can_be_sorted_by_the_keyboard(opened, fleet_page):
    page = opened(fleet_page)
    page.locator("#groups th button", has_text="owner changes").focus()
    page.keyboard.press("Enter")
    assert page.text_content("#groups tbody tr:first-child td") == "orders-app"
    page.keyboard.press("Enter")
    assert page.text_content("#groups tbody tr:first-child td") == HOSTILE


@pytest.mark.parametrize("group", ["#group-0", "#group-1"])
def test_it_can_be_read_at_each_width_on_light_and_dark_paper(opened, fleet_page, group):
    page = opened(fleet_page, group)
    for width in in_each_look(page):
        assert page_width(page) == width
        if width in {390, 1280}:
            assert cut_tables(page) == []
        assert faint_texts(page) == []


def test_a_streams_group_shows_how_long_its_rebalances_and_hand_overs_took(opened, tmp_path):
    coordinator = Coordinator(Random(4))
    for process in (A, B):
        coordinator.join(process)
        coordinator.wait(1_500)
        coordinator.settle()
    coordinator.bump()  # which settles the movements, as all tasks are dealt again
    coordinator.settle()
    for member_id in coordinator.members:
        coordinator.commit(member_id)
    write_tables(tmp_path, streams_derived(coordinator.records))
    report(tmp_path, tmp_path / "page.html")
    page = opened(tmp_path / "page.html")
    rebalances = page.locator("#rebalances tbody tr", has_text="the broker")
    assert rebalances.count() == 3
    assert "1.8 s" in rebalances.nth(1).text_content()
    heads = page.locator("#rebalances th").all_text_contents()
    assert ("took" in heads, "leader" in heads, "probing" in heads) == (True, False, False)
    assert page.locator("#moves th", has_text="hand-over").count() == 1
    assert page.locator("#moves tbody tr", has_text="50 ms").count() > 0
    for width in in_each_look(page):
        assert page_width(page) == width
        if width in {390, 1280}:
            assert cut_tables(page) == []


def test_a_page_of_classic_groups_has_no_columns_for_streams_groups(opened, fleet_page):
    page = opened(fleet_page, "#group-1")
    assert page.locator("#rebalances th", has_text="took").count() == 0
    assert page.locator("#moves th", has_text="hand-over").count() == 0


def test_dark_is_dark(opened, fleet_page):
    page = opened(fleet_page, color_scheme="dark")
    shade = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(shade) == "rgb(21, 24, 28)"
    page.emulate_media(color_scheme="light")
    assert page.evaluate(shade) == "rgb(255, 255, 255)"


def test_paper_is_white_and_has_every_row(opened, wandering_page):
    page = opened(wandering_page, color_scheme="dark")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    cut = """[...document.querySelectorAll(".view, .scroll")].filter((box) =>
        box.clientHeight && box.scrollHeight > box.clientHeight + 1
        || box.getBoundingClientRect().right > innerWidth).length"""
    assert page.evaluate(cut) == 0
    end, start = (page.locator(f"#{block}-block").bounding_box() for block in ("rebalances", "processes"))
    assert end["height"] > 100 * 15
    assert end["y"] + end["height"] <= start["y"]
    assert page.pdf()[:5] == b"%PDF-"


def test_two_hundred_wandering_tasks_are_drawn_quickly(opened, wandering_page):
    page = opened(wandering_page)
    assert page.get_attribute("#timeline", "data-rows") == "200"
    assert bars_in(page) == 200 * 100  # each active copy; standbys need taller rows
    page.click("#timeline .tools button:text-is('rows')")
    assert bars_in(page) == 200 * 100 * 2
    page.keyboard.press("Escape")
    drawing = page.evaluate(
        """() => { const button = (title) => document.querySelector(`#timeline .tools button[title='${title}']`);
        return Array.from({ length: 5 }, () => { const at = performance.now(); button("zoom in").click();
        const took = performance.now() - at; button("show all").click(); return took; }); }"""
    )  # what counts is how fast it can be: others may have the processor meanwhile
    assert min(drawing) < 2_000, drawing


@pytest.mark.parametrize(
    ("tasks", "scale", "height"), [(1_000, 2, "rows"), (3_000, 1, "rows"), (11_000, 1, "fit")], ids=str
)
def test_the_rows_of_many_tasks_are_drawn_to_the_last(opened, tmp_path, tasks, scale, height):
    """Chromium draws nothing on a canvas of more than 65,535 pixels, Firefox and Safari on less."""
    write_tables(tmp_path, wandering(tasks, 3))
    report(tmp_path, tmp_path / "page.html")
    page = opened(tmp_path / "page.html", device_scale_factor=scale)
    page.click(f"#timeline .tools button:text-is('{height}')")
    assert page.get_attribute("#timeline", "data-rows") == str(tasks)
    pixels, first_rows, last_rows = page.evaluate(
        """() => { const body = document.querySelector("#timeline canvas.body"), wide = body.width;
        const both = document.createElement("canvas"), pen = both.getContext("2d");
        [both.width, both.height] = [wide, 60];
        pen.drawImage(body, 0, 0, wide, 30, 0, 0, wide, 30);
        pen.drawImage(body, 0, body.height - 30, wide, 30, 0, 30, wide, 30);
        const colours = new Uint32Array(pen.getImageData(0, 0, wide, 60).data.buffer);
        return [body.height, new Set(colours.slice(0, wide * 30)).size, new Set(colours.slice(wide * 30)).size]; }"""
    )
    assert pixels <= 32_767
    assert min(first_rows, last_rows) > 3


def test_a_page_without_a_group_is_quiet(opened, tmp_path):
    HistoryWriter(Layout(tmp_path))
    report(tmp_path, tmp_path / "page.html")
    assert "No rebalance" in opened(tmp_path / "page.html").text_content("main")
