# `make demo` and `make test` set themselves up; they need Python ≥ 3.11 and nothing more.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python -m

.PHONY: demo test test-all lint clean

demo: $(VENV)/.base
	@$(VENV)/bin/python samples/demo.py

test: $(VENV)/.test lint
	$(RUN) pytest -n 2 tests

test-all: $(VENV)/.test lint
	$(RUN) pytest -n 2 -m '' tests

lint: $(VENV)/.test
	$(RUN) ruff check .
	$(RUN) ruff format --check .
	$(RUN) mypy

$(VENV)/.base: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Reelspace needs Python 3.11 or newer; run: make PYTHON=python3.11 …")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(RUN) pip install --quiet --upgrade 'pip>=25.1'
	$(RUN) pip install --quiet --editable .
	touch $@

$(VENV)/.test: $(VENV)/.base
	$(RUN) pip install --quiet --group torch
	$(RUN) pip install --quiet --group test
	touch $@

clean:
	rm -rf $(VENV)
