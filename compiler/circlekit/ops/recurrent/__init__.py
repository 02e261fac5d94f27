# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers: LSTM, RNN, GRU and SVDF."""
