# SPDX-License-Identifier: Apache-2.0
"""The pass manager: finds passes, runs them until nothing changes, explains refusals and reports results."""
