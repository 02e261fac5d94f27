# SPDX-License-Identifier: Apache-2.0
"""Techniques that lower the error of a quantized model.

Some change the constants of the float model but not its outputs, so that quantization loses less:
``equalization``, ``feature_map_equalization``, ``rotation``.  Some choose the ranges of activations:
``range_choice``, ``reader_ranges``.  Some choose the integers, the scales and the bias of a layer:
``layer_rounding``, with ``gptq``; ``layer_sweep`` applies these techniques layer by layer.  ``replay``
records the techniques that changed a float model, and applies them again.  The other modules are helpers.
"""
