# Busbar's commands; `make` alone lists them.

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
TESTFLAGS ?=

# Each becomes bin/<last part of its path>.
PROGRAMS := services/busbar/cmd/busbar services/edge/cmd/edge \
	services/text/cmd/text services/github/cmd/github services/planning/cmd/planning services/model/cmd/model services/prompt/cmd/prompt services/resource/cmd/resource services/audit/cmd/audit services/batch/cmd/batch services/workspace/cmd/workspace \
	examples/hello test/conformance/cmd/conformance-service
GO_ROOMS := examples gen libs scripts services test tools

BUILD = CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w $$(scripts/version -ldflags)"
TOOLS := .tmp/bin/.stamp
BUF := .tmp/bin/buf
# The modules outside go.work: what they need must not reach the product.
APART := tools test/bench/peers
# What asks the module proxy is tried again when the network fails.
PATIENTLY := $(CURDIR)/scripts/patiently

.PHONY: help
help: ## List these commands
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: ## Build, then run a whole Busbar here (ARGS="…" for its flags)
	@mkdir -p bin
	@$(BUILD) -o bin/ ./services/busbar/cmd/busbar
	@exec bin/busbar dev $(ARGS)

.PHONY: build
build: ## Build the programs into bin/
	@mkdir -p bin
	@$(BUILD) -o bin/ $(PROGRAMS:%=./%)
	@ls bin

.PHONY: test
test: ## Test every module, with the race detector where there is a C compiler
	@TESTFLAGS="$(TESTFLAGS)" scripts/test

.PHONY: eval
eval: ## Print how good the services' answers are on labelled texts and tasks
	@go test -count=1 -v -run '^TestEval' ./test/eval/... ./services/edge/search

.PHONY: bench
bench: ## Measure Busbar beside the bare floor and other servers, as processes (ARGS="--only core"; --help)
	@mkdir -p .tmp
	@go build -o .tmp/bench ./test/bench
	@exec .tmp/bench $(ARGS)

.PHONY: bench-smoke
bench-smoke: ## The same as short as it can be: fails on errors, never on a figure
	@$(MAKE) --no-print-directory bench ARGS=--smoke

.PHONY: bench-micro
bench-micro: ## Run the benchmarks of Go (BENCH=<regexp> for some)
	@go test -run '^$$' -bench '$(BENCH)' -benchmem ./libs/... ./test/bench/micro

.PHONY: path
path: ## Print which files and functions one tools/call passes
	@module=github.com/busbar-mcp/busbar; \
	go run -trimpath -cover -covermode=atomic -coverpkg=$$module/libs/...,$$module/services/...,$$module/test/path ./test/path 2> >(grep -v GOCOVERDIR >&2)

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (30s)
	@scripts/fuzz $(FUZZTIME)

.PHONY: soak
soak: build ## Mixed calls at all doors for DURATION (1h), while processes are killed
	@go test -c -o .tmp/soak ./test/soak
	@cd test/soak && exec ../../.tmp/soak -test.run '^TestSoak$$' -test.timeout 0 -soak.for $(DURATION) $(ARGS)

.PHONY: release
release: ## Build archives, packages and checksums of this commit into .tmp/release (ARGS="-only linux/amd64")
	@go run scripts/release/*.go $(ARGS)

.PHONY: site
site: ## Make a site of the documents, with search, in .tmp/site
	@go run ./scripts/site $(ARGS)

.PHONY: fleet
fleet: ## Start the fleet of docker-compose.yml as processes, kill parts of it, and see that calls go through
	@test/fleet/smoke

.PHONY: compose
compose: ## Try docker-compose.yml on a container engine, which it brings if there is none; needs root then
	@test/compose/run || { status=$$?; [ $$status = 77 ] && [ -n "$${MAY_LACK_ENGINE-}" ] || exit $$status; }

.PHONY: sight
sight: ## Ask a real Prometheus all that the dashboards and alerts ask, of a fleet under calls
	@go run ./test/sight

.PHONY: faults
faults: ## Take parts of a fleet away, and compare what was told, what ran and what was recorded (ARGS="--seed 7")
	@go run ./test/faults h1 h2 h3 h4 network rolling releases disks twice clock h7 h10 $(ARGS)

.PHONY: faults-smoke
faults-smoke: ## The same in two minutes
	@go run ./test/faults smoke $(ARGS)

.PHONY: faults-proof
faults-proof: ## Plant bugs that it has to find
	@go run ./test/faults proof $(ARGS)

.PHONY: faults-full
faults-full: ## All of it at full length, and the proof
	@go run ./test/faults all --full $(ARGS)

.PHONY: clients
clients: build ## Try the published MCP clients against a running Busbar; needs npm
	@test/clients/run

.PHONY: conformance
conformance: ## Run the published MCP conformance suite; needs npm
	@test/conformance/run

.PHONY: lint
lint: lint-format lint-house lint-modules lint-vet lint-staticcheck lint-licences lint-vulnerabilities lint-proto lint-gen ## All checks but the tests

.PHONY: lint-format
lint-format: ## Go code is formatted
	@echo "== gofmt"
	@files=$$(gofmt -l $(GO_ROOMS)); \
	if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; exit 1; fi

.PHONY: lint-house
lint-house: ## The rules of the house hold: who imports whom, names, sizes, links
	@echo "== house rules"
	@go test -count=1 ./test/house/...

.PHONY: lint-modules
lint-modules: $(TOOLS) ## go.mod files are in step, and each module builds without go.work
	@echo "== each module by itself"
	@for dir in $$(go list -m -f '{{.Dir}}'); do \
		(cd $$dir && GOWORK=off $(PATIENTLY) bash -euc 'go build -buildvcs=false -o /dev/null ./...; go mod tidy -diff'); done
	@for dir in $(APART); do \
		(cd $$dir && GOWORK=off $(PATIENTLY) bash -euc 'go vet ./...; go mod tidy -diff'); done

.PHONY: lint-vet
lint-vet: ## go vet
	@echo "== go vet"
	@go vet work

.PHONY: lint-staticcheck
lint-staticcheck: $(TOOLS) ## staticcheck
	@echo "== staticcheck"
	@.tmp/bin/staticcheck work

.PHONY: lint-helm
lint-helm: ## The Helm chart is what Kubernetes takes, and says what docker-compose.yml does
	@echo "== Helm chart"
	@cd tools && GOWORK=off $(PATIENTLY) go vet ./chart && GOWORK=off go test -count=1 ./chart

.PHONY: lint-licences
lint-licences: ## What is linked may be
	@echo "== licences"
	@go run scripts/licences/main.go $(PROGRAMS:%=./%)

.PHONY: lint-vulnerabilities
lint-vulnerabilities: $(TOOLS) ## No known vulnerability in what the programs call; needs vuln.go.dev
	@echo "== vulnerabilities"
	@scripts/vulnerabilities

.PHONY: lint-proto
lint-proto: $(TOOLS) ## Contracts are well formed and break nobody
	@echo "== buf lint"
	@$(BUF) lint
	@$(BUF) format --diff --exit-code
	@echo "== buf breaking"
	@scripts/breaking $(BUF)

.PHONY: lint-gen
lint-gen: $(TOOLS) ## Generated code is that of the contracts
	@echo "== generated code"
	@dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	$(BUF) generate --output "$$dir"; \
	diff -r "$$dir/gen/busbar" gen/busbar || { echo "run make gen"; exit 1; }

.PHONY: gen
gen: $(TOOLS) ## Generate Go code from proto/
	@$(BUF) generate

.PHONY: tools
tools: $(TOOLS) ## Build the pinned tools into .tmp/bin

$(TOOLS): tools/go.mod tools/go.sum
	@echo "building tools; the first time takes minutes"
	@mkdir -p .tmp/bin
	@cd tools && GOWORK=off $(PATIENTLY) go build -o ../.tmp/bin/ tool
	@touch $@

.PHONY: tidy
tidy: ## Bring go.mod and go.sum files in step
	@go work sync
	@for dir in $$(go list -m -f '{{.Dir}}') $(APART); do (cd $$dir && GOWORK=off go mod tidy); done

.PHONY: clean
clean: ## Remove what was built, tools too
	@rm -rf bin .tmp
