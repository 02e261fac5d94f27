# SPDX-License-Identifier: Apache-2.0
"""Random models of many operators, and what every pass and pipeline must keep of them."""
