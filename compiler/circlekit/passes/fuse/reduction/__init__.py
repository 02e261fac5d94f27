# SPDX-License-Identifier: Apache-2.0
"""Combine reductions with other reductions, Reshapes and Transposes."""
