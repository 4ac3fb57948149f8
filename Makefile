# proofload: the commands of the README.
#   make demo   build, then qualify this machine's disk with solutions/laptop.toml (under 180 s after the build)
#   make test   install what the tests need (as root or with `sudo -n`), then run them all
#   make lint   format and clippy
#   make smoke  what users get: the default features in release, run once
#   make bench  speed against fio, in turn on the same file system
#   make soak   the long versions of the crash tests, and of the error rates of `compare`
#   make miri   the unsafe code of page memory under Miri; installs a nightly toolchain
#   make sync-removal   each sync of the engine, ignored alone, makes the kill test fail
#   make docs   the book of docs/ in target/book (mdBook); every link and anchor is checked
#   make docs-check   links and anchors of the sources alone, without mdBook
#   make dist   static binaries, .deb, .rpm, container image, SBOM and licences in target/dist, then tests of them
#   make deploy-check   the recipes of deploy/
#   make deny   licences, bans, sources and known weaknesses of all dependencies
#   make validate  simulates the published solutions and writes docs/lab/accuracy.md
CARGO ?= cargo

.PHONY: demo build test lint smoke bench soak setup miri sync-removal validate docs docs-check dist deploy-check deny

build:
	$(CARGO) build --release --locked

demo: build
	./target/release/proofload run solutions/laptop.toml

setup:
	@tools/test-setup

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings

smoke: build
	tools/smoke ./target/release/proofload

test: setup
	CARGO=$(CARGO) tools/test
	@tools/test-setup --report

bench:
	tools/bench

soak:
	PROOFLOAD_SEEDS=100000 $(CARGO) test --release -p engine --locked --test it crash:: -- --nocapture
	PROOFLOAD_STEPS=3 $(CARGO) test --release -p engine --locked --test it exhaustive:: -- --nocapture
	PROOFLOAD_KILLS=1000 $(CARGO) test --release -p workload --locked --test kill -- --nocapture
	PROOFLOAD_SEEDS=20000 $(CARGO) test --release -p replication --locked --test it no_fault_breaks_a_promise -- --nocapture
	PROOFLOAD_SEEDS=20000 $(CARGO) test --release -p simulation --locked --test it drill_seeds:: -- --nocapture
	PROOFLOAD_SCENARIOS=200 $(CARGO) test --release -p proofload --all-features --locked --test fleet scenarios:: -- --nocapture
	PROOFLOAD_FUZZ_SECONDS=3600 $(CARGO) test --release -p edb -p review -p proofload --locked \
	  --test it --test commands -- fuzz:: import:: import_counters:: import_fio:: import_group:: damaged_runs:: any_numbers:: --nocapture
	PROOFLOAD_HOURS=24 $(CARGO) test --release -p campaign --locked --test it ageing:: -- --nocapture
	PROOFLOAD_SWEEP=emc-cx3-20c-500:5 $(CARGO) test --release -p capacity --locked --test sweep -- --ignored --nocapture
	PROOFLOAD_FULL_LENGTH=1 $(CARGO) test --release -p proofload --locked --test commands simulated_grades::an_honest -- --nocapture
	PROOFLOAD_MATRIX=1 $(CARGO) test --release -p proofload --locked --test commands claim_matrix:: -- --nocapture
	PROOFLOAD_PAIRS=200 $(CARGO) test --release -p review --locked --test it compare_pairs:: -- --nocapture
	PROOFLOAD_PAIRS=200 $(CARGO) test --release -p proofload --locked --test commands equal_pairs:: -- --include-ignored --nocapture
	PROOFLOAD_CAUSES=20 $(CARGO) test --release -p review --locked --test it explain:: -- --nocapture
	tools/busy-suite

miri:
	rustup toolchain install nightly --profile minimal --component miri,rust-src
	cargo +nightly miri test -p world --lib --locked -- buf:: memory::

sync-removal:
	tools/sync-removal

validate: build
	tools/validate

docs:
	tools/docs

docs-check:
	tools/docs-check

dist:
	tools/dist
	tools/dist-check

deploy-check:
	tools/deploy-check

deny:
	CARGO=$(CARGO) tools/deny
