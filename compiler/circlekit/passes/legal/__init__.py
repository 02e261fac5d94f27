# SPDX-License-Identifier: Apache-2.0
"""Changes of form that a target format needs, made when a model is written; no pass is called like one."""
