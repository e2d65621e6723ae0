# Sourced by .ci/run: a Docker engine for the Docker tests. Installs one if there is none, starts it if none answers, and stops at
# the end what it started. Everything stays on this machine: ports without an address are published on loopback, and a container's
# look-up of a name that the engine does not have asks no server.
docker_up() {
    local missing=()
    command -v dockerd >/dev/null || missing+=(docker.io)
    docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null || missing+=(docker-compose)
    command -v mmdebstrap >/dev/null || missing+=(mmdebstrap)
    if [ "${#missing[@]}" -gt 0 ]; then
        apt-get update -qq </dev/null
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
    fi
    docker info >/dev/null 2>&1 && return
    docker_log=$(mktemp)
    dockerd --ip=127.0.0.1 --dns=127.0.0.1 --log-level=warn >"$docker_log" 2>&1 </dev/null &
    docker_pid=$!
    trap docker_down EXIT
    for _ in $(seq 120); do
        docker info >/dev/null 2>&1 && return
        kill -0 "$docker_pid" 2>/dev/null || break
        sleep 0.25
    done
    tail -n 20 "$docker_log" >&2
    return 1
}

docker_down() {
    docker ps -aq | xargs -r docker rm -fv >/dev/null 2>&1
    kill "$docker_pid" && wait "$docker_pid"
    rm -f "$docker_log"
}
