# make trace    run lecture.py on this machine, write rendered/<machine>/trace.yaml, then as make render
# make render   the pages of all traces in rendered/, and in rendered/diff what differs between them; also make pairs
# make test     run the fast tests; make test-all runs all
# make doctor   what this machine is, and what would go wrong on it
# make diff     A=intel-xeon-2-cores B=amd-epyc-2-cores, or paths: what differs between two traces and whether it matters;
#               without A and B, the reference that is committed and the trace made here last
# make check    ruff, mypy, and the pages of tests/golden, which make golden writes again; says whether those in rendered/
#               are out of date
# make emulate  the whole lecture and the tests that need a GPU, on an emulated CUDA device, into .emulated/
# make serve    the lecture's pages in a browser, made again at each save
# Each sets up .venv first, if it is missing or stale; test, check and the like also install the packages of tests. With
# a Python that already has what is needed, and no network: make trace PYTHON=python3 VENV=none

PYTHON ?= python3
VENV ?= .venv
DEVICE ?=
PASSES ?= 3
LECTURE ?= lecture.py
ARGS ?=
TRACES = $(sort $(wildcard rendered/*/trace.yaml))

ifeq ($(VENV),none)
RUN := $(PYTHON)
READY :=
DEV :=
else
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
DEV := $(VENV)/.dev
# A venv whose Python is gone is stale.
$(shell test ! -e $(READY) || $(RUN) -c "" 2>/dev/null || rm -f $(READY) $(DEV))
endif

.PHONY: trace doctor test test-all render diff pairs serve check golden bench mutate fuzz emulate clean

trace: $(READY)
	$(RUN) -m trace_tools trace $(LECTURE) --passes $(PASSES) $(if $(DEVICE),--device $(DEVICE)) $(ARGS)

doctor: $(READY)
	$(RUN) -m trace_tools doctor $(if $(DEVICE),--device $(DEVICE)) $(ARGS)

# One thread each: two workers whose threads wait for each other take many times as long. Each begins with a half of the
# tests, so that what a module traces once is traced by one of them. Bytecode is kept whatever the environment says:
# tests start a hundred processes, and each would compile the tools anew.
test: ONLY = -m "not slow"
test test-all: $(DEV)
	OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= \
		$(RUN) -m pytest $(ONLY) $$($(RUN) -c "import xdist" 2>/dev/null && printf %s "-n 2 --dist worksteal") $(ARGS)

render pairs: $(READY)
	$(RUN) -m trace_tools render $(TRACES)

diff: $(READY)
	@$(RUN) -m trace_tools diff $(A) $(B) $(ARGS) || case $$? in 1|3) ;; *) exit 2 ;; esac  # to differ is no failure

serve: $(READY)
	$(RUN) -m trace_tools serve $(LECTURE) $(if $(DEVICE),--device $(DEVICE)) $(ARGS)

check: $(DEV)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pytest tests/golden tests/presentation/test_page_shell.py
	@$(if $(TRACES),$(RUN) -m trace_tools render --check $(TRACES) || test $$? -eq 1,:)  # stale pages are no failure

golden: $(DEV)
	$(RUN) -m tests.golden.test_golden

bench: $(DEV)
	$(RUN) -m tests.checks.bench $(ARGS)

mutate: $(DEV)
	$(RUN) -m tests.checks.mutate $(ARGS)

fuzz: $(DEV)
	$(RUN) -m tests.checks.fuzz $(ARGS)

emulate: $(DEV)
	$(RUN) -m tests.emulated_cuda.emulate

clean:
	rm -rf .venv .serve .emulated .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.ready: pyproject.toml trace_tools/machines/venv.sh
	sh trace_tools/machines/venv.sh $(VENV) $(PYTHON)
	touch $@

$(VENV)/.dev: $(VENV)/.ready
	@echo "pip downloads what the tests need (about 100 MB)."
	$(RUN) -m pip install -q -e ".[dev]"
	touch $@
