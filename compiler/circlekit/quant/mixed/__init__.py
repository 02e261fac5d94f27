# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: measure the noise that each operator adds, and choose the operators to raise.

To raise an operator means to compute it in a higher precision than the others.
"""
