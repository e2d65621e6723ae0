"""The benchmarks' own business: ratios, tables, the file for scripts, and a peer that cannot run here."""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace

import pytest
from rich.console import Console

import bench.__main__ as program
from bench import assign, codec, java_peer, leader, processes
from bench.results import Result, show, write
from kstreams_assign.errors import LocalBrokerError

KEYS = {"work", "ours", "peer", "peer_name", "ratio", "unit"}


def test_a_ratio_above_1_means_that_ours_is_ahead_whatever_the_unit():
    assert Result("faster", 2.0, 10.0, "Kafka", "ms").ratio == 5
    assert Result("slower", 10.0, 2.0, "Kafka", "ms").ratio == 0.2
    assert Result("more", 50.0, 10.0, "Kafka", "1/s").ratio == 5
    assert Result("leaner", 100.0, 200.0, "Kafka", "MiB").ratio == 2
    assert Result("alone", 1.0, None, "Kafka", "ms").ratio is None


def test_the_file_is_a_list_of_rows(tmp_path):
    results = [Result("a", 1.23456, 2.0, "Kafka", "ms"), Result("b", 1.0, None, "Kafka", "1/s")]
    write(results, tmp_path / "results.json")
    first, second = json.loads((tmp_path / "results.json").read_text())
    assert first == {"work": "a", "ours": 1.235, "peer": 2.0, "peer_name": "Kafka", "ratio": 1.62, "unit": "ms"}
    assert second.keys() == KEYS
    assert (second["peer"], second["ratio"]) == (None, None)


def test_the_table_shows_each_row_with_its_ratio():
    out = io.StringIO()
    show("Title", [Result("some work", 1234.5, 0.01234, "Kafka", "ms")], Console(file=out, width=80))
    assert "Title" in out.getvalue()
    assert all(word in out.getvalue() for word in ("some work", "1,234", "0.0123", "Kafka", "1e-05x"))


def test_without_a_peer_ours_is_measured_alone_and_one_line_says_why(monkeypatch, capsys, tmp_path):
    def no_java():
        raise java_peer.NoJavaPeer("no Java with a compiler")

    monkeypatch.setattr(program.java_peer, "command", no_java)
    monkeypatch.setattr(assign, "QUICK_CASES", ("20x2x1x1",))
    monkeypatch.setattr(program, "write", lambda results: write(results, tmp_path / "results.json"))
    program.main(["--quick", "--only", "assign"])
    assert capsys.readouterr().err == "Kafka 4.3.1 is left out: no Java with a compiler\n"
    rows = json.loads((tmp_path / "results.json").read_text())
    assert {row["work"] for row in rows} >= {
        "assign 20x2x1x1 fresh",
        "assign 20x2x1x1 fresh first call",
        "assign 20x2x1x1 join",
        "assign 20x2x1x1 join first call",
    }
    assert all(row.keys() == KEYS and row["peer"] is None and row["ours"] > 0 for row in rows)


def test_a_leaders_work_is_the_sum_of_its_parts():
    parts = [Result(work, 2.0, 10.0, "Kafka", "ms") for work in program.LEADERS_WORK]
    assert program.leaders_total(parts) == Result("leader of 1,000 members", 6.0, 30.0, "Kafka", "ms")
    assert program.leaders_total(parts[1:]) is None
    alone = [replace(part, peer=None) for part in parts]
    assert program.leaders_total(alone).peer is None


def test_both_are_measured_on_the_same_problem(java_peer):
    results = assign.measure(assign.Settings(java_peer, quick=True, clock="_cpu"), "30x3x1x1")
    assert {result.peer_name for result in results} == {"Kafka 4.3.1"}
    assert all(result.peer and result.ours for result in results)


def test_times_of_different_answers_are_not_compared():
    rows = [{"assignment_sha256": "a"}, {"assignment_sha256": "a"}]
    assign._same_answers(rows, "1x1x1x1", "join")
    with pytest.raises(RuntimeError, match="1x1x1x1 join: high_availability and Kafka's class decide differently"):
        assign._same_answers([*rows, {"assignment_sha256": "b"}], "1x1x1x1", "join")


def test_only_the_large_case_reports_memory():
    assert [unit for _, _, unit in assign._kinds("20000x200x4x1", "")] == ["ms", "ms", "MiB"]
    assert [key for _, key, _ in assign._kinds("1000x10x1000x1", "_cpu")] == ["warm_median_cpu_ms", "first_call_cpu_ms"]


def test_small_cases_are_run_again_while_there_is_time():
    assert assign._runs_another(0, 1000.0, quick=True)
    assert not assign._runs_another(1, 0.0, quick=True)
    assert assign._runs_another(1, 0.0, quick=False)
    assert not assign._runs_another(1, assign.BUDGET_S, quick=False)
    assert not assign._runs_another(assign.RUNS_MAX, 0.0, quick=False)


def test_a_whole_groups_codec_work_is_told_in_milliseconds():
    rate = {"median_ops_per_s": 50.0}
    assert codec._result({"what": "leader reads", **rate}, rate) == Result(
        "codec leader reads", 20, 20, "Kafka 4.3.1", "ms"
    )
    assert codec._result({"what": "encode", **rate}, None) == Result("codec encode", 50, None, "Kafka 4.3.1", "1/s")


def test_a_leaders_whole_rebalance_is_measured_in_each_language():
    results = leader.measure(quick=True, clock="_cpu")
    assert [(result.work.split(" ", 2)[2], result.unit) for result in results] == [
        (f"{assignor} {user_data} {kind}", unit)
        for assignor, user_data in leader.SETUPS
        for kind, unit in (("first call", "ms"), ("memory", "MiB"))
    ]
    assert all(result.ours > 0 for result in results)


def test_a_leader_that_another_assignor_stands_in_for_is_not_timed(monkeypatch):
    monkeypatch.setattr(leader, "known_assignors", dict)
    with pytest.raises(RuntimeError, match="2x1x1x0: high_availability decided for 2"):
        leader.first_call("2x1x1x0", "least_movement", "apache", "0 1|\n")


def test_a_measured_process_tells_its_lines_and_its_memory():
    rows, rss_mib = processes.run(["cat"], '{"a": 1}\n{"b": 2}\n')
    assert rows == [{"a": 1}, {"b": 2}]
    assert 0 < rss_mib < 10_000
    with pytest.raises(RuntimeError, match="false ended with status 1"):
        processes.run(["false"])


def test_the_peers_jars_are_kafka_streams_without_rocksdb():
    artifacts = {jar.artifact for jar in java_peer.jars()}
    assert {"kafka-streams", "kafka-clients", "jackson-databind"} <= artifacts
    assert not any("rocksdb" in artifact for artifact in artifacts)


def test_a_runtime_without_a_compiler_is_passed_over(monkeypatch, tmp_path):
    runtime, kit = tmp_path / "runtime", tmp_path / "kit"
    for java, modules in ((runtime, "java.base@17"), (kit, "java.base@17\njdk.compiler@17")):
        java.write_text(f"#!/bin/sh\necho '{modules}'\n")
        java.chmod(0o755)
    monkeypatch.setattr(java_peer, "_javas", lambda: iter([runtime, kit]))
    assert java_peer.compiler() == kit
    monkeypatch.setattr(java_peer, "_javas", lambda: iter([runtime]))
    with pytest.raises(java_peer.NoJavaPeer, match="with a compiler: install a JDK"):
        java_peer.compiler()


def test_classes_that_another_process_made_meanwhile_are_taken(monkeypatch, tmp_path):
    compiler, sources, other = tmp_path / "java", tmp_path / "sources", tmp_path / "other"
    sources.mkdir()
    (sources / "A.java").touch()
    compiler.write_text(
        "#!/bin/sh\n"
        """[ "$1" = -version ] && { echo 'version "17"' >&2; exit; }\n"""
        'mkdir "$4" && touch "$4/A.class"\n'  # -m, the compiler, -d, where to
        f'[ -f {other} ] && mkdir "$(cat {other})" && touch "$(cat {other})/A.class"\n'
        "exit 0\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("KSTREAMS_ASSIGN_CACHE", str(tmp_path / "cache"))
    made = java_peer.compiled(compiler, [], sources)
    other.write_text(str(made))
    shutil.rmtree(made)
    assert java_peer.compiled(compiler, [], sources) == made
    assert [path.name for path in made.iterdir()] == ["A.class"]
    assert list(made.parent.iterdir()) == [made], "nothing is left beside it"


def test_jars_that_cannot_be_had_are_a_reason_not_a_crash(monkeypatch):
    def broken_off(_jars):
        raise LocalBrokerError("fetching broke off")

    monkeypatch.setattr(java_peer, "compiler", lambda: "java")
    monkeypatch.setattr(java_peer, "class_path", broken_off)
    with pytest.raises(java_peer.NoJavaPeer, match="fetching broke off"):
        java_peer.command()
