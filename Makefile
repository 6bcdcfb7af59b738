# Everything that can be done here. `make demo` and `make test` need Rust, make and a C compiler, no more.

CARGO ?= cargo
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo build test qa chaos chaos-planted lint deny advisories fmt golden bench e2e e2e-openstack e2e-kube e2e-ssh e2e-api e2e-observability e2e-observability-kube dashboard-pictures

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 18

demo: ## Run the whole job on this machine: a simulated cloud, a Viola in memory (ARGS="--for 20s")
	$(CARGO) run --quiet -- demo $(ARGS)

build: ## Build the release binary
	$(CARGO) build --release

test: ## Run all tests that need nothing but this repository
	$(CARGO) test --workspace

qa: ## Run the tests of the QA checklist, docs/qa.md, and print its lines (Python; LINES="1 2": only these)
	CARGO="$(CARGO)" tests/qa.py $(LINES)

chaos: ## Live through seeded days of faults in virtual time (SEEDS=10000 FIRST=0; SEED=7 KEEP=1,5,9: replay one)
	SEEDS=$(or $(SEEDS),200) FIRST=$(or $(FIRST),0) SEED=$(SEED) KEEP=$(KEEP) \
		$(CARGO) test -p multinic-actors --profile chaos --test chaos -- --nocapture whatever_happens

chaos-planted: ## Plant bugs in the product and see that chaos finds each of them (BUG=MtuIgnored: one, and how)
	BUG=$(BUG) $(CARGO) test -p multinic-actors --profile chaos --test chaos -- --nocapture every_planted_bug

lint: ## Check formatting and lints
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

deny: ## Check licences, bans and sources of all dependencies (cargo-deny: cargo install cargo-deny --locked)
	$(CARGO) deny check licenses bans sources

advisories: ## Check dependencies for known weaknesses (cargo-deny; needs the internet)
	$(CARGO) deny check advisories

fmt: ## Format the code
	$(CARGO) fmt --all

golden: ## Write the generated files anew (CRDs, golden answers, API documents)
	UPDATE_GOLDEN=1 $(CARGO) test -p multinic-operator --no-fail-fast || true
	# Once more: the documents hold answers that were written just now.
	UPDATE_GOLDEN=1 $(CARGO) test -p multinic-operator

bench: ## Measure: a hundred configs against one, what one hung cloud costs the others, what a scrape costs
	$(CARGO) bench --profile e2e --bench scale
	$(CARGO) bench --profile e2e --bench scrape

e2e: e2e-openstack e2e-kube e2e-ssh e2e-api e2e-observability e2e-observability-kube ## Run the tests against real services

e2e-openstack: ## Run the operator against a real Keystone, Neutron and Nova on loopback (installs them: Debian, Python)
	$(CARGO) test --test e2e_openstack --no-run
	tests/env/openstack/e2e.sh $(CARGO) test --test e2e_openstack -- --ignored --nocapture --test-threads=1

e2e-kube: ## Run the operator against a real Kubernetes API on loopback (builds it once: Go, Python, 5-10 min; KUBE_TESTBED_KUBECONFIG=FILE: yours)
	$(CARGO) test --test e2e_kube --no-run
	KUBE_TESTBED_WORKLOAD=1 tests/env/kube/e2e.sh $(CARGO) test --test e2e_kube -- --ignored --nocapture --test-threads=1

e2e-ssh: ## Run the Viola test API over a real sshd with a real kubectl and API server (installs openssh-server on Debian)
	$(CARGO) test --test e2e_ssh --no-run
	tests/env/ssh/e2e.sh tests/env/kube/e2e.sh $(CARGO) test --test e2e_ssh -- --ignored --nocapture

e2e-api: ## Try both APIs against their documents with schemathesis (Python; installed into a cache)
	$(CARGO) build
	tests/env/api/e2e.sh "$${CARGO_TARGET_DIR:-target}/debug/multinic-operator"

e2e-observability: ## Check dashboards and alerts with a real Prometheus (fetched once: Debian's package, unpacked into the cache)
	$(CARGO) test --test e2e_observability --no-run
	tools=$$(tests/env/kube/tools.sh prom) && eval "$$tools" && \
	promtool check rules dashboards/alerts.yaml && \
	promtool test rules dashboards/tests/alerts.yaml && \
	RUST_BACKTRACE=0 $(CARGO) test --test e2e_observability -- --include-ignored --nocapture --test-threads=1

e2e-observability-kube: ## The same for the watch of a real Kubernetes API on loopback (built once, see e2e-kube)
	$(CARGO) test --test e2e_observability --no-run
	tools=$$(tests/env/kube/tools.sh prom) && eval "$$tools" && \
	RUST_BACKTRACE=0 tests/env/kube/e2e.sh $(CARGO) test --test e2e_observability -- --ignored --nocapture watch:: leaders::

dashboard-pictures: ## Draw the dashboards from a run with faults: docs/images (four minutes)
	tools=$$(tests/env/kube/tools.sh prom) && eval "$$tools" && \
	DASHBOARD_PICTURES=$(CURDIR)/docs/images $(CARGO) test --test e2e_observability -- --include-ignored pictures

# --- charts, manifests, image

# What `make static` and `make manifests` make is put here.
DIST ?= dist
# The image: name and tag, also for `make deploy` and `make manifests`.
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
IMG ?= multinic-operator:$(VERSION)
# The namespace and what `make deploy` and `make manifests` give to the chart beside the image (HELM_ARGS="--set …").
NAMESPACE ?= multinic-operator-system
HELM ?= helm
KUBECTL ?= kubectl
HELM_ARGS ?=
STATIC_TARGET ?= $(shell uname -m)-unknown-linux-musl
# Cargo's profile of the static binary; e2e builds in a fraction of the time, for tests.
STATIC_PROFILE ?= release
# The certificates that the image trusts.
CA_BUNDLE ?= /etc/ssl/certs/ca-certificates.crt
# The static binary that goes into the image.
BINARY ?= $(DIST)/static/multinic-operator

.PHONY: charts charts-cluster charts-docs static rootfs image bundle manifests install uninstall deploy undeploy

charts: ## Test the Helm charts and the image's files (needs helm, Python, cc; uses helm3, kubectl, an engine if there)
	tests/charts/run.sh
	tests/charts/image.sh
	tests/charts/bundle.sh

charts-cluster: ## Test the charts on a real API server: that of KUBECONFIG, else one from tests/env/kube
	tests/charts/cluster.sh

charts-docs: ## Write what follows from the charts' values.yaml anew: READMEs and copies
	charts/readme.py

static: ## Build the static binary for the image (musl; needs rustup and a C compiler)
	rustup target add $(STATIC_TARGET)
	CC_$(subst -,_,$(STATIC_TARGET))=$(CC) $(CARGO) build --profile $(STATIC_PROFILE) --target $(STATIC_TARGET) --bin multinic-operator
	mkdir -p $(DIST)/static
	cp "$${CARGO_TARGET_DIR:-target}/$(STATIC_TARGET)/$(STATIC_PROFILE)/multinic-operator" $(DIST)/static/

rootfs: ## Lay out the image's files in dist/rootfs, from the static binary
	deploy/rootfs.sh "$(BINARY)" "$(CA_BUNDLE)" "$(DIST)/rootfs"

image: rootfs ## Build the image IMG with docker, podman or buildah, whichever is there
	deploy/image.sh "$(IMG)" "$(DIST)"

bundle: rootfs ## Pack image, charts, manifests, guide, SBOM and checksums for a cloud without internet: dist/*.tar.gz
	HELM="$(HELM)" NAMESPACE="$(NAMESPACE)" deploy/bundle.sh "$(IMG)" "$(DIST)"

manifests: ## Render the chart without Helm's traces: dist/install.yaml and a kustomize base in dist/kustomize
	HELM="$(HELM)" deploy/manifests.sh "$(IMG)" "$(NAMESPACE)" "$(DIST)" $(HELM_ARGS)

install: ## Install or update the CustomResourceDefinitions in the cluster of kubectl
	$(KUBECTL) apply --server-side --force-conflicts -f charts/multinic-operator/crds

uninstall: ## Remove the CustomResourceDefinitions, and with them ALL objects (CONFIRM=yes)
	@test "$(CONFIRM)" = yes || { echo "this deletes every OpenstackConfig of the cluster; say CONFIRM=yes"; exit 1; }
	$(KUBECTL) delete --ignore-not-found -f charts/multinic-operator/crds

deploy: manifests install ## Deploy the operator without Helm (IMG=registry/multinic-operator:tag)
	$(KUBECTL) apply -f $(DIST)/kustomize/namespace.yaml
	$(KUBECTL) apply -f $(DIST)/kustomize/operator.yaml

undeploy: HELM_ARGS += --set persistence.enabled=false
undeploy: manifests ## Remove what `make deploy` made, but not the namespace, the claim, the CRD and the objects
	$(KUBECTL) delete --ignore-not-found -f $(DIST)/kustomize/operator.yaml
