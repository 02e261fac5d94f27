# SPDX-License-Identifier: Apache-2.0
"""Mixed precision: measure the noise that the quantization of each operator adds; choose operators to raise.

To raise an operator is to compute it in a higher precision than the others.
"""
