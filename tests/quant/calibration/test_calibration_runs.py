# SPDX-License-Identifier: Apache-2.0
"""Processes, a cluster and interruptions do not change the result; LiteRT gives the same up to rounding."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

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


def interrupt(model: ck.Model, given: Iterable[Sequence[Array]], state: Path, **options: Any) -> Calibration:
    """Calibrate ``model``, end with an interruption after the samples ``given``, and return ``state``."""

    def interrupted() -> Iterator[Sequence[Array]]:
        yield from given
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("circlekit.quant.calibration.collector.SECONDS_BETWEEN_SAVES", 0.0)
        with pytest.raises(KeyboardInterrupt):
            collect(model, interrupted(), state=state, **options)
    return Calibration.load(state)


def test_an_interrupted_run_continues(model: ck.Model, expected: bytes, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = interrupt(model, samples(4), path, channels=True, histograms=True)
    assert (state.samples, state.is_complete) == (4, False)
    ck.calibrate(model, samples(), channels=True, histograms=True, state=path)
    assert path.read_bytes() == expected
    with pytest.raises(ModelError, match=r"state\.json is complete"):
        ck.calibrate(model, samples(), state=path)


def test_a_run_continues_with_strings_and_constants_that_are_read_again(tmp_path: Path) -> None:
    """Strings are Python objects: their addresses are others when they are read again."""
    text = """graph main(%s: str[2], %x: f32[40]) -> %y, %t {
        %w = const f32[40] gaussian(0, 1)
        %y = Mul(%x, %w)
        %t = Reshape(%s, [2, 1])
    }"""

    def given(count: int) -> Iterator[list[Array]]:
        for n in range(count):
            strings = np.array([bytes(bytearray(b"a%d" % n)), b""], object)  # new objects each time
            yield [strings, np.full(40, n, np.float32)]

    interrupt(ck.parse(text), given(2), tmp_path / "state.json")
    found = collect(ck.parse(text), given(3), state=tmp_path / "state.json")
    assert found["x"].minima == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("state.txt", r"state\.txt: expected the extension \.json or \.npz"),
        ("missing/state.json", r"state\.json: the directory .*missing does not exist"),
    ],
)
def test_a_state_that_cannot_be_written_is_refused_before_samples_are_run(
    name: str, message: str, model: ck.Model, tmp_path: Path
) -> None:
    given = samples()
    with pytest.raises(FileError, match=message):
        ck.calibrate(model, given, state=tmp_path / name)
    assert len(list(given)) == 9


ANOTHER_SETUP = r"state\.npz belongs to a run of another model"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 1}, "expected 2 samples as in the interrupted run, got only 1"),
        ({"channels": {"x": 3}}, None),
        ({"channels": {}}, ANOTHER_SETUP),
        ({"channels": {"x": 2}}, ANOTHER_SETUP),
        ({"histograms": ["y"]}, ANOTHER_SETUP),
        ({"runner": Runner("litert")}, "expected a calibration by litert, got one by circlekit"),
        ({"model": ("%c", "%d")}, ANOTHER_SETUP),  # another name of a tensor
        ({"model": ("(0, 1)", "(0, 2)")}, ANOTHER_SETUP),  # other weights
        ({"model": ("Logistic", "Neg")}, ANOTHER_SETUP),
        ({"model": ("{padding: SAME", "{act: RELU, padding: SAME")}, ANOTHER_SETUP),
    ],
)
def test_only_the_same_run_continues(
    change: dict[str, Any], message: str | None, model: ck.Model, tmp_path: Path
) -> None:
    path, options = tmp_path / "state.npz", {"channels": {"x": 3}}
    interrupt(model, samples(2), path, **options)
    changed = ck.parse(MODEL.replace(*change.pop("model", ("", ""))))
    given = samples(change.pop("samples", 9))
    if message is None:
        assert collect(changed, given, state=path, **options | change).samples == 9
        return
    with pytest.raises(ModelError, match=message):
        collect(changed, given, state=path, **options | change)


@pytest.mark.parametrize("place", [0, 1])
def test_a_run_does_not_continue_on_other_samples(place: int, model: ck.Model, tmp_path: Path) -> None:
    given = list(samples(3))
    interrupt(model, given[:2], tmp_path / "state.npz")
    given[place] = [given[place][0] + 1]
    with pytest.raises(ModelError, match="expected 2 samples as in the interrupted run, got other samples"):
        collect(model, given, state=tmp_path / "state.npz")


def test_a_run_does_not_continue_on_samples_of_other_shapes(tmp_path: Path) -> None:
    net, path = ck.parse("graph main(%x: f32[?,?]) -> %y { %y = Neg(%x) }"), tmp_path / "state.npz"
    interrupt(net, [[np.zeros((2, 3), np.float32)]], path)
    with pytest.raises(ModelError, match="expected 1 sample as in the interrupted run, got other samples"):
        collect(net, [[np.zeros((3, 2), np.float32)]], state=path)


def test_no_run_of_a_model_that_keeps_state_continues(tmp_path: Path) -> None:
    """The state after the samples of the interrupted run is lost."""
    net = ck.parse("""graph main(%x: f32[1,2]) -> %y {
        %h: f32[1,2] variable
        %w = const f32[2,2] gaussian(0, 1)
        %y = Rnn(%x, %w, %w, [0.1, 0.2], %h) {act: TANH}
    }""")
    given = [[np.ones((1, 2), np.float32)]] * 2
    interrupt(net, given, tmp_path / "state.json")
    with pytest.raises(ModelError, match="exists, but no calibration of a model that keeps state"):
        collect(net, given, state=tmp_path / "state.json")


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


def test_litert_computes_the_same_ranges_of_results_that_only_its_delegate_knows() -> None:
    """XNNPACK keeps dequantized constants to itself, and gives a result without users no memory."""
    pytest.importorskip("ai_edge_litert")
    net = ck.parse("""
        graph main(%x: f32[2,2]) -> %z {
          %h = const f16[2,2] [1, 2, 3, -4]
          %q = const i8[2,2] quant(scale: 0.5) [1, 2, 3, -4]
          %w = Dequantize(%h)
          %v = Dequantize(%q)
          %a = FullyConnected(%x, %w, none)
          %b = FullyConnected(%a, %v, none)
          %y, %unused = Split(0, %b) {num_splits: 2}
          %z = Abs(%y)
        }
    """)
    given = [[np.array([[1, 2], [3, -4]], np.float32)]]
    ours, theirs = (ck.calibrate(net, given, engine=name).main for name in ("circlekit", "litert"))
    assert (ours["w"].min, ours["w"].max, ours["v"].min, ours["v"].max) == (-4, 3, -2, 1.5)
    for name, seen in ours.items():
        assert (theirs[name].min, theirs[name].max, theirs[name].count) == (seen.min, seen.max, seen.count)


def test_litert_refuses_two_tensors_with_one_name() -> None:
    """``calibrate`` gives tensors distinct names; the engine itself does not.  Constants do not matter."""
    pytest.importorskip("ai_edge_litert")
    text = "graph main(%x: f32[1,2]) -> %y { %c = const f32[2] [10.0, 20]\n %a = Abs(%x)\n %y = Add(%a, %c) }"
    net, same = ck.parse(text), ck.parse(text)
    next(value for value in net.main.values() if value.is_const).name = "x"
    seen = litert_engine.LitertEngine(net, Selection.of(net)).observe([np.ones((1, 2), np.float32)])
    assert seen[0, "x"].high == 1
    next(iter(same.main)).results[0].name = "x"
    with pytest.raises(UnsupportedError, match=r"expected one tensor %x in the model for LiteRT, got 2; use"):
        litert_engine.LitertEngine(same, Selection.of(same))
