# What people type. CI runs `.ci/run`, which calls `make test`.

CARGO ?= cargo
RESULTS ?= results

# In CI the build outlives the clone.
ifeq ($(CI),true)
export CARGO_TARGET_DIR ?= $(HOME)/.cache/sweep/target
endif
TARGET := $(or $(CARGO_TARGET_DIR),target)
SWEEP := $(TARGET)/release/sweep --results $(RESULTS)

.PHONY: help build demo check papers wheel test lint

help:
	@echo 'make demo    build, run `sweep demo` on what this machine has, which prints tables'
	@echo 'make check   check the 19 steps of the architecture ablation, at tiny size'
	@echo 'make papers  run what reproduces the papers, and write docs/papers.md'
	@echo 'make wheel   build the Python wheel (CPU), install it into a fresh environment, and run the demo from there'
	@echo 'make test    install what the tests need, then run them all'
	@echo 'make lint    formatting, clippy and documentation, warnings being errors'

BACKENDS ?= $(shell scripts/backends.sh)

build:
	$(CARGO) build --release --locked $(BACKENDS)

demo: build
	$(SWEEP) demo

check: build
	$(SWEEP) run recipes/check.yaml --strict

papers: build
	$(SWEEP) run sweeps/paper.yaml --backend cpu
	mkdir -p papers/verdicts
	for report in $(RESULTS)/reports/paper/*/; do \
		if [ -f "$$report/claims.json" ]; then cp "$$report/claims.json" "papers/verdicts/$$(basename "$$report").json"; fi; \
	done
	UPDATE_DOCS=1 $(CARGO) test --locked --no-default-features --test papers

wheel:
	scripts/wheel.sh

test:
	scripts/test-deps.sh
	scripts/run-tests.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked --no-default-features --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --workspace --no-deps
