# SPDX-License-Identifier: Apache-2.0
"""Judge a quantized model by its values: errors of outputs and operators; findings with remedies."""
