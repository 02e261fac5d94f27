# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: the noise that each operator adds, and which operators to leave in higher precision."""
