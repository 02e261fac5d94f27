# SPDX-License-Identifier: Apache-2.0
# The length of complex numbers.

graph main(%x: c64[4]) -> %y {
  %y = ComplexAbs(%x)
}
