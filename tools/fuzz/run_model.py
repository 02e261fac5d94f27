# SPDX-License-Identifier: Apache-2.0
"""Run one mutated model: load, verify, infer shapes, O1, save, load again, verify again.

A case ends in success or in a CirclekitError other than RewriteError.  All else is a fault: an exception,
too much time, a saved model that does not load or is invalid, a valid model made invalid, changed values.
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
from circlekit.ir.resources.resource_limits import limited
from circlekit.ir.shape_inference import check_shapes, infer_shapes, settle_ranks
from circlekit.ir.text import print_model
from circlekit.ir.verifier import verify
from circlekit.passes.engine.legalize import legalize
from circlekit.passes.engine.pass_manager import run_passes
from circlekit.passes.engine.registry import pass_names, select_passes
from circlekit.recipes.load import recipe_in
from circlekit.rewrite.base import Context
from tools.fuzz.values import MAX_CALLS, can_run, compare_values, set_random_seeds

T = TypeVar("T")

SAVED, REFUSED, FAULT = "saved", "refused", "fault"
TEXT_SUFFIXES = (".ck", ".recipe")


@dataclass(frozen=True)
class Outcome:
    """How a case ended.

    ``end``: SAVED, REFUSED or FAULT.  ``stage``: the step that ended the case.  ``error``: the kind of the
    error.  ``detail``: its text.
    ``values``: how the comparison of values ended, or why there was none; "" if none was due.
    """

    end: str
    stage: str
    error: str = ""
    detail: str = ""
    values: str = ""

    @property
    def is_fault(self) -> bool:
        return self.end == FAULT

    @property
    def key(self) -> str:
        """A text that is equal for faults that probably have the same cause."""
        return f"{self.stage}: {self.error}"


class TimeLimitExceeded(BaseException):
    """The processor time of a case is used up.  A BaseException, so that no handler swallows it."""


class ModelRun:
    """One case under way; ``stage``: the present step."""

    def __init__(self) -> None:
        self.stage = "load"

    def outcome(self, data: bytes, suffix: str, with_values: bool = False) -> Outcome:
        """Run all steps for a file with this suffix; every exception becomes an outcome."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._run(data, suffix in TEXT_SUFFIXES, with_values)
        except RewriteError as error:  # a fault of the passes, whatever the model is
            return self._fault(error, "RewriteError")
        except CirclekitError as error:
            return Outcome(REFUSED, self.stage, type(error).__name__, str(error))
        except TimeLimitExceeded as error:
            if self.stage == "values":  # a model may compute for as long as it needs
                return Outcome(SAVED, "saved", values="too slow")
            return self._fault(error, "time limit")
        except Exception as error:
            return self._fault(error, type(error).__name__)

    def _fault(self, error: BaseException, kind: str) -> Outcome:
        trace = "".join(traceback.format_exception(error))[-4000:]
        return Outcome(FAULT, self.stage, f"{kind} at {innermost_line(error)}", trace)

    def _run(self, data: bytes, is_text: bool, with_values: bool) -> Outcome:
        """Run the steps in their order; ``stage`` tells the caller which one has raised an exception."""
        digest = zlib.crc32(data)
        model = recipe_in(memoryview(data), Path("fuzz.recipe")) if is_text else load_bytes(data, "fuzz")
        self.stage = "verify"
        findings = verify(model)
        if findings:
            self._save_invalid(model)
            return Outcome(REFUSED, "verify", "ModelError", str(findings[0]))
        self.stage = "shapes"
        check_shapes(model)
        if digest % 16 == 0:  # in 1 case of 16
            self.stage = "print"
            print_model(model)
        original = None
        if with_values:
            set_random_seeds(model)
            original = clone(model)
        other_format = "tflite" if model.format == "circle" else "circle"
        target = model.format if digest % 4 else other_format
        self.stage = "ranks"
        settle_ranks(model)
        self.stage = "O1"
        run_passes(model, select_passes("O1", (), target), Context(target, exact=True))
        self.stage = "verify after O1"
        legal = legalize(model, target)
        require_valid(legal)
        try:
            check_shapes(legal)
        except CirclekitError as error:  # a folded constant can show that the model was wrong from the start
            if not is_text and not has_wrong_shapes(load_bytes(data, "fuzz"), target):
                raise AssertionError(f"a valid model has wrong shapes after O1: {error.message}") from error
            raise
        self.stage = "save"
        self._load_again(to_bytes(legal, target))
        self.stage = "values"
        values = ""
        if original is not None:
            with limited(calls=MAX_CALLS):
                values = compare_values(original, model)
        if values.startswith("fault"):
            return Outcome(FAULT, "values", values.partition("\n")[0][:120], values, "compared")
        return Outcome(SAVED, "saved", values=values)

    def _save_invalid(self, model: Model) -> None:
        """Check the shapes of an invalid model; save it, which a user may still do, and load it again."""
        self.stage = "shapes of an invalid model"
        with suppress(CirclekitError):
            check_shapes(model)
        self.stage = "save of an invalid model"
        again = to_bytes(model)
        self.stage = "load of a saved invalid model"
        require(lambda: load_bytes(again, "again"), "a saved invalid model cannot be loaded")

    def _load_again(self, data: bytes) -> None:
        """Load and verify the saved ``data``, and in 1 case of 4 save the model again."""
        self.stage = "reload"
        model = require(lambda: load_bytes(data, "again"), "a saved model cannot be loaded")
        require_valid(model)
        require(lambda: check_shapes(model), "wrong shapes in a saved model")
        self.stage = "save again"
        if zlib.crc32(data) % 4 == 0 and to_bytes(model) != data:
            raise AssertionError("saving a loaded file again gives other bytes")
        self.stage = "infer"
        with suppress(CirclekitError):
            infer_shapes(model)


def require(action: Callable[[], T], what: str) -> T:
    """Return the result of ``action``; raise AssertionError for an error other than UnsupportedError."""
    try:
        return action()
    except UnsupportedError:
        raise
    except CirclekitError as error:
        raise AssertionError(f"{what}: {error.message}") from error


def require_valid(model: Model) -> None:
    findings = verify(model)
    if findings:
        raise AssertionError(f"invalid after O1: {findings[0]}")


def has_wrong_shapes(model: Model, target: str) -> bool:
    """Return whether a model does not run, or has wrong shapes once its constants are folded."""
    if not can_run(model):
        return True
    names = [n for n in pass_names("O1", (), target) if n.startswith(("fold_", "resolve_"))]
    settle_ranks(model)
    run_passes(model, names, Context(target, exact=True))
    try:
        check_shapes(model)
    except CirclekitError:
        return True
    return False


def innermost_line(error: BaseException) -> str:
    """Return the innermost line of circlekit in the traceback; for assertions, the message too."""
    frames = list(traceback.extract_tb(error.__traceback__))
    last = ([f for f in frames if "circlekit" in f.filename] or frames)[-1]
    name = re.sub(r".*(circlekit|tools)/", "", last.filename)
    message = re.sub(r"%\S+|-?\d+", "_", str(error))[:90]
    return f"{name}:{last.lineno} {last.name}{f': {message}' if isinstance(error, AssertionError) else ''}"
