# Thin fronts over CMake presets. `make run` and `make test` do all the set-up a fresh machine needs.
BUILD := build/release
BIN := $(BUILD)/bin/cairn
JOBS := $(shell nproc)

.PHONY: all setup build run test soak bench lint format install clean

all: program

.PHONY: program

setup:
	@tools/setup.sh

build: setup
	@test -f $(BUILD)/build.ninja || cmake --preset release
	@cmake --build --preset release -j $(JOBS)

program: setup
	@test -f $(BUILD)/build.ninja || cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target cairn

run: program
	$(BIN) serve --model demo $(ARGS)

test: build
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -LE soak $(ARGS)

# The big sizes; results go to docs/reliability.md by hand, with date and seed.
soak: build
	@ctest --test-dir $(BUILD) --output-on-failure -L soak $(ARGS)

bench: build
	@$(BIN) bench --model demo
	@$(BUILD)/bin/cairn-kernels-bench
	@$(BUILD)/bin/cairn-store-bench --memory

lint: setup
	@tools/lint.sh

format:
	@git ls-files '*.h' '*.cc' | xargs clang-format-16 -i

install: build
	@cmake --install $(BUILD) $(if $(PREFIX),--prefix $(PREFIX))

clean:
	rm -rf build
