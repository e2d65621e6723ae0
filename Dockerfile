# A worker as an image: docker build -t kstreams-assign .
#
# It runs `kstreams-assign worker --config /etc/kstreams-assign/worker.toml` as a user without rights, keeps its state in the
# volume /var/lib/kstreams-assign, answers the health check where the file says http = "0.0.0.0:8080", and ends on SIGTERM within
# seconds. The other commands work as well, except those that need an extra: docker run kstreams-assign inspect ...
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
# What lies in docker/wheels is taken from there; with PIP_NO_INDEX=1 everything is (docker/images.sh).
ARG PIP_NO_INDEX
COPY requirements.lock ./
COPY docker/wheels /wheels
RUN ["/bin/sh", "-c", "python3 -m venv /opt/kstreams-assign && sed -n 's/^\\([a-z].*==[^ ]*\\).*/\\1/p' requirements.lock > /constraints.txt"]
COPY pyproject.toml README.md LICENSE ./
COPY protocol protocol
COPY kstreams_assign kstreams_assign
RUN ["/bin/sh", "-c", "PIP_CONSTRAINT=/constraints.txt /opt/kstreams-assign/bin/pip install --quiet --no-cache-dir --find-links /wheels . && /opt/kstreams-assign/bin/pip uninstall --quiet --yes pip setuptools"]

FROM ${BASE}
COPY --from=build /opt/kstreams-assign /opt/kstreams-assign
ENV PATH=/opt/kstreams-assign/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1
RUN ["/usr/bin/install", "-d", "-o", "10001", "-g", "10001", "/var/lib/kstreams-assign", "/run/kstreams-assign"]
USER 10001:10001
WORKDIR /var/lib/kstreams-assign
VOLUME /var/lib/kstreams-assign
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=10s --retries=3 \
    CMD ["python3", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/live', timeout=3)"]
ENTRYPOINT ["kstreams-assign"]
CMD ["worker", "--config", "/etc/kstreams-assign/worker.toml", "--json-log"]
