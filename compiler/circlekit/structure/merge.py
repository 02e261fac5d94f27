# SPDX-License-Identifier: Apache-2.0
"""Join several models into one: inputs of some models read outputs of others, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

from circlekit.errors import ModelError, ShapeError, UnsupportedError, did_you_mean, names_in
from circlekit.interp.interpreter import KERNELS_METADATA, select_kernels
from circlekit.ir.clone import clone
from circlekit.ir.core import unique_name
from circlekit.ir.graph import Graph, Model, postorder
from circlekit.ir.op import Op
from circlekit.ir.text.lines import Names, type_text
from circlekit.ir.value import Value
from circlekit.structure.submodel import HANDLES


def merge(
    models: Sequence[Model], connect: Mapping[str, str] | None = None, outputs: str | Iterable[str] = ()
) -> Model:
    """Return one model that computes what ``models`` compute one after the other.

    ``connect``: {name of an input: name of the output of another model that it reads}.  An input that is not
    in ``connect`` reads the output of the same name that another model computes.  If there is no such output,
    the input becomes an input of the result; models that have an input of this name share it.
    A model does not compute an output that is also its input.  An input of another model reads such an output
    only if ``connect`` says so.
    ``outputs``: the names of the outputs of the result, or one name; by default all outputs that no other
    model reads.  A model that passes a value on, as an output of the same name, does not count as reading it.
    The operators of a model come after those of the models from which it reads.  Values that are neither
    inputs nor outputs are renamed if two models use the same name.  Signatures and metadata are dropped.
    The result has the format of the first of ``models``.  If all models run with the same kernel set, so does
    the result.

    Raise ModelError if

    - ``models`` is empty, or the models form a cycle,
    - two different outputs have the same name (an input that models share is the same value),
    - ``connect`` names an input or an output that no model has, or an input that only the model of
      the output has,
    - ``outputs`` names an unknown value, or
    - ``connect`` is not a dict of names, or ``outputs`` contains anything but names.

    Raise ShapeError if an input differs in dtype, shape or quantization from the output that it reads, or
    from an input of the same name in another model.  An unknown dimension fits any dimension.
    Raise UnsupportedError if two models name the same state, such as the variable ``shared_name`` of a
    VAR_HANDLE: the result would have it only once.  Also raise it if an operator calls the main graph of its
    model: this graph becomes a part of another one.
    """
    if not models:
        raise ModelError("expected at least one model, got none")
    links = _links(connect)
    _check_state(models)
    _check_calls(models)
    results = names_in("an output", outputs)
    interface = [v.name for model in models for v in (*model.main.inputs, *model.main.outputs)]
    merger = _Merger(models[0].main.name, links, interface)
    for model in _in_order(models, links):
        merger.add(clone(model))
    unused = [name for name in links if name not in merger.linked]
    if unused:
        output = links[unused[0]]
        raise ModelError(
            f"no model has an input {unused[0]!r} that could read the output {output!r} of another model"
        )
    merged = merger.finish(models[0], results)
    kernels = {select_kernels(model) for model in models}
    if len(kernels) == 1 and select_kernels(merged) not in kernels:
        merged.metadata.append((KERNELS_METADATA, kernels.pop().value.encode()))
    return merged


def _check_state(models: Sequence[Model]) -> None:
    """Raise UnsupportedError if two of ``models`` make the handle of the same variable or table."""
    known: set[tuple[str, ...]] = set()
    for model in models:
        handles: dict[tuple[str, ...], Op] = {}
        for op in model.ops():
            if not op.inputs and any(v.dtype in HANDLES for v in op.results):
                names = (str(item or "") for item in op.attribute_items().values())  # absent: as if empty
                key = (op.code, *names)
                handles[key] = op
        for key in known & handles.keys():
            raise UnsupportedError(
                f"several models have {handles[key]!r}: in one model, it would be the same state;"
                " give it another name in one of them"
            )
        known |= handles.keys()


def _check_calls(models: Sequence[Model]) -> None:
    """Raise UnsupportedError if an operator of ``models`` calls the main graph of its model."""
    for model in models:
        for op in model.ops():
            if model.main in op.called_graphs():
                raise UnsupportedError(
                    f"{op!r} calls {model.main.name}, the main graph of its model, which becomes a part of"
                    " the result; let it call a copy of this graph"
                )


def _links(connect: object) -> dict[str, str]:
    """Return the argument ``connect`` of ``merge`` as a dict; raise ModelError if it is of another type."""
    if not isinstance(connect, Mapping | None):
        kind = type(connect).__name__
        raise ModelError(f"connect: expected a dict of names of inputs and outputs, got {kind}")
    links = dict(connect or {})
    names_in("an input", links)
    names_in("an output", links.values())
    return links


def _in_order(models: Sequence[Model], links: Mapping[str, str]) -> list[Model]:
    """Return the models, each after the models from which it reads.

    ``links``: the argument ``connect`` of ``merge``.  Raise ModelError for different outputs of the same
    name, an unknown output, and models that form a cycle.
    """
    computed: dict[str, Model] = {}  # by the name of an output: the model that computes it
    passed: dict[str, Model] = {}  # by the name of an output: a model whose input it is, too
    for model in models:
        for value in dict.fromkeys(model.main.outputs):
            if model.main.is_input(value) and links.get(value.name, value.name) == value.name:
                passed.setdefault(value.name, model)
            elif value.name in computed:
                raise ModelError(f"two outputs are named {value.name!r}; rename one of them")
            else:
                computed[value.name] = model
    providers = {**passed, **computed}
    for output in links.values():
        if output not in providers:
            raise ModelError(f"no model has an output {output!r}{did_you_mean(output, providers, 3)}")

    def sources(model: Model) -> list[Model]:
        """Return the other models from which ``model`` reads."""
        names = [v.name for v in model.main.inputs]
        found = [providers[links[name]] if name in links else computed.get(name) for name in names]
        return [m for m in found if m is not None and m is not model]

    ordered = postorder(models, sources)
    for index, model in enumerate(ordered):
        for source in sources(model):
            if source not in ordered[:index]:
                raise ModelError("the models form a cycle, so there is no order in which they can run")
    return ordered


class _Merger:
    """Moves the operators of copied models into one graph.

    ``name``: the name of that graph.
    ``interface``: the names of all inputs and outputs; all other values get other names.
    ``links``: the argument ``connect`` of ``merge``.  ``linked``: the inputs that were connected so far.
    ``given``: the outputs of the models that were added so far, by name.  ``read``: the names of the outputs
    in ``given`` that an input reads and its model does not pass on.  ``passed``: the names of the outputs in
    ``given`` that are inputs of their models.
    ``inputs``: the inputs of the result, by name.  ``callees``: the graphs that operators call.
    """

    def __init__(self, name: str, links: Mapping[str, str], interface: Sequence[str]) -> None:
        self.graph = Graph(name)
        for word in interface:
            self.graph.unique_name(word)  # no later call returns this name
        self.callees: list[Graph] = []
        self.links = links
        self.linked: set[str] = set()
        self.inputs: dict[str, Value] = {}
        self.given: dict[str, Value] = {}
        self.read: set[str] = set()
        self.passed: set[str] = set()

    def add(self, model: Model) -> None:
        """Move the operators of ``model`` into the graph, and connect its inputs."""
        main = model.main
        replacements: dict[Value, Value] = {}  # for each input, the value that takes its place
        for value in main.inputs:
            source = self._source(value, main.is_output(value))
            if source is not value:
                main.replace_uses(value, source)
            replacements[value] = source
        self._keep_names_distinct(model, replacements)
        for op in main.ops:
            main.unlink(op)
            self.graph.append(op)
        for value in main.outputs:
            if value in replacements and value.name not in self.given:
                self.passed.add(value.name)
            self.given.setdefault(value.name, replacements.get(value, value))
        self.callees += model.graphs[1:]

    def _source(self, value: Value, is_output: bool) -> Value:
        """Return the value that replaces the input ``value`` of a model.

        It is an output of another model, or an input of the result.  ``is_output``: whether the model of
        ``value`` also gives it as an output.  Raise ShapeError if the value that replaces it differs from
        ``value`` in dtype, quantization or a known dimension.
        """
        name = self.links.get(value.name, value.name)
        source = self.given.get(name) if value.name in self.links or name not in self.passed else None
        if source is None:
            source = self.inputs.setdefault(name, value)
        else:
            self.linked.add(value.name)
            if not (is_output and value.name == name):  # else the output is only passed on
                self.read.add(name)
        if (source.dtype, source.quantization) != (value.dtype, value.quantization) or not _fit(
            source, value
        ):
            mine, other = (type_text(v, Names()) for v in (value, source))
            raise ShapeError(
                f"input %{value.name} and %{source.name} would be one value: "
                f"expected equal dtypes, shapes and quantizations, got {mine} and {other}"
            )
        return source

    def _keep_names_distinct(self, model: Model, replacements: Mapping[Value, Value]) -> None:
        """Rename called graphs, and values other than inputs and outputs, if their names are in use.

        ``replacements``: for each input of ``model``, the value that replaces it; these values keep their
        names.
        """
        fixed = {*replacements, *replacements.values()}
        for value in model.main.values():
            if value not in fixed and not model.main.is_output(value):
                value.name = self.graph.unique_name(value.name)
        taken = {graph.name: 0 for graph in (self.graph, *self.callees)}
        for graph in model.graphs[1:]:
            graph.name = unique_name(graph.name, taken)

    def finish(self, first: Model, outputs: Sequence[str]) -> Model:
        """Return the merged model, with the format of ``first``; ``outputs``: see ``merge``."""
        available = {**self.inputs, **self.given}
        names = list(outputs) or [name for name in self.given if name not in self.read]
        for name in names:
            if name not in available:
                raise ModelError(f"no model has an output {name!r}{did_you_mean(name, available, 3)}")
        self.graph.inputs = list(self.inputs.values())
        self.graph.outputs = [available[name] for name in names]
        merged = copy(first)
        merged.graphs = [self.graph, *self.callees]
        merged.signatures, merged.metadata, merged.extra, merged.source = [], [], {}, None
        return merged


def _fit(source: Value, value: Value) -> bool:
    """Return whether the shapes of both values are equal in all dimensions that are known for both."""
    if source.shape is None or value.shape is None:
        return True
    return len(source.shape) == len(value.shape) and all(
        a == b or None in (a, b) for a, b in zip(source.shape, value.shape, strict=True)
    )
