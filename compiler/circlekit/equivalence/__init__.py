# SPDX-License-Identifier: Apache-2.0
"""Compare models by value; find the pass and the smallest model that show a difference."""
