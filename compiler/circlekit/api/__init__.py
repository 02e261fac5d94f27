# SPDX-License-Identifier: Apache-2.0
"""The public functions of circlekit, and types of their arguments: a module for each kind of work.

``circlekit`` gives the functions their public names.  This package imports none of its modules: a command
imports only those that it uses.
"""
