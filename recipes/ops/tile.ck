# SPDX-License-Identifier: Apache-2.0
# Repeated twice and three times.

graph main(%x: f32[2,1]) -> %y {
  %y = Tile(%x, [2,3])
}
