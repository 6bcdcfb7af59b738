# Everything that can be done here. `make demo` and `make test` need Rust, make and a C compiler, no more.

CARGO ?= cargo
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo build test lint fmt golden bench e2e e2e-openstack e2e-kube

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

demo: ## Run the whole job on this machine: a simulated cloud, a Viola in memory (ARGS="--for 20s")
	$(CARGO) run --quiet -- demo $(ARGS)

build: ## Build the release binary
	$(CARGO) build --release

test: ## Run all tests that need nothing but this repository
	$(CARGO) test --workspace

lint: ## Check formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

fmt: ## Format the code
	$(CARGO) fmt --all

golden: ## Write the generated files anew (CRD, golden answers)
	UPDATE_GOLDEN=1 $(CARGO) test -p multinic-operator

bench: ## Measure: a hundred configs against one, and what one hung cloud costs the others
	$(CARGO) bench --profile e2e --bench scale

e2e: e2e-openstack e2e-kube ## Run the tests against real services

e2e-openstack: ## Run the operator against a real Keystone, Neutron and Nova on loopback (installs them: Debian, Python)
	$(CARGO) test --test e2e_openstack --no-run
	tests/env/openstack/e2e.sh $(CARGO) test --test e2e_openstack -- --ignored --nocapture --test-threads=1

e2e-kube: ## Run the operator against a real Kubernetes API on loopback (builds it once: Go, Python, 5-10 min; KUBE_TESTBED_KUBECONFIG=FILE: yours)
	$(CARGO) test --test e2e_kube --no-run
	tests/env/kube/e2e.sh $(CARGO) test --test e2e_kube -- --ignored --nocapture --test-threads=1
