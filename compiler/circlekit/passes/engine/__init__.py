# SPDX-License-Identifier: Apache-2.0
"""The pass manager: finds passes, runs them to a fixed point, explains, describes and reports."""
