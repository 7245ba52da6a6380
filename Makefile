# SPDX-License-Identifier: GPL-2.0
#
# Weft. The module is built by Kbuild, this file is for people: `make help`.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The targets below lock and parallelise by themselves.
.NOTPARALLEL:

export WEFT_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weft
export KERNEL KDIR ARGS

# A file to carry between two hosts; hosts of `make vm`, or all that it is to have; suites or a set of
# `make check`, and which part of it.
FILE ?=
HOSTS ?= 2
TOPOLOGY ?=
SUITE ?=
PART ?=
export PART

.PHONY: help
help: ## this text
	@echo 'Weft joins Linux hosts through PCI Express. All of this needs root.'
	@echo
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' Makefile | expand -t 14 | sed 's/^/  make /'
	@echo
	@echo '  KERNEL=7.2    the kernel series to boot and to build for (newest that can be had)'
	@echo '  KDIR=/path    build directory of another kernel, for modules and install'
	@echo '  WEFT_CACHE=…  where everything that is downloaded or built once is kept ($(WEFT_CACHE))'

.PHONY: demo
demo: setup-demo modules tools ## two emulated hosts, a file carried from one to the other (FILE=…, HOSTS=4)
	@scripts/lab/demo $(if $(HOSTS),--hosts '$(HOSTS)') $(if $(FILE),'$(FILE)')

.PHONY: check
check: ## the tests that every change has to pass (SUITE=name: one suite; SUITE=quick: what daily work needs)
	@scripts/check $(SUITE)

.PHONY: check-long
check-long: ## what takes too long for every change: many rounds, fuzzing, an older kernel (PART=1/3)
	@scripts/check long

.PHONY: check-debug
check-debug: ## the tests of running hosts on a kernel with lockdep, kmemleak, UBSAN, fault injection … (PART=1/4)
	@scripts/check debug

.PHONY: check-kasan
check-kasan: ## the same on one with KASAN (PART=1/4)
	@scripts/check kasan

.PHONY: check-status
check-status: ## which parts of the checks passed at which commit, and what changed since (ARGS=--json)
	@scripts/check --status $(ARGS)

.PHONY: vng
vng: setup-demo modules tools ## the kselftests under virtme-ng
	@scripts/lab/vng

.PHONY: vm
vm: setup-demo modules tools ## interactive shells on emulated hosts (HOSTS=3, or TOPOLOGY=file)
	@scripts/lab/vm $(HOSTS) $(if $(TOPOLOGY),--topology '$(TOPOLOGY)')

.PHONY: bench
bench: setup-demo modules tools ## speed beside TCP and Soft-RoCE, into bench/results.md (three quarters of an hour)
	@scripts/lab/bench

.PHONY: modules
modules: ## weft.ko as build/<kernel>/weft.ko
	@scripts/modules

.PHONY: tools
tools: ## weftctl, weft-fabric, weft-run, the libraries and their examples
	@cd tools && ../scripts/in-root cargo build --release --locked --lib --bins --examples

.PHONY: sim
sim: tools ## fabrics of up to 65 536 simulated nodes, into Documentation/manager.rst (an hour, 8 GiB)
	@scripts/sim $(ARGS)

.PHONY: install
install: ## the module, the tools and their manual pages on this machine (PREFIX, DESTDIR)
	@scripts/install

.PHONY: lint
lint: ## formatting and static checks
	@scripts/check lint

.PHONY: doc
doc: ## the documentation as HTML in build/doc
	@scripts/doc

.PHONY: setup
setup: ## everything the other targets make first: root, kernels, QEMU
	@scripts/env setup

# What booting takes, without the kernels that can only be built for.
.PHONY: setup-demo
setup-demo:
	@scripts/env boot

.PHONY: status
status: ## what is in the cache, and the kernels that can be had
	@scripts/env status
	@scripts/env list

.PHONY: update
update: ## look for newer kernels
	@scripts/env update

.PHONY: clean
clean: ## remove what was built from this tree
	rm -rf build

.PHONY: clean-cache
clean-cache: ## remove the root, the kernels and QEMU
	@scripts/env clean
