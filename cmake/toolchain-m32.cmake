# SPDX-License-Identifier: MIT
#
# 32-bit x86 on a 64-bit x86 machine: Debian package gcc-12-multilib. gcc-multilib would bring the
# link /usr/include/asm but cannot be installed beside the cross compilers, hence -idirafter.

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR i686)
set(CMAKE_C_COMPILER cc)
set(CMAKE_C_FLAGS_INIT "-m32 -idirafter /usr/include/x86_64-linux-gnu")
