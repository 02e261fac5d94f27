# SPDX-License-Identifier: Apache-2.0
"""Choose the form of each tensor: its dtype, scales and zero points.

The module ``tensor_forms`` chooses forms that cover the range of a tensor.  ``kernel_forms`` avoids forms
with which integer kernels fail; ``kernel_trial`` runs a kernel to see whether it fails.  ``constant_forms``
chooses forms of weights and biases, ``inner_forms`` those of tensors inside of recurrent operators.
``given_forms`` keeps the forms that tensors had before planning, for example in training.  ``masks`` covers
masks whose numbers calibration has not seen.  ``quant.choose`` makes a plan of these forms.
"""
