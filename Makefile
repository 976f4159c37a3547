# The few commands a person types. Everything that is built or started stays in this folder (target/, .cache/) and in
# the temporary folder.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PROFILE := ci
CARGO := cargo
BUILD_DIR := $(or $(CARGO_TARGET_DIR),target)
export HEADWATER_CACHE ?= $(CURDIR)/.cache

.DEFAULT_GOAL := help
.PHONY: help build demo test bench bench-lake bench-peers instructions chaos races fuzz lint fmt doc tools oracles clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

build: tools ## build the program (target/ci/headwater)
	$(CARGO) build --profile $(PROFILE) --locked --bin headwater

demo: build ## a MySQL database arrives in Paimon tables, in about two minutes (DEMO_SECONDS, DEMO_ROWS)
	@HEADWATER=$(BUILD_DIR)/$(PROFILE)/headwater demo/run.sh

test: tools oracles ## all tests, against real servers and readers (KILLS=20)
	CARGO="$(CARGO)" PROFILE=$(PROFILE) tests/run.sh

chaos: tools oracles ## the kill test, for long (KILLS=200, SEED=random)
	KILLS=$${KILLS:-200} SEED=$${SEED:-$$RANDOM} $(CARGO) test --profile $(PROFILE) --locked --workspace --test main \
		tables_equal_the_source_after_kills -- --nocapture

races: tools oracles ## eight processes and Java commit to one table, for long (COMMITS=500; HEADWATER_TEST_S3: there too)
	COMMITS=$${COMMITS:-500} $(CARGO) test --profile $(PROFILE) --locked --workspace --test races -- --nocapture

fuzz: tools ## random operations on tables against a map in memory, without an end (SEED=random)
	OPERATIONS=0 SEED=$${SEED:-$$RANDOM} $(CARGO) test --profile $(PROFILE) --locked -p headwater-paimon --test model -- --nocapture

bench: tools ## speed and memory against the server's own clients and other engines; target/bench/results.json
	@command -v python3 >/dev/null || tests/services/install.sh python3
	@BENCH_PROFILE=$${BENCH_PROFILE:-$(PROFILE)} python3 tests/bench/run.py

bench-lake: tools ## the lake's engine against Java Paimon and pypaimon-rust alone (ROWS=2000000); target/bench/lake.json
	@command -v python3 >/dev/null || tests/services/install.sh python3
	@BENCH_PROFILE=$${BENCH_PROFILE:-$(PROFILE)} python3 tests/bench/lake.py

bench-peers: tools ## against Debezium, Java Paimon, pypaimon-rust, and Flink CDC where it is; target/bench/peers.json
	@command -v python3 >/dev/null || tests/services/install.sh python3
	@BENCH_PROFILE=$${BENCH_PROFILE:-$(PROFILE)} python3 tests/bench/peers.py

instructions: tools ## instructions of the hot kernels against those that are expected (WORDS=--renew)
	@command -v python3 >/dev/null || tests/services/install.sh python3
	@BENCH_PROFILE=$${BENCH_PROFILE:-$(PROFILE)} python3 tests/bench/instructions.py $(WORDS)

lint: tools ## format, clippy, licences and sources of dependencies
	$(CARGO) fmt --all --check
	$(CARGO) clippy --profile $(PROFILE) --locked --workspace --all-targets -- -D warnings
	@if command -v cargo-deny >/dev/null; then cargo deny --locked check licenses bans sources; \
	else echo "cargo-deny is not installed; licences, bans and sources were not checked (cargo install --locked cargo-deny)"; fi

fmt: ## format the code
	$(CARGO) fmt --all

doc: tools ## the API's documentation (target/doc)
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --profile $(PROFILE) --locked --workspace --no-deps

tools: # a Rust toolchain and a C compiler
	@tests/services/toolchain.sh

oracles: # what the tests compare with: MySQL, Java Paimon, pypaimon
	@tests/oracle/oracle.sh build
	@tests/pypaimon/read.sh build
	@tests/services/mysql.sh tools >/dev/null

clean: ## remove target/ and .cache/
	rm -rf target .cache
