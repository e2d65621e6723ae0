"""Make the golden vectors of streams groups (KIP-1071): what Kafka's own classes write and read.

    python protocol/golden/make_streams.py JARS_4_3 JARS_4_4 > streams.jsonl

``JARS_4_3`` and ``JARS_4_4`` are folders with the jars of a broker (org.apache.kafka:kafka_2.13:4.3.1 and 4.4.0 with
all they depend on). The first writes version 0 of each message and record, the second what only it has: version 1 of
the messages and two more tagged fields. Values are drawn from the schemas, from one seed.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kstreams_assign.wire.compile import holds

FOLDER = Path(__file__).parent
CASES_EACH = 6
TEXTS = ("", "a", "orders", "h\u00f4te-\u4e16-\U0001d11e\u0000")
LONG_TEXT = "x" * 130
"""Its length takes two bytes."""
BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
ONLY_IN_4_4 = ("stored_description_topology_epoch", "failed_description_topology_epoch")

Json = dict[str, Any]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


class Drawing:
    """Draws values for one version of one schema. ``fullness``: how likely an array has rows and null is not drawn."""

    def __init__(
        self, schema: Json, version: int, choose: random.Random, fullness: float, omitted: Sequence[str]
    ) -> None:
        self.structs = {shared["name"]: shared["fields"] for shared in schema.get("commonStructs", ())}
        self.version, self.choose, self.fullness, self.omitted = version, choose, fullness, omitted
        self.key = schema["name"].endswith("Key")

    def struct(self, fields: Iterable[Json]) -> Json:
        held = [
            field for field in fields if holds(field["versions"], self.version) and field["name"] not in self.omitted
        ]
        return {
            camel(field["name"]): self.value(field)
            for field in held
            if field["name"] not in ("type", "version")
            and not ("tag" in field and self.choose.random() > self.fullness)
        }

    def value(self, field: Json) -> Any:
        kind, nullable = field["type"], holds(field.get("nullableVersions", "none"), self.version)
        if nullable and self.choose.random() > self.fullness:
            return None
        if kind.startswith("[]"):
            rows = self.choose.randint(1, 2) if self.choose.random() < self.fullness else 0
            if kind == "[]KeyValue":  # keys differ, as in the maps that Kafka writes them from
                return [{"key": key, "value": self.single("string")} for key in self.choose.sample(TEXTS, rows)]
            return [self.single(kind[2:]) for _ in range(rows)]
        return self.single(kind)

    def single(self, kind: str) -> Any:
        if kind in self.structs:
            return self.struct(self.structs[kind])
        if kind == "bool":
            return self.choose.random() < self.fullness
        if kind == "uint16":
            return self.choose.choice((0, 8080, 65_535))
        if kind == "string":
            return LONG_TEXT if self.choose.random() < 0.02 else self.choose.choice(TEXTS)
        top = 2 ** BITS[kind]
        return self.choose.choice((0, 1, -1, 7, top - 1, -top))


def requests(versions: Mapping[str, Sequence[int]], omitted: Sequence[str]) -> Iterable[Json]:
    choose = random.Random(1071)  # noqa: S311 - reproducible on purpose
    for path in sorted((FOLDER.parent).glob("StreamsGroup*.json")):
        schema = json.loads(path.read_text(encoding="utf-8"))
        name = schema["name"]
        for version in versions["message" if schema["type"] != "data" else "record"]:
            for n in range(CASES_EACH):
                drawing = Drawing(schema, version, choose, n / (CASES_EACH - 1), omitted)
                own = int(schema["validVersions"]) if drawing.key else version
                drawing.version = own
                yield {"message": name, "version": version, "value": drawing.struct(schema["fields"])}


def ask(jars: str, lines: Iterable[Json]) -> str:
    command = ["java", "-cp", f"{jars}/*", str(FOLDER / "StreamsVectors.java")]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.write(ask(sys.argv[1], requests({"message": [0], "record": [0]}, ONLY_IN_4_4)))
    later = requests({"message": [1], "record": [0]}, ())
    sys.stdout.write(
        ask(sys.argv[2], (line for line in later if line["version"] or "GroupMetadataValue" in line["message"]))
    )
