# `make help` lists the targets. Every one takes PYTHON=…: the interpreter to use in place of our own .venv,
# for a machine that already has torch, xdsl and the rest (PYTHON=python3 make test-gpu).

.DEFAULT_GOAL := help
SHELL := /bin/bash
BASE_PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.installed

# Bytecode of the tests is kept also where the environment would rather not: making it again takes seconds a worker.
KEEP_BYTECODE := PYTHONDONTWRITEBYTECODE=

# Nothing is installed into an interpreter that was given: it sees the package through the links in build/links/.
ifdef PYTHON
READY := links
# The safe path keeps the current directory out: its cuesta/ has no dialects/ in it, and would hide the one of the links.
RUN := PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/links$(if $(PYTHONPATH),:$(PYTHONPATH)) $(PYTHON)
PYTEST := $(KEEP_BYTECODE) $(RUN) -m pytest -o pythonpath=
else
READY := $(STAMP)
RUN := $(VENV)/bin/python
PYTEST := $(KEEP_BYTECODE) $(RUN) -m pytest
endif

# Two workers: the tests are many and small, and two cores is what we can count on.
WORKERS ?= 2
# Each begins with its share of the files, in order, and helps the others when it is done.
IN_PARALLEL = -n $(WORKERS) --dist worksteal
PYTEST_ARGS ?=

##@ For everyone
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## watch one model walk down the levels
	$(RUN) examples/demo.py

docs: $(READY) ## the manual as a site, in build/docs/
	$(RUN) -m manual

notebook: $(READY) ## a model walks down the slope, in a browser (ARGS="--headless")
	$(RUN) -m marimo run $(ARGS) examples/slope.py

##@ Tests
test: $(READY) ## the test suite, on the CPU: a sixth of what takes long, in turns (TURN=all: all of it)
	$(PYTEST) $(IN_PARALLEL) -m "not gpu and not multi_gpu and not thorough" $(PYTEST_ARGS)

test-fast: $(READY) ## what to run between edits: nothing that takes long, a few parameters of each test
	TURN=none $(PYTEST) $(IN_PARALLEL) -m "not gpu and not multi_gpu and not slow and not thorough" $(PYTEST_ARGS)

test-thorough: $(READY) ## what the suite leaves out: other models, other parameters, what is long and whose turn it is not
	$(PYTEST) $(IN_PARALLEL) -m "not gpu and not multi_gpu and thorough" $(PYTEST_ARGS)

test-gpu: $(READY) ## the tests that need a CUDA device
	$(PYTEST) -m gpu $(PYTEST_ARGS)

test-versions: $(READY) links ## the fast tests with each version of PyTorch that can be installed (VERSIONS="2.12 2.14")
	$(RUN) scripts/test_versions.py $(VERSIONS) --pytest-args "$(PYTEST_ARGS)" $(ARGS)

test-browser: $(READY) browser ## the page of `cuesta explain` in a headless Chromium; pictures in build/screenshots/
	$(PYTEST) -m browser tests/e2e/test_page_in_a_browser.py $(PYTEST_ARGS)

test-multi-gpu: $(READY) ## the tests that need two or four CUDA devices, over NCCL
	$(PYTEST) -m multi_gpu $(PYTEST_ARGS)

conformance: $(READY) ## every sample of PyTorch's operator database, in nine dtypes: an hour; table in build/
	$(PYTEST) $(IN_PARALLEL) tests/conformance --conformance=all $(PYTEST_ARGS)

core-set: $(READY) ## the fraction of PyTorch's core operators that is generated, and what is not: ten minutes (ARGS="gather")
	$(RUN) -m tests.conformance.core_set $(ARGS)

fuzz: $(READY) ## look for a program on which compiled code is wrong (EXAMPLES=1000)
	FUZZ_EXAMPLES=$(or $(EXAMPLES),1000) $(PYTEST) -m slow tests/fuzz $(PYTEST_ARGS)

prove: $(READY) ## prove every law of the algebra, ten million pairs of operands each
	PROVE=whole $(PYTEST) $(IN_PARALLEL) -m slow tests/transforms/algebra $(PYTEST_ARGS)

reload: $(READY) ## go on from every text of the dumps of the demo's models: the kernels are the same bytes
	RELOAD=whole $(PYTEST) $(IN_PARALLEL) tests/e2e/test_reload.py $(PYTEST_ARGS)

fuzz-texts: $(READY) ## look for an edit of a text that does harm (RUNS=3000, SEED=1)
	$(RUN) -m tests.fuzz.texts.search --runs $(or $(RUNS),3000) --seed $(or $(SEED),1) --workers $(WORKERS)

fuzz-programs: $(READY) ## look for a program that is not as in eager: mutation, aliases, bits, subclasses, sizes (PROGRAMS=2000, SEED=0)
	$(RUN) -m tests.fuzz.search --programs $(or $(PROGRAMS),2000) --seed $(or $(SEED),0) --workers $(WORKERS) $(ARGS)

fuzz-machines: $(READY) ## look for a GPU on which a schedule is wrong: random machines, Triton's interpreter (PROGRAMS=500, SEED=0)
	$(RUN) -m tests.fuzz.machines --programs $(or $(PROGRAMS),500) --seed $(or $(SEED),0) --workers $(WORKERS)

fuzz-ones: $(READY) ## look for kernels that depend on dimensions of one element (SEEDS=0-400)
	$(RUN) -m tests.fuzz.ones --seeds $(or $(SEEDS),0-400)

lint: $(READY) ## style (ruff)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(READY) links ## types (pyright, strict in the compiler folders)
	$(RUN) scripts/check_types.py

##@ Measurements
bench: $(READY) ## run time, compile time and memory on the CPU, side by side with eager and TorchInductor (ARGS="--help")
	$(RUN) -m benchmarks $(ARGS)

bench-against: $(READY) ## cold training steps here and in another checkout, in turns (ARGS="../before --models bert")
	$(RUN) -m benchmarks.against $(ARGS)

bench-bisect: $(READY) ## seeded faults: how many `cuesta bisect` names, how fast, and how small it makes their programs
	$(RUN) -m benchmarks.bisecting $(ARGS)

bench-validate: $(READY) ## what options={"validate": "kernels"} costs real models (ARGS="--models bert")
	$(RUN) -m benchmarks.validating $(ARGS)

bench-growth: $(READY) ## how compile time grows with the size of the graph
	$(RUN) -m benchmarks.compile_time_growth $(ARGS)

bench-gpu: $(READY) ## kernels, launches and models on a CUDA device, side by side with eager and TorchInductor
	$(RUN) -m benchmarks.gpu $(ARGS)

bench-optimizers: $(READY) ## a step of AdamW over many tensors, beside eager's forms of it and TorchInductor (ARGS="--device cuda")
	$(RUN) -m benchmarks.optimizers $(ARGS)

bench-overhead: $(READY) ## what is there for who looks on, while nobody does: its share of a call and of a compilation
	$(RUN) -m benchmarks.overhead $(ARGS)

bench-calls: $(READY) ## a call of a small graph, beside eager, Dynamo's floor and without our short cuts (ARGS="--sides eager floor before ours inductor", "--parts")
	$(RUN) -m benchmarks.calls $(ARGS)

bench-page: $(READY) browser ## the page of `cuesta explain` of a model of 12 layers: its size, and how long it takes to open and to follow a value
	$(RUN) -m benchmarks.page $(ARGS)

bench-explain-again: $(READY) ## `cuesta explain` of a model that was explained before, besides torch's import (ARGS="--models bert --layers 12")
	$(RUN) -m benchmarks.explain_again $(ARGS)

bench-packages: $(READY) ## how long packages take to load, how large they are, what a call costs (ARGS="--device cuda")
	$(RUN) -m benchmarks.packages $(ARGS)

bench-ddp: $(READY) ## a training step under DistributedDataParallel, one process per CUDA device (ARGS="--devices cpu" without one)
	$(RUN) -m benchmarks.ddp $(ARGS)

bench-multi-gpu: $(READY) ## training steps with DDP, FSDP2, TP and 2-D on several devices, beside eager and TorchInductor
	$(RUN) -m benchmarks.multi_gpu $(ARGS)

bench-search: $(READY) ## random programs on the CPU: which are slower than eager or TorchInductor (ARGS="--seeds 0-39 --skip-inductor")
	$(RUN) -m benchmarks.search --device cpu $(ARGS)

bench-gpu-search: $(READY) ## random programs on a CUDA device: which are slower than eager, TorchInductor or memory (ARGS="--seeds 0-39")
	$(RUN) -m benchmarks.search $(ARGS)

bench-problems: $(READY) ## problems of a folder (Model, get_inputs, get_init_inputs) beside eager and TorchInductor (ARGS="FOLDER --seconds 240")
	$(RUN) -m benchmarks.problems $(ARGS)

bench-gpu-schedules: $(READY) ## random nests on a CUDA device: how near the best of their tilings the chosen ones are (ARGS="--seeds 0-39")
	$(RUN) -m benchmarks.gpu_schedules $(ARGS)

search-predicted: $(READY) ## random nests that are predicted to be slow on a GPU, which need not be there (ARGS="--seeds 0-39 --least 2")
	$(RUN) -m benchmarks.predicted_cliffs $(ARGS)

bench-constants: $(READY) ## what the constants of schedules and fusion are worth beside their neighbours (ARGS="--help")
	$(RUN) -m benchmarks.constants $(ARGS)

bench-convolutions: $(READY) ## what channels first costs the library, for each kind of convolution (ARGS="--device cuda")
	$(RUN) -m benchmarks.convolutions $(ARGS)

bench-attention: $(READY) ## attention in plain PyTorch beside TorchInductor and flex_attention, on a CUDA device (ARGS="--backward")
	$(RUN) -m benchmarks.attention $(ARGS)

bench-vocabulary: $(READY) ## the loss of a product with a vocabulary and its gradients beside TorchInductor, on a CUDA device
	$(RUN) -m benchmarks.vocabulary $(ARGS)

bench-products: $(READY) ## products of matrices beside cuBLAS, and with what is around them beside TorchInductor, on a CUDA device (ARGS="--fused")
	$(RUN) -m benchmarks.products $(ARGS)

bench-convolved: $(READY) ## convolutions whose windows overlap, with what is around them, beside the library and TorchInductor, on a CUDA device
	$(RUN) -m benchmarks.convolved $(ARGS)

bench-decoding: $(READY) ## a decoder that generates token by token on the CPU, with weights of f32, int8 and int4, beside TorchInductor
	$(RUN) -m benchmarks.decoding $(ARGS)

bench-explain: $(READY) ## what explain counts of kernels beside the counters of a CUDA device, by ncu (ARGS="--only softmax")
	$(RUN) -m benchmarks.explain_counts $(ARGS)

##@ Upkeep
links: ## build/links/: the import package as a tree of links, for tools that follow no import hook
	@$(or $(PYTHON),$(BASE_PYTHON)) scripts/links.py

browser: ## fetch a headless Chromium into build/browser/, once
	@$(or $(PYTHON),$(BASE_PYTHON)) scripts/fetch_browser.py

venv: $(STAMP) ## our own virtual environment, with the versions in constraints.txt

clean: ## remove what the other targets made
	rm -rf $(VENV) build/links build dist *.egg-info .pytest_cache .ruff_cache

$(STAMP): pyproject.toml setup.py constraints.txt
	$(BASE_PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "cuesta needs Python 3.11 or newer")'
	$(BASE_PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt $$($(VENV)/bin/python scripts/torch_index.py) -e '.[dev]'
	@touch $@

# Every target that `make help` lists.
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*## .*/\1/p' $(firstword $(MAKEFILE_LIST)))
