# SPDX-License-Identifier: Apache-2.0
"""Divide models into parts, cut out submodels, connect models, and change the shapes of inputs."""
