# pykafka4. Rule: every target sets up what it needs itself; a second run reuses that and starts in seconds (tools/prepare).
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
unexport PYTHONDONTWRITEBYTECODE  # without bytecode each process compiles the package and rewrites the asserts of all tests again
SHELL := /bin/sh
PY := .venv/bin/python
PYTEST := $(PY) -m pytest
REAL := cluster or spark or chaos or storm or docker or vagrant or compat or harness or kerberos
SIM_SCHEDULES ?= 20000
CHAOS_RUNS ?= 10
BENCH_ROUNDS ?= 3
BEFORE := 40133c1
FUZZ ?= 50
FUZZ_AGENT ?= 1000000
SAMPLE ?= 150
FUZZ_SEED := $(or $(SEED),$(shell od -An -N4 -tu4 /dev/urandom | tr -d ' '))

.PHONY: help base kafka demo demo-cluster demo-model test test-ci test-all unit some-schedules simulated controls plain portable main-job main-job-secured integration integration-portable secured test-secure test-long test-long-secured test-spark test-harness test-docker test-vagrant test-kerberos compat mutants check lint formatted types contracts documented docs format sim chaos chaos-secure storm fuzz sanitize bench bench-rates bench-latency bench-spark bench-against bench-before bench-idle bench-first bench-groups bench-outage bench-scale bench-isolation bench-sending bench-agent bench-metrics fuzz-agent options states messages metrics clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

base:
	@tools/prepare base

kafka:
	@tools/prepare kafka

demo: kafka ## Spark writes 336,776 flights, a broker is killed, three consumers read; nothing is lost
	$(PY) -m examples.flights_pipeline

demo-cluster: kafka ## the flights on a standalone Spark cluster, exactly once; one of its two executors is killed midway; nothing is lost or written twice
	$(PY) -m examples.flights_on_cluster

demo-model: base ## the same story in ten seconds without a JVM: model brokers in one process, one is killed, nothing is lost
	@$(PY) -m pykafka4 demo

# Lanes run targets side by side (tools/lanes.py); MORE is added to each call of pytest. Each target keeps the names of its failed tests in a
# folder of its own: `make unit MORE=--last-failed` runs them again.
LANES := $(PY) -m tools.lanes
KEPT = -o cache_dir=build/pytest/$@ $(MORE)
SLOWEST := --durations=40 --durations-min=2
SPREAD := -n 2 --dist loadfile --max-worker-restart=0  # two processes, each with clusters of its own; a file stays together
OFFLINE := not ($(REAL) or simulation)
ON_BROKERS := (cluster or spark) and not (chaos or storm or harness or lengthy)
# Collecting all 22,000 tests costs a process a minute of CPU, so targets name the folders of their tests. tests/conftest.py refuses such a
# test in any other folder.
SIMULATED_IN := tests/simulation tests/agent/test_an_hour_without_brokers.py
ON_BROKERS_IN := tests/integration tests/spark tests/agent/cluster tests/conformance tests/docs/test_pages.py tests/packaging/test_packaging.py tests/test_examples.py tests/test_examples_of_groups.py

test: kafka ## unit tests; beside them the main job on a real cluster, its part about connections over TLS and SASL, and a share of the simulation; a quarter of an hour on two cores
	$(LANES) unit main-job+main-job-secured+some-schedules

test-ci: kafka ## `test`, with all tests on the real cluster instead of the main job, on two clusters at a time: half an hour on two cores
	$(LANES) unit+some-schedules integration+secured

test-all: kafka ## everything: `test-ci`, all schedules, the plain-Python core, the portable loop, lengthy tests, tests of the harness: two hours on two cores
	$(LANES) unit+plain+portable+simulated+controls integration+secured+test-long+test-long-secured+test-spark+integration-portable
	$(LANES) test-harness

unit: base ## unit tests with the compiled implementation of the hot part, in two processes
	$(PYTEST) $(SPREAD) $(SLOWEST) -m '$(OFFLINE)' $(KEPT)

some-schedules: base ## a sixth of the schedules of `simulated`, and every seed that once failed
	PYKAFKA4_SIM_SCHEDULES=300 $(PYTEST) $(SPREAD) $(SLOWEST) -m 'simulation and not controls' $(KEPT) $(SIMULATED_IN)

simulated: base ## 2,000 simulated schedules of producers, the simulation's searches for its own bugs, and a tenth of `controls`
	$(PYTEST) -m 'simulation and not controls' $(KEPT) $(SIMULATED_IN)

controls: base ## the simulation's searches for its own bugs, without the bugs: they must find nothing
	$(PYTEST) -m controls $(KEPT) $(SIMULATED_IN)

# Tests of other modules run once, with the compiled core: few of these modules use the hot part, and only through its tested interface.
plain: base ## the unit tests of the cores, of producers and of consumers, with the plain-Python core
	PYKAFKA4_IMPL=python $(PYTEST) $(SPREAD) -m '$(OFFLINE)' $(KEPT) --ignore=tests/producer/test_memory_bound.py --ignore=tests/consumer/test_crashes.py tests/wire/records tests/core/producer tests/core/consumer tests/producer tests/consumer tests/spark tests/agent/inputs tests/test_client.py tests/test_isolation.py

portable: base ## the unit tests that use the transport, with the portable one
	PYKAFKA4_LOOP=portable $(PYTEST) $(SPREAD) -m '$(OFFLINE)' $(KEPT) tests/net tests/producer tests/consumer tests/test_client.py tests/test_isolation.py

main-job: kafka ## the client's main job on the real cluster: each codec, kills, freezes, a group of each protocol, transactions, a share group, Spark
	$(PYTEST) -v -m main_job $(KEPT) $(ON_BROKERS_IN)

main-job-secured: kafka ## the part of `main-job` that is about connections, over TLS and SASL
	$(PYTEST) -v --security SASL_SSL -m 'main_job and secured' $(KEPT) $(ON_BROKERS_IN)

integration: kafka ## tests of the client against real 3-broker clusters, Spark included, two at a time
	$(PYTEST) -v $(SPREAD) $(SLOWEST) -m '$(ON_BROKERS)' $(KEPT) $(ON_BROKERS_IN)

integration-portable: kafka ## `integration` over the portable transport
	PYKAFKA4_LOOP=portable $(PYTEST) $(SPREAD) -m '$(ON_BROKERS)' $(KEPT) $(ON_BROKERS_IN)

test-long: kafka ## tests that `make test-ci` leaves out because they take long: every way of first use without authentication, Kafka's answers again, certificates that are replaced under load, proxies
	$(PYTEST) $(SPREAD) -m 'cluster and lengthy and not (spark or chaos or storm or harness)' $(KEPT) $(ON_BROKERS_IN)

test-spark: kafka ## lengthy tests on Spark: a standalone cluster where driver, executors, Python workers and brokers are killed, a speculative twin, Spark Connect, TLS
	$(PYTEST) $(SPREAD) $(SLOWEST) -m 'spark and lengthy and not (chaos or storm or harness)' $(KEPT) $(ON_BROKERS_IN)

secured: kafka ## the core of the tests on the real cluster again, over TLS and SASL: produce, consume, groups, kills, restarts, cut connections, and a short chaos
	$(PYTEST) -v --security SASL_SSL -m 'secured and not harness' $(KEPT) $(ON_BROKERS_IN)

test-long-secured: kafka ## the lengthy tests over TLS and SASL
	$(PYTEST) $(SPREAD) --security SASL_SSL -m 'cluster and lengthy and not (spark or chaos or storm or harness or secured)' $(KEPT) $(ON_BROKERS_IN)

test-secure: kafka ## all tests on the real cluster over TLS and SASL, and tests that take minutes: certificates that are replaced under load, proxies, Spark with TLS
	$(PYTEST) $(SPREAD) --security SASL_SSL -m '(cluster or spark) and not (chaos or storm or harness or secured)' $(KEPT)
	$(PYTEST) --security SASL_SSL -m 'secured and not harness'

test-harness: kafka ## tests of the harness: clusters, ports, proxies, jars; and a smoke of Docker and provisioning where this machine can
	$(PYTEST) -m 'harness and (smoke or not (docker or vagrant))' $(KEPT)

test-docker: kafka ## the integration tests on three containers, and tests that only Docker can run; the core of the tests over TLS and SASL, too
	$(PYTEST) --cluster=docker -m '(cluster or spark or docker) and not (chaos or storm)'
	$(PYTEST) --cluster=docker --security SASL_SSL -m 'secured and not (chaos or harness)'

test-vagrant: kafka ## the integration tests on three Vagrant machines, and tests of Vagrant itself; the core of the tests over TLS and SASL, too
	@case "$${VAGRANT_DEFAULT_PROVIDER:-docker}" in docker) $(PY) -m integration.vagrant --prepare ;; esac
	$(PYTEST) --cluster=vagrant --timeout 900 -m '(cluster or spark or vagrant) and not (chaos or storm)'
	$(PYTEST) --cluster=vagrant --timeout 900 --security SASL_SSL -m 'secured and not (chaos or harness)'

test-kerberos: kafka ## SASL GSSAPI: a KDC of the tests' own and brokers that accept its tickets; installs missing programs (as root on Debian)
	@tools/prepare kerberos
	$(PYTEST) -m kerberos

compat: kafka ## old brokers: produce, consume and groups on 0.11 to 3.9, reading on 0.10
	$(PYTEST) -s --timeout 0 -m compat


mutants: base ## deliberate bugs, and a sample of mutations of core/ or OF=pykafka4/…; a test must notice each (WORDS=… SAMPLE=… SEED=…); `controls` first
	@$(MAKE) --no-print-directory controls
	$(PY) -m tools.mutants --sample $(SAMPLE) $(if $(SEED),--seed $(SEED)) $(if $(OF),--of $(OF)) $(WORDS)

check: base ## ruff, format, mypy --strict, import contracts, pages that are rendered from the code, the documentation site; long files and functions are reported
	@$(PY) -m tools.sizes
	@$(MAKE) --no-print-directory --keep-going lint formatted types contracts documented docs

lint formatted types contracts documented docs: base
lint: ; $(PY) -m ruff check
formatted: ; $(PY) -m ruff format --check
types: ; $(PY) -m mypy
contracts: ; .venv/bin/lint-imports --no-cache
documented: ; $(PY) -m tools.options --check && $(PY) -m tools.states --check && $(PY) -m tools.messages --check && $(PY) -m tools.metrics --check
docs: ## the documentation site, in build/site; a broken link or unknown name is an error
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet

format: base ## have ruff fix and format the code
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

sim: base ## 20,000 simulated schedules of producers, as many of consumers, and as many of share groups (SIM_SCHEDULES=…): two to three hours on two cores
	PYKAFKA4_SIM_SCHEDULES=$(SIM_SCHEDULES) $(PYTEST) -s --timeout 0 -m simulation tests/simulation

chaos: kafka ## half an hour: ten runs of about two minutes, six drawn from a seed and four that kill leaders; storms of short connections, isolation, memory without brokers, leaderless partitions (CHAOS_RUNS=… SEED=…; LONG=1 adds two to three hours: 50 kills and 20 freezes with and without idempotence, ten minutes without brokers)
	CHAOS_RUNS=$(CHAOS_RUNS) CHAOS_SEED=$(SEED) CHAOS_LONG=$(LONG) $(PYTEST) -s --timeout 0 -m chaos

storm: kafka ## rebalance storms, 15 minutes each: members of ours and of other clients are killed, frozen and added, or leave, every 2 to 6 s; range, cooperative, consumer protocol, static members, rolling migration (STORM=scenario STORM_SECONDS=… STORM_SEED=…)
	$(PYTEST) -s --timeout 0 -m storm $(if $(STORM),-k $(STORM))

chaos-secure: kafka ## `chaos` over TLS and SASL (CHAOS_RUNS=… SEED=…)
	CHAOS_RUNS=$(CHAOS_RUNS) CHAOS_SEED=$(SEED) $(PYTEST) --security SASL_SSL -s --timeout 0 -m chaos

fuzz: base ## hostile bytes into every decoder, SASL mechanism and TLS handshake, hostile arguments into the public API, Ctrl-C at every place, connections cut anywhere: from a new seed, FUZZ times as many cases as `unit` (FUZZ=… SEED=…)
	PYKAFKA4_FUZZ=$(FUZZ) PYKAFKA4_FUZZ_SEED=$(FUZZ_SEED) $(PYTEST) --timeout 0 --hypothesis-seed=$(FUZZ_SEED) tests/wire tests/core/sasl tests/test_hostile_calls.py tests/producer/test_interrupts.py tests/consumer/test_interrupts.py tests/net/test_transport_ends.py tests/net/test_secure_ends.py tests/net/test_secure_hostile.py tests/net/test_hostile_peers.py tests/core/network/test_authentication_hostile.py

fuzz-agent: base ## a million hostile inputs into each socket of the agent: memory, and every byte accounted for (FUZZ_AGENT=… SEED=…)
	PYKAFKA4_FUZZ_AGENT=$(FUZZ_AGENT) PYKAFKA4_FUZZ_SEED=$(FUZZ_SEED) $(PYTEST) -s -n 0 --timeout 0 tests/agent/inputs/test_hostile.py

sanitize: base ## the tests of the compiled modules with the address and undefined-behaviour sanitizers
	tools/sanitize

bench: kafka ## the cost of records and their delays, beside other clients, on the sink and on the real cluster (BENCH_ROUNDS=…)
	@$(MAKE) --no-print-directory --keep-going bench-rates bench-before bench-latency bench-spark bench-isolation bench-sending

bench-rates: kafka ## produce and consume: rate and CPU per record, beside confluent-kafka (BENCH_ROUNDS=…)
	$(PY) -m benchmarks.bench --rounds $(BENCH_ROUNDS)

bench-latency: kafka ## acknowledgements, end to end, heartbeats: beside confluent-kafka and aiokafka (BENCH_ROUNDS=…)
	$(PY) -m benchmarks.latency --rounds $(BENCH_ROUNDS)

bench-spark: kafka ## Spark jobs that write and read, beside the JVM connector and confluent-kafka, on the real cluster, with the bars judged; ten minutes (BENCH_ROUNDS=…)
	$(PY) -m benchmarks.spark --rounds $(BENCH_ROUNDS)

bench-against: base ## CPU per record of this checkout against another commit's, in turns (BASE=commit BENCH_ROUNDS=…)
	$(PY) -m benchmarks.against $(or $(BASE),origin/main) --rounds $(BENCH_ROUNDS)

bench-before: base ## CPU per record in relation to confluent-kafka: at most 5 % more than at the commit before, all three in turns (BASE=commit BENCH_ROUNDS=…)
	$(PY) -m benchmarks.against $(or $(BASE),$(BEFORE)) --peers --limit 1.05 --records 1200000 --rounds $(BENCH_ROUNDS)

bench-idle: kafka ## what an idle producer and consumer cost, with brokers and without
	$(PY) -m benchmarks.idle

bench-metrics: kafka ## what a scrape of the metrics costs
	$(PY) -m benchmarks.metrics

bench-first: kafka ## first record of a fresh process, of 2,000 partitions and of 1,000 topics, idle members: beside confluent-kafka on the real cluster
	$(PY) -m benchmarks.first

bench-outage: base ## what a client costs while 3,000 partitions have no leader, on the model cluster
	$(PY) -m benchmarks.outage

bench-groups: kafka ## a group of 100 members over 1,000 partitions on the real cluster: time and CPU until it has settled, and idle, beside confluent-kafka (BENCH_ROUNDS=…)
	$(PY) -m benchmarks.groups --rounds $(BENCH_ROUNDS)

bench-scale: base ## what grows with partitions (10,000 of 1,000 topics on 100 model brokers), with its bars: beside confluent-kafka (BENCH_ROUNDS=…)
	$(PY) -m benchmarks.scale --rounds $(BENCH_ROUNDS)

bench-isolation: base ## what an offline partition or a late broker costs the other partitions, for each policy of a full buffer (BENCH_ROUNDS=…)
	$(PY) -m benchmarks.isolation --rounds $(BENCH_ROUNDS)

bench-sending: base ## what a record costs the thread that sends it: send, send_many, a Delivery that is ignored (at most 10 ns), a full buffer
	$(PY) -m benchmarks.sending

bench-agent: base ## the agent's datagram socket with C clients and the sink: messages per second, CPU per message, how long clients wait, the account, memory
	$(PY) -m benchmarks.agent

options: base ## render docs/options.md, docs/agent-settings.md and pykafka4/options/typed.py from the configuration
	$(PY) -m tools.options

states: base ## render docs/states.md and its diagrams from the tables of states
	$(PY) -m tools.states

messages: base ## render docs/reference/messages.md from the declared messages
	$(PY) -m tools.messages

metrics: base ## render the tables of docs/guide/metrics-list.md and the dashboard from the definitions of metrics
	$(PY) -m tools.metrics

clean: ## remove what was built here; the cache of jars outside the tree stays
	rm -rf .venv .make build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find pykafka4 \( -name '*.so' -o -name _hot.c \) -delete
