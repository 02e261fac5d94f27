# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks: LSTM, RNN, GRU and SVDF."""
