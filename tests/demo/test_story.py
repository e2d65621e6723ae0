"""The script, played without a broker: what is done in which scene, and what happens when one does not end."""

from __future__ import annotations

import pytest

from kstreams_assign.demo.story import (
    DemoFailed,
    KillWorker,
    StartOrders,
    StartWorker,
    StopOrders,
    StopWorkers,
    Story,
    World,
    script,
)
from tests.demo.events import adopted, assigned, decision, exited, fleet_state_of, started, status

LAG = 1_000
EMPTY = World(tasks=3, shortest_changelog=0, all_processed=False)


def group_of(owners, generation, *, behind=LAG, **facts):
    """A fleet_state on which these workers have adopted the last decision and run these tasks.

    The worker before has standbys of a worker's tasks, and lacks ``behind`` offsets of each.
    """
    leader = next(iter(owners))
    events = [decision(leader, members=len(owners), **facts)]
    for (worker, tasks), others in zip(owners.items(), [*list(owners.values())[1:], owners[leader]], strict=True):
        standbys = {f"t{task}": ("standby", "tailing", behind) for task in others}
        running = {f"t{task}": ("active", "running", 0) for task in tasks}
        events += [assigned(worker, generation), adopted(worker, generation), status(worker, **standbys | running)]
    return fleet_state_of(*[started(worker) for worker in owners], *events)


W1_ALONE = group_of({"w1": ["0_0", "0_1", "0_2"]}, 1)
TWO = group_of({"w1": ["0_0", "0_1"], "w2": ["0_2"]}, 2)
PROBING = group_of({"w1": ["0_0", "0_1"], "w2": ["0_2"], "w3": []}, 3, next_probe_ms=60_000)
THREE = group_of({"w1": ["0_0"], "w2": ["0_1"], "w3": ["0_2"]}, 5)
SHORT = group_of({"w1": ["0_0"], "w2": ["0_1"], "w3": []}, 5)
COLD = group_of({"w1": ["0_0"], "w2": ["0_1"], "w3": ["0_2"]}, 5, behind=LAG + 1)
NOTHING = fleet_state_of()


def play(seed, *moments):
    """Step through states, a second apart; the commands of each step."""
    story = Story(script(LAG), seed)
    return [list(story.step(fleet_state, world, second * 1_000)) for second, (fleet_state, world) in enumerate(moments)]


def test_the_whole_script_in_order():
    long, done = EMPTY._replace(shortest_changelog=5 * LAG + 1), EMPTY._replace(all_processed=True)
    acts = play(
        7,
        (NOTHING, EMPTY),
        (W1_ALONE, EMPTY),
        (TWO, EMPTY),
        (TWO, long),
        *[(THREE, long)] * 6,
        (TWO, long),
        (TWO, done),
    )
    assert acts[4:9] == [[]] * 5, "the group is looked at for five seconds"
    del acts[4:9]
    (killed,) = acts.pop(4)
    assert isinstance(killed, KillWorker)
    assert acts == [
        [StartWorker("w1")],
        [StartWorker("w2")],
        [StartOrders()],
        [StartWorker("w3")],
        [StopOrders()],
        [StopWorkers()],
    ]


def at_scene(number):
    """A story that has come to scene ``number`` at 0 ms; each scene starts with the end of the one before."""
    story = Story(script(LAG), 7)
    story._number = number
    return story


@pytest.mark.parametrize(
    ("scene", "fleet_state", "world"),
    [
        (2, TWO, EMPTY._replace(shortest_changelog=5 * LAG)),
        (3, TWO, EMPTY),
        (3, PROBING, EMPTY),
        (3, SHORT, EMPTY),
        (3, COLD, EMPTY),
        (4, THREE, EMPTY),
        (5, TWO, EMPTY),
    ],
    ids=[
        "a changelog of five lags is not longer than five lags",
        "the third worker is not there",
        "a probe is due",
        "a task does not run",
        "standbys are still restored",
        "the killed worker is still seen",
        "input is not processed",
    ],
)
def test_a_scene_goes_on_while(scene, fleet_state, world):
    assert at_scene(scene).step(fleet_state, world, 1) == []


def test_after_a_crash_a_probe_may_be_due():
    fleet_state = group_of({"w1": ["0_0", "0_1"], "w2": ["0_2"]}, 6, next_probe_ms=60_000)
    assert at_scene(4).step(fleet_state, EMPTY, 1) == [StopOrders()]


def test_a_crashed_worker_is_not_waited_for():
    fleet_state = group_of({"w1": ["0_0", "0_1"], "w2": ["0_2"], "w3": []}, 6)
    fleet_state.hear(exited("w3"))
    assert at_scene(4).step(fleet_state, EMPTY, 1) == []  # the decision still counts on three
    fleet_state.hear(decision("w1", members=2))
    for worker in ("w1", "w2"):
        fleet_state.hear(assigned(worker, 7))
        fleet_state.hear(adopted(worker, 7))
    assert at_scene(4).step(fleet_state, EMPTY, 1) == [StopOrders()]


def test_the_seed_chooses_an_owner_to_kill():
    victims = set()
    for seed in range(20):
        story = Story(script(LAG), seed)
        story._number = 3
        story.step(THREE, EMPTY, 1)
        (command,) = story.step(THREE, EMPTY, 5_001)
        victims.add(command.name)
    assert victims == {"w1", "w2", "w3"}


def test_a_scene_that_takes_too_long_fails_and_says_which():
    with pytest.raises(DemoFailed, match="changelogs grow"):
        at_scene(2).step(TWO, EMPTY, 1_000_000)


def test_the_last_scene_ends_even_if_something_is_never_processed_so_that_the_check_can_tell():
    assert at_scene(5).step(TWO, EMPTY, 1_000_000) == [StopWorkers()]


def test_all_scenes_together_fit_into_the_time_that_was_promised_twice_over_at_most():
    assert sum(scene.limit_s for scene in script(LAG)) < 600


def test_a_group_that_does_not_stay_steady_is_waited_for_anew():
    story = Story(script(LAG), 7)
    story._number = 3
    acts = [
        list(story.step(fleet_state, EMPTY, ms)) for fleet_state, ms in ((THREE, 0), (PROBING, 4_000), (THREE, 5_000))
    ]
    assert acts == [[], [], []]
    assert list(story.step(THREE, EMPTY, 9_999)) == []
    assert isinstance(story.step(THREE, EMPTY, 10_000)[0], KillWorker)
