"""Tests of ``shop.py``, without a broker."""

from shop import NAMES, TOPOLOGY, Order, Total

from kstreams_assign import TopologyTestDriver


def new_driver() -> TopologyTestDriver:
    return TopologyTestDriver(TOPOLOGY, global_tables=[NAMES], errors_dead_letter_queue_topic_name="letters")


def test_a_repeated_order_counts_once_and_a_broken_one_is_set_aside() -> None:
    with new_driver() as driver:
        orders = driver.input_topic("orders", key=str, value=Order)
        orders.pipe("1", Order("ada", 3))
        orders.pipe("2", Order("ada", 4))
        orders.pipe("1", Order("ada", 3))
        driver.pipe("orders", b"3", b"no order")
        assert driver.store("totals", key=str, value=Total).get("ada") == Total(orders=2, amount=7)
        assert [letter.value for letter in driver.read("letters")] == [b"no order"]


def test_a_quiet_customer_is_thanked_once_by_name() -> None:
    with new_driver() as driver:
        driver.pipe("customer-names", b"ada", b"Ada Lovelace")
        driver.input_topic("orders", key=str, value=Order).pipe("1", Order("ada", 3))
        driver.advance(4_999)
        assert driver.read("thanks") == []
        driver.advance(1)
        driver.advance(60_000)
        assert [record.value for record in driver.read("thanks")] == [b"Ada Lovelace"]
