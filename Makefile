.PHONY: help example test quick torture bench format

help:      ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1	/' | expand -t 12

example:   ## install onward and run the companies example
	python3 dev.py example

test:      ## every check and test, as CI runs them
	python3 dev.py test

quick:     ## checks and unit tests alone
	python3 dev.py test --only format lint types typing walls unit

torture:   ## 5,000 random kills, 51,000 effects, 500 poison runs, PostgreSQL's bad days; leaves the ledgers of seeds and outcomes
	build/env-test/bin/python -m tests.torture.kill_campaign --kills 5000 --ledger tests/torture/ledger.jsonl
	build/env-test/bin/python -m tests.torture.effect_campaign --effects 51000 --records 100 --ledger tests/torture/effect_ledger.jsonl
	build/env-test/bin/python -m tests.torture.poison_campaign --runs 500 --seed 1000 --ledger tests/torture/poison_ledger.jsonl
	build/env-test/bin/python -m tests.torture.cut_campaign --cuts 50000 --ledger tests/torture/cut_ledger.jsonl
	build/env-test/bin/python -m tests.torture.day_campaign --scenes 200 --ledger tests/torture/day_ledger.jsonl
	build/env-test/bin/python -m tests.torture.effect_campaign --store postgresql --effects 6800 --ledger tests/torture/postgres_effect_ledger.jsonl

bench:     ## the benchmark table
	python3 dev.py bench -- --write

format:    ## format and sort imports
	build/env-test/bin/ruff format . && build/env-test/bin/ruff check --fix .
