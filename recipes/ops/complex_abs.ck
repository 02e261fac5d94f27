# SPDX-License-Identifier: Apache-2.0
# The magnitude of complex numbers.

graph main(%x: c64[4]) -> %y {
  %y = ComplexAbs(%x)
}
