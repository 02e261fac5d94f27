# SPDX-License-Identifier: Apache-2.0
"""Passes: rules in folders by kind, the order in which pipelines run them, and the engine that runs them."""
