# SPDX-License-Identifier: Apache-2.0
"""Compare models by value; find the pass that causes a difference and the smallest model that shows it."""
