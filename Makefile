# Busbar's commands. `make` alone lists them: a target with ##, under its heading with ##@.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Settings, for example: make bench-micro BENCH=Call
ARGS ?=
BENCH ?= .
FUZZTIME ?= 30s
DURATION ?= 1h
FAULTS ?= h1 h2 h3 h4 network rolling releases disks twice clock h7 h10
TESTFLAGS ?=
TAG ?=
PUBLISH ?=

# Each becomes bin/<last part of its path>.
PROGRAMS := services/busbar/cmd/busbar services/edge/cmd/edge \
	services/text/cmd/text services/github/cmd/github services/planning/cmd/planning services/model/cmd/model services/prompt/cmd/prompt services/resource/cmd/resource services/audit/cmd/audit services/batch/cmd/batch services/workspace/cmd/workspace \
	examples/hello test/conformance/cmd/conformance-service
GO_ROOMS := examples gen libs scripts services test tools

BUILD = CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w $$(scripts/version -ldflags)"
TOOLS := .tmp/bin/.stamp
BUF := .tmp/bin/buf
# The modules outside go.work: what they require must not reach the product.
APART := tools test/bench/peers
# Tries a command again that asks the module proxy, if the network fails.
PATIENTLY := $(CURDIR)/scripts/patiently

.PHONY: help
help:
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "%s%s\n", blank, substr($$0, 5); blank = "\n" } \
		/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

##@ Daily

.PHONY: run
run: ## Build and run a whole Busbar on this machine (ARGS="…" for its flags)
	@mkdir -p bin
	@$(BUILD) -o bin/ ./services/busbar/cmd/busbar
	@exec bin/busbar dev $(ARGS)

.PHONY: build
build: ## Build the programs into bin/
	@mkdir -p bin
	@$(BUILD) -o bin/ $(PROGRAMS:%=./%)
	@ls bin

.PHONY: test
test: ## Run all tests, with the race detector if there is a C compiler (TESTFLAGS="…")
	@TESTFLAGS="$(TESTFLAGS)" scripts/test

.PHONY: lint
lint: lint-go lint-house lint-modules lint-linked lint-proto ## Run all checks but the tests (in parts: lint-go lint-house lint-modules lint-linked lint-proto)

# Format, go vet, staticcheck. All three run even if the first finds something.
.PHONY: lint-go
lint-go: $(TOOLS)
	@failed=0; \
	echo "== gofmt"; \
	files=$$(gofmt -l $(GO_ROOMS)) || failed=1; \
	if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; failed=1; fi; \
	echo "== go vet"; \
	go vet work || failed=1; \
	echo "== staticcheck"; \
	.tmp/bin/staticcheck work || failed=1; \
	exit $$failed

# House rules: imports, names, sizes, links.
.PHONY: lint-house
lint-house:
	@echo "== house rules"
	@go test -count=1 ./test/house/...

# The go.mod files agree, and each module builds without go.work.
.PHONY: lint-modules
lint-modules: $(TOOLS)
	@echo "== each module by itself"
	@for dir in $$(go list -m -f '{{.Dir}}'); do \
		(cd $$dir && GOWORK=off $(PATIENTLY) bash -euc 'go build -buildvcs=false -o /dev/null ./...; go mod tidy -diff'); done
	@for dir in $(APART); do \
		(cd $$dir && GOWORK=off $(PATIENTLY) bash -euc 'go vet ./...; go mod tidy -diff'); done

# Licences of everything that is linked, and known vulnerabilities in it; the latter needs vuln.go.dev.
.PHONY: lint-linked
lint-linked: $(TOOLS)
	@failed=0; \
	echo "== licences"; \
	go run scripts/licences/main.go $(PROGRAMS:%=./%) || failed=1; \
	echo "== vulnerabilities"; \
	scripts/vulnerabilities || failed=1; \
	exit $$failed

# The contracts are well formed, break no peer, and match the generated code.
.PHONY: lint-proto
lint-proto: $(TOOLS)
	@echo "== buf lint"
	@$(BUF) lint
	@$(BUF) format --diff --exit-code
	@echo "== buf breaking"
	@scripts/breaking $(BUF)
	@echo "== generated code"
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(BUF) generate --output "$$dir"; \
	diff -r "$$dir/gen/busbar" gen/busbar || { echo "run make gen"; exit 1; }

.PHONY: gen
gen: $(TOOLS) ## Generate the Go code of proto/, and the pages of docs/reference that follow from the code
	@$(BUF) generate
	@go run ./scripts/reference

$(TOOLS): tools/go.mod tools/go.sum
	@echo "building tools; the first time takes minutes"
	@mkdir -p .tmp/bin
	@cd tools && export GOWORK=off && $(PATIENTLY) go build -o ../.tmp/bin/ $$(go list tool | grep -v /d2)
	@touch $@

.PHONY: pictures
pictures: ## Draw docs/pictures as SVG, for light and dark pages
	@scripts/pictures/draw

.PHONY: tidy
tidy: ## Bring all go.mod and go.sum files in step, after adding an import
	@go work sync
	@for dir in $$(go list -m -f '{{.Dir}}') $(APART); do (cd $$dir && GOWORK=off go mod tidy); done

.PHONY: clean
clean: ## Remove everything that was built, tools included
	@rm -rf bin .tmp

##@ Release

.PHONY: release
release: ## Build a release into .tmp/release; TAG=v1.2.3 tags it in a clone, PUBLISH=1 pushes it (ARGS="-only linux/amd64")
	@go run ./scripts/release $(if $(TAG),-tag $(TAG)) $(if $(filter 1,$(PUBLISH)),-publish) $(ARGS)

.PHONY: release-check
release-check: ## Publish a release to a repository on this machine, and use it as a stranger does
	@BUSBAR_TEST_RELEASE=1 go test -buildvcs=false -count=1 -timeout 20m -run '^TestRelease$$' ./test/docs

.PHONY: site
site: ## Build a site of the documents, with search, into .tmp/site
	@go run ./scripts/site $(ARGS)

.PHONY: lint-helm
lint-helm: ## Check the Helm chart against Kubernetes and docker-compose.yml
	@echo "== Helm chart"
	@cd tools && GOWORK=off go test -count=1 ./chart

##@ Evidence

.PHONY: eval
eval: ## Score the answers of the services on labelled texts and tasks
	@go test -count=1 -v -run '^TestEval' ./test/eval/... ./services/edge/search

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: path
path: ## Print the files and functions that one tool call passes
	@module=github.com/busbar-mcp/busbar; \
	go run -trimpath -cover -covermode=atomic -coverpkg=$$module/libs/...,$$module/services/...,$$module/test/path ./test/path 2> >(grep -v GOCOVERDIR >&2)

.PHONY: bench
bench: ## Measure Busbar, the bare floor and other servers as processes (ARGS="--only core", --help)
	@mkdir -p .tmp
	@go build -o .tmp/bench ./test/bench
	@exec .tmp/bench $(ARGS)

.PHONY: bench-smoke
bench-smoke: ## The same, as short as possible: fails on errors, never on a figure
	@$(MAKE) --no-print-directory bench ARGS=--smoke

.PHONY: bench-micro
bench-micro: ## Run the Go benchmarks (BENCH=<regexp> for some)
	@go test -run '^$$' -bench '$(BENCH)' -benchmem ./libs/... ./test/bench/micro

.PHONY: clients
clients: build ## Run published MCP clients against Busbar; needs npm and chromium
	@test/clients/run

.PHONY: conformance
conformance: ## Run the official MCP conformance suite; needs npm
	@test/conformance/run

.PHONY: fleet
fleet: ## Run the fleet of docker-compose.yml as processes, kill parts, and check that calls succeed
	@test/fleet/smoke

.PHONY: compose
compose: ## Run docker-compose.yml on a container engine; brings one on Debian as root
	@test/compose/run || { status=$$?; [ $$status = 77 ] && [ -n "$${MAY_LACK_ENGINE-}" ] || exit $$status; }

.PHONY: sight
sight: ## Ask a real Prometheus every query of the dashboards and alerts; needs prometheus
	@go run ./test/sight

.PHONY: soak
soak: ## Kill processes of a fleet under mixed calls for DURATION (1h)
	@go run ./test/faults soak --workers 8 --for $(DURATION) $(ARGS)

.PHONY: faults
faults: ## Break parts of a fleet; compare what was answered, ran and was recorded (FAULTS=proof plants bugs to find)
	@go run ./test/faults $(FAULTS) $(ARGS)

.PHONY: faults-smoke
faults-smoke: ## The same in two minutes
	@go run ./test/faults smoke $(ARGS)

.PHONY: faults-full
faults-full: ## The same at full length, with the planted bugs
	@go run ./test/faults all --full $(ARGS)
