# SPDX-License-Identifier: Apache-2.0
"""What is sent to a Dask cluster, and when.  Client and worker are stand-ins in this process."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import circlekit
from circlekit.errors import CirclekitError, ModelError, UnsupportedError
from circlekit.ir.value import Array
from circlekit.quant.calibration import dask_cluster
from circlekit.quant.calibration.dask_cluster import JOBS_PER_THREAD
from circlekit.quant.calibration.engine import make_engine

NET = "graph main(%x: f32[2]) -> %y {\n  %y = Neg(%x)\n}"


class Client:
    """Runs each submitted function immediately.

    ``taken``: the number of samples taken so far.
    ``taken_at_results``: the value of ``taken`` each time that a result was read.
    """

    def __init__(self, threads: int) -> None:
        self.threads, self.taken, self.cancelled = threads, 0, 0
        self.taken_at_results: list[int] = []

    def nthreads(self) -> dict[str, int]:
        return {f"worker {n}": 1 for n in range(self.threads)}

    def submit(self, function: Callable[..., Any], *arguments: Any, pure: bool) -> Any:
        assert not pure, "the same sample twice is two samples"
        warnings.warn("Sending large graph", UserWarning, stacklevel=2)  # as Dask does for large arguments
        plain = [getattr(a, "value", a) for a in arguments]
        try:
            value, error = function(*plain), None
        except OSError as raised:
            value, error = None, raised

        def result() -> Any:
            self.taken_at_results.append(self.taken)
            if error is not None:
                raise error
            return value

        return SimpleNamespace(value=value, result=result)

    def cancel(self, futures: list[Any]) -> None:
        self.cancelled += len(futures)

    def samples(self, count: int) -> Iterator[list[Array]]:
        for number in range(count):
            self.taken += 1
            yield [np.array([number, -number], np.float32)]


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    worker = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(get_worker=lambda: worker))
    return worker


@pytest.mark.parametrize("client", [3, ThreadPoolExecutor(1)], ids=["number", "executor"])
def test_a_client_of_another_type(client: object) -> None:
    """An Executor has a method ``submit``, too."""
    kind = type(client).__name__
    with pytest.raises(UnsupportedError, match=rf"expected a distributed[.]Client, got {kind}"):
        circlekit.calibrate(circlekit.parse(NET), [[np.zeros(2, np.float32)]], client=client)


@pytest.mark.parametrize("threads", [0, 1, 2, 3])
def test_a_few_samples_for_each_thread_are_on_their_way(threads: int, worker: SimpleNamespace) -> None:
    """A cluster that has no thread yet counts as one thread."""
    client, model = Client(threads), circlekit.parse(NET)
    calibration = circlekit.calibrate(model, client.samples(9), client=client)
    most = JOBS_PER_THREAD * max(threads, 1)
    assert client.taken_at_results == [*range(most, 9), *[9] * most]
    assert (calibration.samples, calibration["y"].max, client.cancelled) == (9, 8.0, 0)


def test_a_worker_makes_an_engine_for_each_model_once(
    worker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def watched(name: str, *arguments: Any) -> Any:
        made.append(name)
        return make_engine(name, *arguments)

    monkeypatch.setattr(dask_cluster, "make_engine", watched)
    for text, channels, count in (
        (NET, False, 1),
        (NET, False, 1),
        (NET, True, 2),
        (NET.replace("Neg", "Abs"), True, 3),
    ):
        client = Client(1)
        found = circlekit.calibrate(
            circlekit.parse(text), client.samples(3), channels=channels, client=client
        )
        assert found["y"].max == 2.0
        assert len(made) == count


def test_the_error_of_a_sample_is_raised(worker: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    client, model = (
        Client(1),
        circlekit.parse('graph main(%x: f32[2]) -> %y {\n  %y = Opaque(%x) {code: "CUSTOM"}: f32[2]\n}'),
    )
    with pytest.raises(CirclekitError, match="in sample 0"):
        circlekit.calibrate(model, client.samples(4), client=client)
    assert client.cancelled == JOBS_PER_THREAD - 1

    def fail(*_: object) -> None:
        raise OSError("lost")

    monkeypatch.setattr(dask_cluster, "_observe", fail)
    with pytest.raises(ModelError, match="the cluster gave up sample 0: OSError: lost"):
        circlekit.calibrate(circlekit.parse(NET), client.samples(4), client=client)
