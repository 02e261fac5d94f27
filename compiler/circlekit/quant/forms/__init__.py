# SPDX-License-Identifier: Apache-2.0
"""Choose the form of each tensor: its dtype, scales and zero points.

``tensor_forms`` covers the range of a tensor.  ``kernel_forms``, with ``kernel_trial``, avoids forms with
which integer kernels fail.  ``inner_forms``: tensors that only recurrent operators have.  ``given_forms``:
forms with which a model was trained.  ``quant.choose`` makes a plan of these forms.
"""
