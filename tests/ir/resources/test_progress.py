# SPDX-License-Identifier: Apache-2.0
"""Reports of progress: who gets them, and the defaults of their arguments."""

from __future__ import annotations

from circlekit.ir.resources.progress import Forwarder, Progress, progress, watched


class Recorder(Progress):
    """Keeps all reports."""

    def __init__(self) -> None:
        self.reports: list[tuple[object, ...]] = []

    def begin(self, step: str, total: int = -1, unit: str = "?") -> None:
        self.reports.append((step, total, unit))

    def expect(self, amount: int) -> None:
        self.reports.append(("expect", amount))

    def advance(self, amount: int = -1, remark: str = "?") -> None:
        self.reports.append(("advance", amount, remark))

    def finish_file(self, path: str) -> None:
        self.reports.append(("file", path))


def test_the_innermost_watcher_gets_the_reports() -> None:
    outside = progress()
    with watched(Recorder()) as outer:
        progress().expect(1)
        with watched(Recorder()) as inner:
            progress().expect(2)
        progress().expect(3)
    assert (outer.reports, inner.reports) == ([("expect", 1), ("expect", 3)], [("expect", 2)])
    assert progress() is outside


def test_reports_are_forwarded_with_their_defaults_and_the_place_of_steps() -> None:
    with watched(Recorder()) as outer:
        forwarder = Forwarder("of net.circle")
    forwarder.begin("reading")
    forwarder.begin("writing", 5, "bytes")
    forwarder.expect(4)
    forwarder.advance()
    forwarder.advance(2, "1 failed")
    forwarder.finish_file("a.circle")
    assert outer.reports == [
        ("reading of net.circle", 0, ""), ("writing of net.circle", 5, "bytes"), ("expect", 4),
        ("advance", 1, ""), ("advance", 2, "1 failed"), ("file", "a.circle"),
    ]  # fmt: skip
