# make trace    run lecture.py on this machine, write rendered/<machine>/trace.yaml, render its pages
# make test     run the tests
# make doctor   what this machine is, and what would go wrong on it
# make diff     A=cpu B=nvidia-h200, or paths: what differs between two traces, and whether it matters
# make compare  all traces side by side; make pairs writes that and each against the first into rendered/diff
# make fleet    the lecture on all machines of machines.yaml, at once; their traces, pages and what differs
# make emulate  the whole lecture and the tests that need a GPU, on an emulated CUDA device, into .emulated/
# make site     the pages, for a host of static files: URL=https://example.org/lecture/
# make serve    the lecture's pages in a browser, made again at each save
# make api      reference pages from the docstrings, into api/
# Each sets up .venv first, if it is missing or stale. With a Python that already has what is needed,
# and no network: make trace PYTHON=python3 VENV=none

PYTHON ?= python3
VENV ?= .venv
DEVICE ?=
PASSES ?= 3
LECTURE ?= lecture.py
MACHINES ?= machines.yaml
ARGS ?=
URL ?=
A ?= cpu
B ?= nvidia-h200
# By folder, so that cpu comes before cpu-one-thread and is what others are compared with.
TRACES = $(addsuffix /trace.yaml,$(sort $(patsubst %/trace.yaml,%,$(wildcard rendered/*/trace.yaml))))

ifeq ($(VENV),none)
RUN := $(PYTHON)
READY :=
else
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# A venv whose Python is gone is stale.
$(shell test ! -e $(READY) || $(RUN) -c "" 2>/dev/null || rm -f $(READY))
endif

# On a GPU what fails costs no more than itself: the sections after it run.
KEEP_GOING = $(if $(filter cpu,$(DEVICE)),,$(if $(shell nvidia-smi -L 2>/dev/null),--keep-going))

.PHONY: trace fleet doctor test render diff compare pairs site serve api check bench inert mutate fuzz emulate clean

trace: $(READY)
	$(RUN) -m trace_tools trace $(LECTURE) --passes $(PASSES) $(if $(DEVICE),--device $(DEVICE)) $(KEEP_GOING) $(ARGS)
	@$(MAKE) --no-print-directory pairs

fleet: $(READY)
	$(RUN) -m trace_tools fleet $(MACHINES) $(LECTURE) --passes $(PASSES) $(ARGS)

doctor: $(READY)
	$(RUN) -m trace_tools doctor $(LECTURE) $(if $(DEVICE),--device $(DEVICE)) $(ARGS)

# One thread each: two workers whose threads wait for each other take many times as long. Each begins with a half of the
# tests, so that what a module traces once is traced by one of them. Bytecode is kept whatever the environment says:
# tests start a hundred processes, and each would compile the tools anew.
test: $(READY) $(if $(READY),$(VENV)/.ready-serve $(VENV)/.ready-docs)
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
		$(RUN) -m pytest $$($(RUN) -c "import xdist" 2>/dev/null && printf %s "-n 2 --dist worksteal") $(ARGS)

render: pairs
	$(RUN) -m trace_tools render $(TRACES)

diff: $(READY)
	$(RUN) -m trace_tools diff $(foreach side,$(A) $(B),$(if $(findstring /,$(side)),,rendered/)$(side)) $(ARGS)

compare: $(READY)
	$(RUN) -m trace_tools compare $(TRACES) $(ARGS)

pairs: $(READY)
	$(if $(word 2,$(TRACES)),$(RUN) -m trace_tools compare $(TRACES) -o rendered/diff,@:)
	@$(if $(word 2,$(TRACES)),grep -q diff/index rendered/index.html || $(RUN) -m trace_tools render $(TRACES),:)

site: $(READY)
	$(RUN) -m trace_tools site rendered --url "$(URL)" $(ARGS)

serve: $(READY) $(if $(READY),$(VENV)/.ready-serve)
	$(RUN) -m trace_tools serve $(LECTURE) $(if $(DEVICE),--device $(DEVICE)) $(ARGS)

api: $(READY) $(if $(READY),$(VENV)/.ready-docs)
	$(RUN) -m tests.checks.api api

check: $(READY) $(if $(READY),$(VENV)/.ready-serve)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(if $(TRACES),$(RUN) -m trace_tools render --check $(TRACES),@:)

bench: $(READY) $(if $(READY),$(VENV)/.ready-bench)
	$(RUN) -m tests.checks.bench $(ARGS)

inert: $(READY)
	$(RUN) -m tests.checks.inert $(ARGS)

mutate: $(READY)
	$(RUN) -m tests.checks.mutate $(ARGS)

fuzz: $(READY)
	$(RUN) -m tests.checks.fuzz $(ARGS)

emulate: $(READY)
	$(RUN) -m tests.emulated_cuda.emulate $(ARGS)

clean:
	rm -rf .venv .serve .emulated site api .mypy_cache .ruff_cache .pytest_cache .hypothesis

# What a group of dependencies in pyproject.toml asks for, torch apart.
requirements = $(RUN) -c 'import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	groups = {"run": project["dependencies"], **project["optional-dependencies"]}; \
	print(*(line for name in sys.argv[1:] for line in groups[name] if not line.startswith("torch>")), sep="\n")'

BUILDS := trace_tools/machines/torch_build.py
gpus := nvidia-smi --format=csv,noheader --query-gpu=driver_version

# A Python that already has torch lends it to the venv. Otherwise it is the build for the GPU's driver and its compute
# capability, which old drivers don't tell, or the CPU's; a second line is for an index that has no builds by name.
$(VENV)/.ready: pyproject.toml Makefile $(BUILDS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	rm -rf $(VENV)
	$(PYTHON) -m venv $(if $(shell $(PYTHON) -c "import torch" 2>/dev/null && echo yes),--system-site-packages) $(VENV)
	$(RUN) -c "import torch" 2>/dev/null \
		|| { { $(gpus),compute_cap || $(gpus); } 2>/dev/null | $(RUN) -I $(BUILDS) > $(VENV)/torch.txt; \
			$(RUN) -m pip install -q $$(sed -n 1p $(VENV)/torch.txt) 2>/dev/null \
			|| $(RUN) -m pip install -q $$(tail -n 1 $(VENV)/torch.txt); }
	$(requirements) run lecture dev > $(VENV)/requirements.txt
	$(RUN) -m pip install -q -r $(VENV)/requirements.txt
	touch $@

$(VENV)/.ready-%: $(VENV)/.ready
	$(requirements) $* > $(VENV)/requirements-$*.txt
	$(RUN) -m pip install -q -r $(VENV)/requirements-$*.txt
	touch $@
