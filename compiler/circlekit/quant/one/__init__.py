# SPDX-License-Identifier: Apache-2.0
"""ONE's quantizer: the results of its circle-quantizer, to the bit."""
