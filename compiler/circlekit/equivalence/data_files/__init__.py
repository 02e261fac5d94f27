# SPDX-License-Identifier: Apache-2.0
"""Read and write arrays in files: npy, npz, HDF5, raw data, and folders of these."""
