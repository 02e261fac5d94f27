# SPDX-License-Identifier: Apache-2.0
"""Techniques that lower the error of a quantized model.

Techniques of the float model (``equalization``) change its constants but not its outputs, so that its tensors
lose less when they are quantized.  ``range_choice`` chooses the ranges of activations.  Techniques of layers
(``layer_rounding``, with ``gptq``) choose the integers, the scales and the bias of one layer; ``layer_sweep``
applies them in the order of execution.
"""
