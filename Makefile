# SPDX-License-Identifier: MIT
#
# A thin front over CMake; everything it builds is in build/.

BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 1)

.PHONY: all test clean
all: $(BUILD)/CMakeCache.txt
	@cmake --build $(BUILD) --parallel $(JOBS)

$(BUILD)/CMakeCache.txt:
	@cmake -S . -B $(BUILD)

test: all
	@cd $(BUILD) && ctest --output-on-failure -LE long

clean:
	@rm -rf $(BUILD)
