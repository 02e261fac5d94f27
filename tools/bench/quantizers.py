# SPDX-License-Identifier: Apache-2.0
"""Programs that quantize a float TFLite model: circlekit, ai-edge-quantizer, TensorFlow's converter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import circlekit as ck
from tools.bench.quantization_samples import CACHE, Sample, saved

Quantizer = Callable[[bytes, str, list[Sample]], bytes]
"""A function of a float model, a scheme and calibration samples, which returns a quantized model."""


def by_circlekit(auto: bool) -> Quantizer:
    """Return circlekit as a quantizer; ``auto``: whether it tries techniques and keeps those that help."""

    def quantize(data: bytes, scheme: str, samples: list[Sample]) -> bytes:
        model = ck.load(data)
        print(ck.quantize(model, scheme, samples=samples, auto=auto))
        return saved(model)

    return quantize


def by_tensorflow(data: bytes, scheme: str, samples: list[Sample]) -> bytes:
    """Quantize a TFLite file as TensorFlow's converter does; a ``scheme`` other than int8 means int16x8."""
    import tensorflow as tf
    from tensorflow.lite.python import convert
    from tensorflow.lite.python.optimize import calibrator

    steps = calibrator.Calibrator(calibrator.add_intermediate_tensors(data))
    if scheme == "int8":
        calibrated = steps.calibrate(lambda: iter(samples))
        return bytes(
            convert.mlir_quantize(calibrated, input_data_type=tf.float32, output_data_type=tf.float32)
        )
    f32 = tf.float32  # TFLiteConverter also uses its older quantizer for int16: the newer one has no int16
    return bytes(steps.calibrate_and_quantize(lambda: iter(samples), f32, f32, True, tf.int16, tf.int64))


def by_ai_edge(algorithm: str) -> Quantizer:
    """Return ai-edge-quantizer, with one of its algorithms, as a quantizer of models with one signature."""

    def quantize(data: bytes, scheme: str, samples: list[Sample]) -> bytes:
        from ai_edge_quantizer import quantizer

        path = CACHE / "ai_edge.tflite"
        path.unlink(missing_ok=True)  # LiteRT may still map the file of the call before
        path.write_bytes(data)
        work = quantizer.Quantizer(str(path), ai_edge_recipe(scheme, algorithm))
        result = None
        if work.need_calibration:
            model = ck.load(data)
            (signature,) = model.signatures
            # samples have the order of the graph's inputs, which that of the signature may differ from
            places = {name: model.main.inputs.index(value) for name, value in signature.inputs.items()}
            named = [{name: sample[place] for name, place in places.items()} for sample in samples]
            result = work.calibrate({signature.key: named})
        return bytes(work.quantize(result).quantized_model)

    return quantize


def ai_edge_recipe(scheme: str, algorithm: str) -> Any:
    """Return ai-edge-quantizer's recipe of a scheme, such as ``int8`` or ``weight_int4_block32``."""
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    every = qtyping.TFLOperationName.ALL_SUPPORTED
    if scheme in ("int8", "int16x8"):
        bits = 8 if scheme == "int8" else 16
        manager.add_static_config(".*", every, bits, 8, algorithm_key=algorithm)
    else:
        _, bits_name, *block = scheme.split("_")
        size = qtyping.QuantGranularity("BLOCKWISE_" + block[0][5:] if block else "CHANNELWISE")
        add = manager.add_dynamic_config if scheme.startswith("dynamic") else manager.add_weight_only_config
        add(".*", every, int(bits_name[3:]), size, algorithm_key=algorithm)
    return manager.get_quantization_recipe()


QUANTIZERS: dict[str, Quantizer] = {
    "circlekit": by_circlekit(auto=True),
    "circlekit-plain": by_circlekit(auto=False),
    "ai-edge": by_ai_edge("min_max_uniform_quantize"),
    "ai-edge-octav": by_ai_edge("OCTAV"),
    "ai-edge-mse": by_ai_edge("MSE"),
    "ai-edge-gptq": by_ai_edge("GPTQ"),
    "tensorflow": by_tensorflow,
}
