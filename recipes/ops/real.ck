# SPDX-License-Identifier: Apache-2.0
# The real part.

graph main(%x: c64[4]) -> %y {
  %y = Real(%x)
}
