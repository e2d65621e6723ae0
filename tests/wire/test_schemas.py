"""The schemas are read from an installed package and from a source checkout."""

from __future__ import annotations

import json

import pytest

from kstreams_assign.wire import schema_text
from kstreams_assign.wire.schemas import _text


@pytest.mark.parametrize("name", ["SubscriptionInfo", "AssignmentInfo"])
def test_a_schema_is_found_by_the_name_of_its_message(name):
    assert json.loads(schema_text(name))["name"] == name


def test_an_unknown_schema_is_an_error_that_names_the_file():
    with pytest.raises(FileNotFoundError, match=r"NoSuchMessage\.json"):
        schema_text("NoSuchMessage")


def test_the_installed_package_comes_before_the_checkout(tmp_path):
    package = tmp_path / "kstreams_assign"
    for folder, text in ((tmp_path, "beside"), (package, "shipped")):
        (folder / "protocol").mkdir(parents=True)
        (folder / "protocol" / "Message.json").write_text(text)
    assert _text(package, "Message") == "shipped"
    (package / "protocol" / "Message.json").unlink()
    assert _text(package, "Message") == "beside"
