# SPDX-License-Identifier: Apache-2.0
"""Remove Reshapes, Transposes, Pads and slices that have no effect, or move them to where they have none."""
