# SPDX-License-Identifier: Apache-2.0
"""The pass ``backward_slice`` and its helpers: slices move before the operators whose results they take."""
