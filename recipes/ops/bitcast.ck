# SPDX-License-Identifier: Apache-2.0
# The same bits as another type.

graph main(%x: f32[4]) -> %y {
  %y = Bitcast(%x)  : i32[4]
}
