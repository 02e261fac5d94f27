# SPDX-License-Identifier: Apache-2.0
# The imaginary part.

graph main(%x: c64[4]) -> %y {
  %y = Imag(%x)
}
