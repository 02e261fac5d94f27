# SPDX-License-Identifier: Apache-2.0
# The places of what is true; how many there are is known late.

graph main(%c: bool[2,3]) -> %y {
  %y = Where(%c)  : i64[?,2]
}
