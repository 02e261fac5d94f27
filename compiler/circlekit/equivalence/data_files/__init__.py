# SPDX-License-Identifier: Apache-2.0
"""Arrays in files: npy, npz, HDF5, raw data, lists and folders of them."""
