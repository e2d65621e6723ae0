"""Optimised code compared with its slow, obvious twins."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from kstreams_assign.assign import Client, Cluster, high_availability
from kstreams_assign.assign.java import heap
from kstreams_assign.assign.java.clients_by_load import ClientsByLoad
from kstreams_assign.assign.java.heap import poll_order
from kstreams_assign.assign.java.plan_table import PlanTable
from tests.assign.jsonl import read_cluster, read_config
from tests.assign.problems import assign_problem
from tests.assign.twin import DynamicQueue, PrioritySet, Twin
from tests.samples import examples


@settings(max_examples=examples(300), deadline=None)
@given(seed=st.integers(0, 2**32), clients=st.integers(1, 20), tasks=st.integers(0, 80))
def test_the_assignor_decides_as_its_twin(seed, clients, tasks):
    request = assign_problem(Random(seed), clients, tasks)
    cluster, config = read_cluster(request), read_config(request)
    assert high_availability(cluster, config) == Twin(cluster, config).decide()


@dataclass(eq=False)
class Waiting:
    """A client as the twin's queue sees it."""

    process_id: UUID
    number: int
    table: PlanTable

    def load(self):
        return self.table.count[self.number] / self.table.capacity[self.number]


def queues(clients, counts):
    """Our queue and Java's, over the same table."""
    table = PlanTable(Cluster(clients, frozenset()))
    table.count[:] = counts
    waiting = [Waiting(client.process_id, number, table) for number, client in enumerate(table.clients)]
    return table, ClientsByLoad(table), PrioritySet(waiting, Waiting.load), waiting


def upside_down(array, key):
    """Return pairs of keys in a heap's array where a smaller key is below a larger key."""
    keys = [key(item) for item in array]
    for index, mine in enumerate(keys):
        above = index
        while above:
            above = (above - 1) // 2
            if mine < keys[above]:
                yield mine, keys[above]


@settings(max_examples=examples(200), deadline=None)
@given(seed=st.integers(0, 2**32), size=st.integers(8, 30))
def test_clients_leave_the_queue_as_in_java_while_their_loads_change(seed, size):
    """Destinations lose copies down to the source's load: that is where Java's queue gets out of order."""
    random = Random(seed)
    clients = tuple(
        Client(UUID(int=random.getrandbits(random.choice([4, 120])) << 8 | number), random.choice([1, 1, 2]))
        for number in range(size)
    )
    table, ours, java, waiting = queues(clients, [random.randint(5, 7) for _ in clients])
    for _ in range(60):
        for pair in upside_down(java.queue.array, lambda client: ours.keys[client.number]):
            assert ours.doubt
            assert ours.doubt[0] <= min(pair)
            assert max(pair) <= ours.doubt[1]
        eligible = set(random.sample(range(size), random.choice([0, 1, 2, 2, 2, 3, 5])))
        polled = ours.poll(eligible)
        expected = java.poll(lambda client, eligible=eligible: client.number in eligible)
        assert polled == (expected.number if expected else None)
        source = random.randrange(size) if polled is None else polled
        others = [number for number in range(size) if number != source and table.count[number]]
        above = [number for number in others if waiting[number].load() > waiting[source].load()]
        destination = random.choice(above or others)
        table.count[source] += 1
        table.count[destination] -= random.choice([0, 1, 1])
        ours.offer_changed(source, destination)
        java.offer(waiting[source])
        java.offer(waiting[destination])


def test_a_client_waits_behind_a_higher_load_where_javas_array_has_it_so():
    """Client 7 slips below 1, whose load fell while it waited, and stays below 0 when 1 is taken out."""
    clients = tuple(Client(UUID(int=number)) for number in range(8))
    table, ours, java, waiting = queues(clients, [5, 5, 6, 6, 6, 6, 6, 3])
    assert ours.poll({7}) == java.poll(lambda client: client.number == 7).number
    table.count[7] += 1
    table.count[1] -= 1
    ours.offer_changed(7, 1)
    java.offer(waiting[7])
    java.offer(waiting[1])
    assert (table.count[7], table.count[0]) == (4, 5)
    assert ours.poll({0, 7}) == java.poll(lambda client: client.number in {0, 7}).number == 0


def test_a_third_client_may_slip_below_a_client_whose_load_fell_while_the_source_waits():
    """No client was eligible for 3, so source 8 waits while its load grows; its removal moves client 0 under 3."""
    clients = tuple(Client(UUID(int=number)) for number in range(12))
    table, ours, java, waiting = queues(clients, [6, 6, 5, 6, 6, 5, 6, 6, 6, 6, 6, 5])
    assert ours.poll(()) is java.poll(lambda _: False) is None
    table.count[8] += 1
    table.count[3] -= 1
    ours.offer_changed(8, 3)
    java.offer(waiting[8])
    java.offer(waiting[3])
    assert table.count[0] == table.count[1] == 6
    assert ours.poll({0, 1}) == java.poll(lambda client: client.number in {0, 1}).number == 1


@given(array=st.permutations(range(12)), index=st.integers(0, 11))
def test_a_heap_out_of_order_is_sifted_as_java_sifts_it(array, index):
    polled, removed = DynamicQueue(lambda item: item), DynamicQueue(lambda item: item)
    polled.array, removed.array = list(array), list(array)
    assert heap.poll(ours := list(array)) == polled.poll()
    assert ours == polled.array
    removed.remove(array[index])
    heap.remove(ours := list(array), index)
    assert ours == removed.array


@given(array=st.permutations(range(12)), eligible=st.sets(st.integers(0, 11), max_size=2))
def test_a_layout_out_of_order_polls_as_java_does(array, eligible):
    """Any array will do, heap or not."""
    clients = tuple(Client(UUID(int=number)) for number in range(12))
    _, ours, java, waiting = queues(clients, [0] * 12)
    ours.layout.heap = list(array)
    ours.layout.in_order = heap.in_order(array)
    java.queue.array = [waiting[number] for number in array]
    polled = java.poll(lambda client: client.number in eligible)
    assert ours.layout.poll(eligible) == (polled.number if polled else None)
    assert ours.layout.heap == [client.number for client in java.queue.array]


@given(st.lists(st.integers(0, 6), max_size=40))
def test_equal_keys_come_out_in_the_order_of_javas_heap(keys):
    queue = DynamicQueue(lambda item: item[0])
    for number, key in enumerate(keys):
        queue.offer((key, number))
    assert poll_order(keys) == [queue.poll()[1] for _ in keys]
