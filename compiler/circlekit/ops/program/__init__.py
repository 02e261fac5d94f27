# SPDX-License-Identifier: Apache-2.0
"""Control flow, state, custom operators, detection and text."""
