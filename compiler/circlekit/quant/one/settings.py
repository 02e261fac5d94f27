# SPDX-License-Identifier: Apache-2.0
"""Settings of ONE's quantizer: dtype and granularity of operators, dtypes of inputs and outputs.

ONE's configuration file is JSON:

    {"layers": [{"name": "conv1", "dtype": "int16", "granularity": "channel"},
                {"names": ["a", "b"], "dtype": "uint8", "granularity": "layer",
                 "alternate": {"LABEL": ["a2", "b2"]}}]}

Each name is the name of a tensor; the setting is for the operator that produces this tensor.  Another
exporter may give the same layers other names: ``alternate`` lists these by a label that stands for the
exporter.  So a file has several alternatives, each with names for all layers: one with the names outside of
``alternate``, and one for each label.  In the alternative for a label, a layer without names for this label
keeps its names outside of ``alternate``.
The names of exactly one alternative must all be in the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from circlekit.errors import ModelError, ParseError, UnsupportedError, did_you_mean
from circlekit.io.file_map import map_file
from circlekit.io.parse_json import parse_json
from circlekit.ir.dtypes import DType, boolean, f32, i16, i32, i64, u8
from circlekit.ir.graph import Graph
from circlekit.ir.op import Op

DTYPES = {"uint8": u8, "int16": i16}
"""By ONE's names, the dtypes to which a model or a layer can be quantized."""

PORT_DTYPES = {**DTYPES, "int32": i32, "int64": i64, "float32": f32, "bool": boolean}
"""By ONE's names, the dtypes that inputs and outputs can have."""

CHANNEL, LAYER = "channel", "layer"
"""ONE's words for weights with a scale for each channel, and for weights with one scale."""

GRANULARITIES = (LAYER, CHANNEL)


@dataclass(frozen=True)
class LayerSetting:
    """The dtype of an operator, and the granularity of its weights: LAYER or CHANNEL."""

    dtype: DType
    granularity: str

    def __post_init__(self) -> None:
        """Raise UnsupportedError, worded as in ONE, for an unknown granularity and for int16 with LAYER."""
        if self.granularity not in GRANULARITIES:
            known = ", ".join(GRANULARITIES)
            raise UnsupportedError(
                f"Unsupported granularity {self.granularity!r}. List of supported granularity: {known}"
            )
        if self.granularity == LAYER and self.dtype is not u8:
            raise UnsupportedError("Layer-wise quantization only supports uint8 dtype; use channel")

    @property
    def per_channel(self) -> bool:
        """Whether weights have a scale for each channel."""
        return self.granularity == CHANNEL


@dataclass(frozen=True)
class Settings:
    """Settings of a quantization by ONE's rules.

    ``default``: the setting of every operator that ``layers`` does not name.
    ``layers``: at least one alternative (see the module), each {name of a result: setting}.  All names of
    exactly one of them must be in the model.  If ``layers`` is not given, it has one alternative without
    names, which fits every model.
    ``input_types``: one dtype for all float inputs, or one for each input; None: the dtype of ``default``.
    ``output_types``: the same for outputs.
    ``max_pool_keeps_scale``: ONE's option ``--TF-style_maxpool``: the result of MAX_POOL_2D gets the scale
    of the input.  ``keeps_range``: ONE's option ``--save_min_max``: the file keeps min and max of tensors.
    """

    default: LayerSetting
    layers: Sequence[Mapping[str, LayerSetting]] = ({},)
    input_types: Sequence[DType] | None = None
    output_types: Sequence[DType] | None = None
    max_pool_keeps_scale: bool = False
    keeps_range: bool = False


def layer_setting(dtype: str, granularity: str) -> LayerSetting:
    """Return the setting for two of ONE's words, in upper or lower case.

    Raise UnsupportedError, worded as in ONE, for an unknown word and for int16 with ``layer``.
    """
    if dtype.lower() not in DTYPES:
        raise UnsupportedError(
            f"Unsupported output type {dtype!r}. List of supported output types: {', '.join(DTYPES)}"
        )
    return LayerSetting(DTYPES[dtype.lower()], granularity.lower())


def check_source(word: str, expected: str) -> None:
    """Raise UnsupportedError, worded as in ONE, unless ``word`` is ``expected``, in upper or lower case.

    ``word``: what the user gives as the dtype of the model to quantize.
    """
    if word.lower() != expected:
        raise UnsupportedError(f"Unsupported input type {word!r}. List of supported input types: {expected}")


def port_types(text: str, side: str) -> list[DType]:
    """Return the dtypes of inputs or outputs in a text such as ``uint8,float32``.

    ``side``: ``input`` or ``output``, for the message.
    Raise UnsupportedError, worded as in ONE, for unknown words.
    """
    words = [word.strip().lower() for word in text.split(",")]
    for word in words:
        if word not in PORT_DTYPES:
            known = ", ".join(PORT_DTYPES)
            raise UnsupportedError(
                f"Unsupported {side} type {word!r}. List of supported {side} types: {known}"
            )
    return [PORT_DTYPES[word] for word in words]


def read_layers(path: str) -> list[dict[str, LayerSetting]]:
    """Return the alternatives for ``Settings.layers`` in ONE's configuration file.

    The first alternative has the names outside of ``alternate``; then follows one for each label.
    Raise FileError if the file cannot be read, LimitError if it is a pipe with more bytes than the memory
    limit, ParseError or UnsupportedError if its content is wrong.
    """
    return layers_in(read_configuration(path), path)


def read_configuration(path: str) -> Any:
    """Return the content of ONE's configuration file, which is not checked further.

    Raise FileError if the file cannot be read, LimitError if it is a pipe with more bytes than the memory
    limit, ParseError if it is not JSON.
    """
    try:
        return parse_json(bytes(map_file(path)))
    except ValueError as error:
        raise ParseError(f"{path}: Failed to decode the configuration file: expected JSON, {error}") from None


def layers_in(document: object, path: str) -> list[dict[str, LayerSetting]]:
    """Return the alternatives for ``Settings.layers`` in ``document``, the content of a configuration file.

    See ``read_layers``.  Raise ParseError or UnsupportedError if the content is wrong; so the document is a
    dict if no error is raised.  ``path``: the path of the file, for errors.
    """
    layers = document.get("layers", []) if isinstance(document, dict) else None
    if not isinstance(layers, list) or not all(isinstance(layer, dict) for layer in layers):
        raise ParseError(f"{path}: expected a list of objects under the key 'layers'")
    labels = dict.fromkeys(label for layer in layers for label in _alternates(layer, path))
    return [_alternative(layers, label, path) for label in (None, *labels)]


def _alternative(layers: Sequence[dict[str, Any]], label: str | None, path: str) -> dict[str, LayerSetting]:
    """Return the settings of all layers by the names that ``alternate`` lists for ``label``.

    If ``label`` is None, or if a layer has no names for ``label``, the names outside of ``alternate`` are
    used.  Raise ParseError or UnsupportedError if a layer is wrong.
    """
    found: dict[str, LayerSetting] = {}
    for layer in layers:
        words = [layer.get(key, "") for key in ("dtype", "granularity")]
        names = _names(layer) if label is None else _alternates(layer, path).get(label, _names(layer))
        if not names or not all(isinstance(word, str) for word in (*names, *words)):
            raise ParseError(f"{path}: expected name or names, dtype and granularity as text, got {layer}")
        try:
            setting = layer_setting(*words)
        except UnsupportedError as error:
            raise error.note(f"in {path}, layer {', '.join(names)}") from None
        for name in names:
            if name in found:
                raise ParseError(f"{path}: the configuration file has the layer name {name!r} twice")
            found[name] = setting
    return found


def _names(layer: dict[str, Any]) -> list[Any]:
    """Return the names of a layer outside of ``alternate``; the caller must check that they are texts."""
    names = layer.get("names", [])
    return [*([layer["name"]] if "name" in layer else []), *(names if isinstance(names, list) else [names])]


def _alternates(layer: dict[str, Any], path: str) -> dict[str, list[Any]]:
    """Return the names of a layer by label; the caller must check that they are texts.

    Raise ParseError if ``alternate`` is not an object.
    """
    alternates = layer.get("alternate", {})
    if not isinstance(alternates, dict):
        raise ParseError(f"{path}: expected {{label: names}} under the key 'alternate', got {alternates!r}")
    return {label: names if isinstance(names, list) else [names] for label, names in alternates.items()}


def settings_of(graphs: Sequence[Graph], settings: Settings) -> dict[Op, LayerSetting]:
    """Return the setting of each operator in ``settings.layers``.

    Raise ModelError unless exactly one alternative fits ``graphs``, or if two results of one operator have
    different settings.
    """
    producers = {v.name: op for graph in graphs for op in graph for v in op.results}
    fitting = [names for names in settings.layers if all(name in producers for name in names)]
    if len(fitting) > 1:
        raise ModelError(
            "expected the model to have all layer names of exactly one alternative of the configuration file "
            f"(the names outside of 'alternate', or those of one label), got {len(fitting)} such alternatives"
        )
    if not fitting:
        outside = settings.layers[0]  # the names outside of ``alternate``
        missing = next(name for name in outside if name not in producers)
        hint = did_you_mean(missing, producers)
        raise ModelError(f"no operator produces the layer {missing!r} of the configuration file{hint}")
    chosen: dict[Op, LayerSetting] = {}
    for name, setting in fitting[0].items():
        op = producers[name]
        if chosen.setdefault(op, setting) != setting:
            raise ModelError(f"expected one setting for the operator that produces %{name}, got two")
    return chosen
