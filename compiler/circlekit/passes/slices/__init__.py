# SPDX-License-Identifier: Apache-2.0
"""The pass that moves slices before the operators whose results they slice, and its helpers."""
