# SPDX-License-Identifier: Apache-2.0
"""Processes, a cluster and interruptions do not change the result; LiteRT gives the same up to rounding."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import circlekit as ck
from circlekit.errors import CirclekitError, FileError, LimitError, ModelError, UnsupportedError
from circlekit.interp.evaluate import register_custom, unregister_custom
from circlekit.ir.value import Array
from circlekit.quant.calibration import Calibration, Runner, collect, litert_engine, runner
from circlekit.quant.calibration.engine import Engine
from circlekit.quant.calibration.observer import Observations, Selection
from circlekit.quant.calibration.processes import Job
from tests.quant.test_recurrent import lstm, records

MODEL = """graph main(%x: f32[1,4,4,2]) -> %y {
  %w = const f32[3,3,3,2] gaussian(0, 1)
  %c = Conv2D(%x, %w) {padding: SAME, stride_h: 1, stride_w: 1} : f32[1,4,4,3]
  %y = Logistic(%c) : f32[1,4,4,3]
}"""


def samples(count: int = 9) -> Iterator[list[Array]]:
    random = np.random.default_rng(2)
    return ([random.standard_normal((1, 4, 4, 2)).astype(np.float32) * n] for n in range(1, count + 1))


def saved(calibration: Calibration, folder: Path, name: str) -> bytes:
    path = folder / f"{name}.json"
    calibration.save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def model() -> ck.Model:
    return ck.parse(MODEL)


@pytest.fixture(scope="module")
def expected(model: ck.Model, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    calibration = ck.calibrate(model, samples(), channels=True, histograms=True, processes=1)
    return saved(calibration, tmp_path_factory.mktemp("expected"), "one")


@pytest.mark.parametrize("processes", [2, 3, None])
def test_the_number_of_processes_changes_nothing(
    processes: int | None, model: ck.Model, expected: bytes, tmp_path: Path
) -> None:
    calibration = ck.calibrate(model, samples(), channels=True, histograms=True, processes=processes)
    assert saved(calibration, tmp_path, "several") == expected


@pytest.mark.parametrize(
    ("asked", "usable", "seconds", "others"),
    [(None, 2, -1.0, 8), (None, 1, -1.0, 0), (None, 2, 1e9, 0), (1, 2, -1.0, 0), (2, 1, 1e9, 9)],
)
def test_other_processes_are_used_if_there_are_several_and_the_samples_take_long(
    asked: int | None,
    usable: int,
    seconds: float,
    others: int,
    model: ck.Model,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If no number of processes is given, this process runs samples alone until ``seconds`` are over.

    ``others``: the number of samples, the last ones of 9, that go to other processes.
    """
    sent = []

    def observed(engine: Engine, jobs: Iterator[Job], processes: int) -> Iterator[Observations]:
        for job in jobs:
            sent.append((job.number, processes))
            yield engine.observe(job.sample)

    monkeypatch.setattr(runner, "SECONDS_ALONE", seconds)
    monkeypatch.setattr(runner, "usable_processors", lambda: usable)
    monkeypatch.setattr(runner, "observe_in_processes", observed)
    assert collect(model, samples(), runner=Runner(processes=asked)).samples == 9
    assert sent == [(number, 2) for number in range(9 - others, 9)]


def test_a_cluster_changes_nothing(model: ck.Model, expected: bytes, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, processes=False, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        calibration = ck.calibrate(model, samples(), channels=True, histograms=True, client=client)
        with pytest.raises(CirclekitError, match="in sample 1"):
            ck.calibrate(model, [*samples(1), [np.zeros((1, 4, 4, 3), np.float32)]], client=client)
    assert saved(calibration, tmp_path, "cluster") == expected


def test_an_interrupted_run_continues(
    model: ck.Model, expected: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> Iterator[list[Array]]:
        yield from samples(4)
        raise KeyboardInterrupt

    path = tmp_path / "state.json"
    monkeypatch.setattr("circlekit.quant.calibration.collector.SECONDS_BETWEEN_SAVES", 0.0)
    with pytest.raises(KeyboardInterrupt):
        collect(model, interrupted(), channels=True, histograms=True, state=path)
    state = Calibration.load(path)
    assert (state.samples, state.is_complete) == (4, False)
    ck.calibrate(model, samples(), channels=True, histograms=True, state=path)
    assert path.read_bytes() == expected
    with pytest.raises(ModelError, match=r"state\.json is complete"):
        ck.calibrate(model, samples(), state=path)


def test_a_state_with_another_extension_is_refused_before_samples_are_run(model: ck.Model) -> None:
    given = samples()
    with pytest.raises(FileError, match=r"state\.txt: expected the extension \.json or \.npz"):
        ck.calibrate(model, given, state="state.txt")
    assert len(list(given)) == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": "others"}, "sample 1 differs from sample 1 of the interrupted run"),
        ({"samples": "fewer"}, "expected 2 samples as in the interrupted run, got only 1"),
        ({"channels": False}, "statistics of %x .* differ from"),
        ({"runner": Runner("litert")}, "expected a calibration by litert, got one by circlekit"),
        ({"model": "graph main(%x: f32[1,4,4,2]) -> %z { %z = Neg(%x) : f32[1,4,4,2] }"}, "another model"),
    ],
)
def test_only_the_same_run_continues(
    change: dict[str, object], message: str, model: ck.Model, tmp_path: Path
) -> None:
    first = list(samples(2))
    if change.get("samples") == "others":
        first[1] = first[0]
    calibration = collect(model, first, channels=True)
    calibration.is_complete = False
    calibration.save(tmp_path / "state.npz")
    model = ck.parse(str(change["model"])) if "model" in change else model
    options = {"channels": True, **{k: v for k, v in change.items() if k in ("channels", "runner")}}
    later = samples(1 if change.get("samples") == "fewer" else 9)
    with pytest.raises(ModelError, match=message):
        collect(model, later, state=tmp_path / "state.npz", **options)  # type: ignore[arg-type]


def test_litert_computes_the_same_ranges(model: ck.Model) -> None:
    pytest.importorskip("ai_edge_litert")
    ours, theirs = (ck.calibrate(model, samples(3), engine=name) for name in ("circlekit", "litert"))
    for name in ("x", "c", "y"):
        np.testing.assert_allclose(theirs[name].minima, ours[name].minima, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(theirs[name].maxima, ours[name].maxima, rtol=1e-5, atol=1e-6)
        assert theirs[name].count == ours[name].count


def test_litert_computes_the_same_ranges_of_empty_tensors_and_inside_an_lstm() -> None:
    """LiteRT shows no tensors inside an LSTM; they follow from its operands, its variables and constants."""
    pytest.importorskip("ai_edge_litert")
    empty = ck.parse("graph main(%x: f32[0,2], %z: f32[1]) -> %y, %w {\n  %y = Neg(%x)\n  %w = Neg(%z)\n}")
    for net in (lstm(("cifg", "projection", "norm")), empty):
        given = records(net, 2, 5)
        ours, theirs = (ck.calibrate(net, given, engine=name).main for name in ("circlekit", "litert"))
        assert theirs.keys() == ours.keys()
        for name, seen in ours.items():
            assert theirs[name].count == seen.count
            np.testing.assert_allclose(theirs[name].minima, seen.minima, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(theirs[name].maxima, seen.maxima, rtol=1e-4, atol=1e-5)


def test_litert_refuses_graphs_that_are_called() -> None:
    pytest.importorskip("ai_edge_litert")
    model = ck.parse("""
        graph main(%c: bool[], %x: f32[2]) -> %y {
          %y = If(%c, %x) {then_graph: @one, else_graph: @one} : f32[2]
        }
        graph one(%x: f32[2]) -> %y { %y = Neg(%x) : f32[2] }
    """)
    with pytest.raises(UnsupportedError, match="IF calls graphs, whose tensors LiteRT does not keep"):
        ck.calibrate(model, [[np.array(True), np.zeros(2, np.float32)]], engine="litert")


@pytest.mark.parametrize("engine", ["circlekit", "litert"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("%r = RandomUniform([1,2,2]) {seed: 1, seed2: 2} %y = Add(%r, %x)", "RANDOM_UNIFORM"),
        (
            "%h = VarHandle() AssignVariable(%h, %x) %r = ReadVariable(%h) : f32[1,2,2] %y = Neg(%r)",
            "VAR_HANDLE",
        ),
        (
            "%h: f32[1,2] variable %w = const f32[2,2] gaussian(0, 1)"
            " %y = UnidirectionalSequenceRnn(%x, %w, %w, [0.1, 0.2], %h) {act: TANH}",
            "UNIDIRECTIONAL_SEQUENCE_RNN",
        ),
    ],
    ids=["random numbers", "variable", "RNN"],
)
def test_state_does_not_pass_from_one_sample_to_the_next(engine: str, body: str, code: str) -> None:
    """Equal samples give equal ranges, whatever the process ran before.

    LiteRT resets only variable tensors, such as the state of an RNN; its engine refuses other state.
    """
    if engine == "litert":
        pytest.importorskip("ai_edge_litert")
    net = ck.parse(f"graph main(%x: f32[1,2,2]) -> %y {{ {body} }}")
    given = [[np.array([[[0.5, -1], [2, 3]]], np.float32)]] * 4
    if engine == "litert" and code != "UNIDIRECTIONAL_SEQUENCE_RNN":
        with pytest.raises(UnsupportedError, match=f"LiteRT does not reset the state of {code}"):
            ck.calibrate(net, given, engine=engine)
        return
    for processes in (1, 2):
        seen = ck.calibrate(net, given, engine=engine, processes=processes)["y"]
        assert len({*seen.minima}) == len({*seen.maxima}) == 1


def test_litert_keeps_tensors_within_the_memory_limit(model: ck.Model) -> None:
    pytest.importorskip("ai_edge_litert")
    with ck.limited(memory=400), pytest.raises(LimitError, match="keeping every tensor in LiteRT would take"):
        ck.calibrate(model, samples(), engine="litert")


def test_an_unknown_engine_is_refused(model: ck.Model) -> None:
    with pytest.raises(UnsupportedError, match="no engine is named 'litrt'; did you mean litert"):
        ck.calibrate(model, samples(), engine="litrt")


@pytest.mark.parametrize("processes", [1, 2])
def test_the_first_sample_that_fails_is_reported(processes: int, model: ck.Model) -> None:
    wrong = np.zeros((1, 4, 4, 9), np.float32)
    with pytest.raises(CirclekitError, match="in sample 3"):
        ck.calibrate(model, [*samples(3), [wrong], [wrong]], processes=processes)


def test_a_killed_process_ends_in_a_sentence() -> None:
    model = ck.parse(
        'graph main(%x: f32[2]) -> %y { %y = Opaque(%x) {code: "CUSTOM", custom_code: "Kill"} : f32[2] }'
    )
    register_custom("Kill", lambda op, x: os.kill(os.getpid(), signal.SIGKILL) if x[0] else x)
    try:
        data = [[np.array([n == 2, 0], np.float32)] for n in range(5)]
        with pytest.raises(ModelError, match=r"sample 2 ends the process \(SIGKILL\); if memory is short"):
            ck.calibrate(model, data, processes=2)
    finally:
        unregister_custom("Kill")


def test_only_the_owner_removes_the_temporary_model(tmp_path: Path) -> None:
    """A forked process may end earlier, while other processes still need the model."""
    folder = tmp_path / "model"
    folder.mkdir()
    litert_engine._remove(str(folder), os.getpid() + 1)
    assert folder.exists()
    litert_engine._remove(str(folder), os.getpid())
    assert not folder.exists()


def test_litert_computes_samples_of_several_shapes() -> None:
    pytest.importorskip("ai_edge_litert")
    net = ck.parse("graph main(%x: f32[?,2], %z: f32[?,2]) -> %y { %y = Add(%x, %z) }")
    shapes = [(1, 2), (3, 2), (3, 2), (2, 2), (1, 2)]
    given = [
        [np.full(shape, index, np.float32), np.ones(shape, np.float32)] for index, shape in enumerate(shapes)
    ]
    seen = ck.calibrate(net, given, engine="litert")["y"]
    # sample n is full of n + 1; the shapes have 2 + 6 + 6 + 4 + 2 elements
    assert (seen.minima, seen.maxima, seen.count) == ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], 20)


def test_litert_needs_the_bytes_of_all_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ai_edge_litert")
    sizes = []
    monkeypatch.setattr(litert_engine, "need_memory", lambda size, _: sizes.append(size))
    net = ck.parse("graph main(%x: f32[3,5]) -> %y { %a = Abs(%x)\n %y = Reshape(%a, [15]) }")
    ck.calibrate(net, [[np.ones((3, 5), np.float32)]], engine="litert")
    assert sizes == [3 * 15 * 4]


def test_litert_refuses_a_constant_with_the_name_of_a_tensor() -> None:
    """``calibrate`` gives tensors distinct names; the engine itself does not."""
    pytest.importorskip("ai_edge_litert")
    net = ck.parse("graph main(%x: f32[1,2]) -> %y { %c = const f32[2] [10.0, 20]\n %y = Add(%x, %c) }")
    next(value for value in net.main.values() if value.is_const).name = "x"
    engine = litert_engine.LitertEngine(net, Selection.of(net))
    with pytest.raises(UnsupportedError, match=r"expected one tensor %x in LiteRT, got 2; use the engine"):
        engine.observe([np.ones((1, 2), np.float32)])
