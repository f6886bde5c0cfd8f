# SPDX-License-Identifier: MIT
#
# A thin front over CMake; everything that it builds is in $(BUILD). The first of these that is typed
# on a fresh machine installs what is missing, see scripts/setup.
#
#   make            build            make test       the tests, under 10 minutes
#   make run        replay a trace   make test-all   every compiler, sanitizer and machine here
#   make bench      bench/results/   make install    PREFIX=/usr/local DESTDIR=
#   make clean      remove $(BUILD)  make uninstall  what make install wrote
#
# Variables: BUILD=build, JOBS, CMAKE_OPTIONS, TRACE (of make run), BENCH (arguments of make bench).

BUILD ?= build
PREFIX ?= /usr/local
CMAKE_OPTIONS ?=
export BUILD CMAKE_OPTIONS

.SILENT:
.PHONY: all setup run test test-all bench install uninstall clean

all: setup
	scripts/build $(BUILD) $(CMAKE_OPTIONS)

setup:
	scripts/setup

run: all
	scripts/run

test: setup
	scripts/test

test-all: setup
	scripts/test all

bench: all
	scripts/bench $(BENCH)

# The libraries' own names keep their folder: /usr/lib/x86_64-linux-gnu only for PREFIX=/usr.
install: setup
	scripts/build $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_OPTIONS)
	cmake --install $(BUILD)

uninstall:
	test -f $(BUILD)/install_manifest.txt || { echo "nothing was installed from $(BUILD)"; exit 2; }
	while read -r file; do rm -f -- "$(DESTDIR)$$file"; done <$(BUILD)/install_manifest.txt

clean:
	rm -rf -- $(BUILD)
