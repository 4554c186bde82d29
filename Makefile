# Two commands for a newcomer: `make demo` and `make test`. They fetch a PostgreSQL of their own and touch no other.
# To install into a PostgreSQL that you have: make install PG_CONFIG=/path/to/pg_config

PG_CONFIG ?= pg_config
CARGO     ?= cargo
DESTDIR   ?=
LOCAL     := python3 tools/local.py
VERSION   := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" pg_graphrag.control)
# The parts of the install script, in order.
SQL       := head model_functions collection_functions document_functions raptor_functions search_functions graph_functions refresh_functions grants comments

.PHONY: help demo test lint psql stop clean build install

help:
	@echo 'make demo                    the whole of it on real text, in a private PostgreSQL'
	@echo 'make demo CORPUS=folder      the same with your own .md and .txt files'
	@echo 'make test                    all tests; PG=16 make test: against PostgreSQL 16'
	@echo 'make psql | stop             go on in psql | stop the private server'
	@echo 'make lint                    formatting and clippy'
	@echo 'make clean                   remove what was fetched, built and made'
	@echo 'make install PG_CONFIG=...   install into a PostgreSQL 15 to 18 of yours'

demo:
	@$(LOCAL) demo $(if $(CORPUS),"$(CORPUS)")

test:
	@$(LOCAL) test

lint:
	@$(LOCAL) lint

psql:
	@$(LOCAL) psql

stop:
	@$(LOCAL) stop

clean:
	@$(LOCAL) clean
	$(CARGO) clean

# `local.py env` lends a libclang where the machine has none; without Python the build uses what it finds.
build:
	@major=$$($(PG_CONFIG) --version | sed 's/[^0-9]*\([0-9]*\).*/\1/'); \
	eval "$$(python3 tools/local.py env 2>/dev/null)"; \
	PGRX_PG_CONFIG_PATH="$$(command -v $(PG_CONFIG))" $(CARGO) build --release --no-default-features --features pg$$major

install: build
	install -d "$(DESTDIR)$$($(PG_CONFIG) --pkglibdir)" "$(DESTDIR)$$($(PG_CONFIG) --sharedir)/extension"
	install -m 755 target/release/libpg_graphrag.so "$(DESTDIR)$$($(PG_CONFIG) --pkglibdir)/pg_graphrag.so"
	install -m 644 pg_graphrag.control "$(DESTDIR)$$($(PG_CONFIG) --sharedir)/extension/"
	cat $(SQL:%=sql/%.sql) > target/pg_graphrag--$(VERSION).sql
	install -m 644 target/pg_graphrag--$(VERSION).sql "$(DESTDIR)$$($(PG_CONFIG) --sharedir)/extension/"
