# SPDX-License-Identifier: Apache-2.0
"""One case through everything: load, verify, shapes, O1, save in a format, load again, verify again.

A case ends in success or in a CirclekitError.  All else is a fault: an exception of another kind, a saved
model that does not load or breaks a rule, an unsound model made from a sound one, values that changed.
"""

from __future__ import annotations

import re
import traceback
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from circlekit.errors import CirclekitError, RewriteError, UnsupportedError
from circlekit.io.read.load import load_bytes
from circlekit.io.write.save import to_bytes
from circlekit.ir.clone import clone
from circlekit.ir.graph import Model
from circlekit.ir.resource_limits import limited
from circlekit.ir.shape_inference import check_shapes, infer_shapes, settle_ranks
from circlekit.ir.text import print_model
from circlekit.ir.verifier import verify
from circlekit.passes.engine.driver import run_passes
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.registry import pass_names
from circlekit.recipes.load import recipe_in
from circlekit.rewrite.base import Context
from tools.fuzz.values import MOST_CALLS, difference, give_seeds, runs

T = TypeVar("T")

SAVED, REFUSED, FAULT = "saved", "refused", "fault"
FORMATS = ("circle", "tflite")


@dataclass(frozen=True)
class Outcome:
    """How a case ended.  ``stage``: where; ``what``: the kind of error; ``detail``: what it said.

    ``values``: whether values were compared, or why not; "" where they were not to be.
    """

    end: str
    stage: str
    what: str = ""
    detail: str = ""
    values: str = ""

    @property
    def is_fault(self) -> bool:
        return self.end == FAULT

    @property
    def key(self) -> str:
        """Equal for faults that are probably the same."""
        return f"{self.stage}: {self.what}"


class Overtime(BaseException):
    """The time of a case is over; nothing that catches errors catches this."""


class Run:
    """One case under way; ``stage`` is what is being done."""

    def __init__(self) -> None:
        self.stage = "load"

    def outcome(self, data: bytes, is_text: bool, with_values: bool = False) -> Outcome:
        """Run it all; every exception becomes an outcome."""
        return self.guarded(lambda: self.attempt(data, is_text, with_values))

    def guarded(self, attempt: Callable[[], Outcome]) -> Outcome:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return attempt()
        except Overtime as error:
            if self.stage == "values":  # a model may compute for as long as it likes
                return Outcome(SAVED, "saved", values="too slow")
            return Outcome(FAULT, self.stage, f"time at {place_of(error)}", trace(error))
        except MemoryError as error:
            return Outcome(FAULT, self.stage, f"memory at {place_of(error)}", trace(error))
        except RewriteError as error:  # the passes' own fault, whatever the model is
            return Outcome(FAULT, self.stage, f"RewriteError at {place_of(error)}", trace(error))
        except CirclekitError as error:
            return Outcome(REFUSED, self.stage, type(error).__name__, str(error))
        except Exception as error:  # which is what this is for
            return Outcome(FAULT, self.stage, f"{type(error).__name__} at {place_of(error)}", trace(error))

    def attempt(self, data: bytes, is_text: bool, with_values: bool) -> Outcome:
        digest = zlib.crc32(data)
        model = recipe_in(memoryview(data), Path("fuzz.recipe")) if is_text else load_bytes(data, "fuzz")
        self.stage = "verify"
        findings = verify(model)
        if findings:
            self.unsound(model)
            return Outcome(REFUSED, "verify", "ModelError", str(findings[0]))
        self.stage = "shapes"
        check_shapes(model)
        if digest % 16 == 0:
            self.stage = "print"
            print_model(model)
        original = None
        if with_values:
            give_seeds(model)
            original = clone(model)
        target = model.format if digest % 4 else FORMATS[model.format == FORMATS[0]]
        self.optimize(model, target)
        self.stage = "verify after O1"
        legal = legalize(model, target)
        self.sound(legal)
        try:
            check_shapes(legal)
        except CirclekitError as error:  # a folded constant can show that the model was wrong from the start
            if not is_text and not wrong_from_the_start(load_bytes(data, "fuzz"), target):
                raise AssertionError(f"a sound model has wrong shapes after O1: {error.message}") from error
            raise
        self.stage = "save"
        self.again(to_bytes(legal, target), _has_rank(legal))
        values = "" if original is None else self.compared(original, model)
        if values.startswith("fault"):
            return Outcome(FAULT, "values", values.partition("\n")[0][:120], values, "compared")
        return Outcome(SAVED, "saved", values=values)

    def unsound(self, model: Model) -> None:
        """What a user may still do with an unsound model: look at it, and copy it to the same format."""
        self.stage = "shapes of an unsound model"
        with suppress(CirclekitError):
            check_shapes(model)
        self.stage = "save of an unsound model"
        again = to_bytes(model)
        self.stage = "load of a saved unsound model"
        _must(lambda: load_bytes(again, "again"), "an unsound model is saved as what cannot be loaded")

    def optimize(self, model: Model, target: str) -> None:
        self.stage = "ranks"
        settle_ranks(model)
        self.stage = "O1"
        names = pass_names("O1", (), target)
        run_passes(model, names, Context(target, exact=True))

    def again(self, data: bytes, is_whole: bool) -> None:
        """What was saved loads; what ``is_whole`` verifies, and says the same when it is saved once more."""
        self.stage = "reload"
        model = _must(lambda: load_bytes(data, "again"), "what was saved does not load")
        if not is_whole:
            return
        self.sound(model)
        _must(lambda: check_shapes(model), "shapes of what was saved")
        self.stage = "save again"
        if zlib.crc32(data) % 4 == 0 and to_bytes(model) != data:
            raise AssertionError("saved, loaded and saved, a file is another one")
        self.stage = "infer"
        with suppress(CirclekitError):
            infer_shapes(model)

    def sound(self, model: Model) -> None:
        findings = verify(model)
        if findings:
            raise AssertionError(f"unsound after O1: {findings[0]}")

    def compared(self, original: Model, model: Model) -> str:
        self.stage = "values"
        with limited(calls=MOST_CALLS):
            return difference(original, model)


def _has_rank(model: Model) -> bool:
    """Whether some rank is known: no file can say that all of them are unknown, they are read as scalars."""
    return any(v.shape is not None for graph in model.graphs for v in graph.values())


def wrong_from_the_start(model: Model, target: str) -> bool:
    """Whether a model does not run, or has other shapes as soon as its constants are folded."""
    if not runs(model):
        return True
    names = [n for n in pass_names("O1", (), target) if n.startswith(("fold_", "resolve_"))]
    settle_ranks(model)
    run_passes(model, names, Context(target, exact=True))
    try:
        check_shapes(model)
    except CirclekitError:
        return True
    return False


def _must(action: Callable[[], T], what: str) -> T:
    """Do it; an error of ours is a fault here."""
    try:
        return action()
    except UnsupportedError:
        raise
    except CirclekitError as error:
        raise AssertionError(f"{what}: {error.message}") from error


def place_of(error: BaseException) -> str:
    """The innermost line of circlekit in the traceback, and what it called last."""
    frames = list(traceback.extract_tb(error.__traceback__))
    ours = [f for f in frames if "circlekit" in f.filename] or frames
    last = ours[-1]
    name = re.sub(r".*(circlekit|tools)/", "", last.filename)
    said = re.sub(r"%\S+|-?\d+", "_", str(error))[:90]
    text = f": {said}" if isinstance(error, AssertionError) else ""
    return f"{name}:{last.lineno} {last.name}{text}"


def trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-4000:]
