# What people type. CI runs `.ci/run`, which calls `make test`.

CARGO ?= cargo
RESULTS ?= results

# In CI the build outlives the clone.
ifeq ($(CI),true)
export CARGO_TARGET_DIR ?= $(HOME)/.cache/sweep/target
endif
TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help build demo check check-v papers papers-cpu wheel docs test simulate lint

help:
	@echo 'make demo    build quickly, run `sweep demo` on what this machine has, which prints tables'
	@echo 'make build   build the optimized program, target/release/sweep'
	@echo 'make check   check the 19 steps of the architecture ablation, at tiny size'
	@echo 'make check-v check the 19 steps of the unified series'
	@echo 'make papers  run what reproduces the papers, and write docs/papers.md'
	@echo 'make papers-cpu  the same at the largest sizes for two cores (hours), with evidence in results/evidence/cpu'
	@echo 'make wheel   build the Python wheel (CPU), install it into a fresh environment, and run the demo from there'
	@echo 'make docs    build the documentation as a site, in book/ (mdbook, installed by scripts/test-deps.sh)'
	@echo 'make test    install what the tests need, then run them all'
	@echo 'make simulate  run the store on simulated machines with fresh seeds for SECONDS=60, and search for all planted bugs'
	@echo 'make lint    formatting, clippy and documentation, warnings being errors'

BACKENDS ?= $(shell scripts/backends.sh)

# `make check PROGRAM=target/debug/sweep` uses a program that is built already.
ifdef PROGRAM
build:
	@test -x '$(PROGRAM)' || { echo 'there is no program at $(PROGRAM)' >&2; exit 2; }
else
PROGRAM := $(TARGET)/release/sweep
build:
	$(CARGO) build --release --locked $(BACKENDS)
endif
SWEEP := $(PROGRAM) --results $(RESULTS)

# Built for a first look: without optimization of the engine, and on the CPU without `sweep mcp` and `--remote`.
demo: BACKENDS = $(shell scripts/backends.sh cpu,ui)
demo:
	$(CARGO) build --profile demo --locked $(BACKENDS)
	$(TARGET)/demo/sweep --results $(RESULTS) demo
	@echo 'this was $(TARGET)/demo/sweep, which is built quickly and runs slowly; `make build` builds $(PROGRAM)'

check: build
	$(SWEEP) run recipes/check.yaml --strict
	@echo 'all 19 steps of the architecture ablation passed'

check-v: build
	$(SWEEP) run recipes/check-v.yaml --strict
	@echo 'all 19 steps of the unified series passed'

papers: build
	$(SWEEP) run sweeps/paper.yaml --backend cpu
	mkdir -p papers/verdicts
	for report in $(RESULTS)/reports/paper/*/; do \
		if [ -f "$$report/claims.json" ]; then cp "$$report/claims.json" "papers/verdicts/$$(basename "$$report").json"; fi; \
	done
	UPDATE_DOCS=1 $(CARGO) test --locked --no-default-features --test papers

papers-cpu: build
	SWEEP=$(PROGRAM) RESULTS=$(RESULTS) scripts/papers-cpu.sh
	UPDATE_DOCS=1 $(CARGO) test --locked --no-default-features --test papers

wheel:
	scripts/wheel.sh

docs:
	@test -x $(HOME)/.cache/sweep/mdbook/bin/mdbook || scripts/test-deps.sh
	$(HOME)/.cache/sweep/mdbook/bin/mdbook build

test:
	scripts/test-deps.sh
	scripts/run-tests.sh

SECONDS ?= 60
simulate:
	SWEEP_SIMULATE_SECONDS=$(SECONDS) SWEEP_SIMULATE_BUGS=all CARGO='$(CARGO)' scripts/simulate.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p sweep -p sweep-engine --no-default-features --all-targets -- -D warnings
	$(CARGO) clippy --locked -p sweep-plan --features simulate --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --workspace --no-deps
