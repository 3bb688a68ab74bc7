# Builds watchslo from this checkout and its locks, and nothing else: no shell, no pip, no writable path.
# BASE may be any image that has glibc, python3 with venv, and CA certificates. See docs/image.md.
ARG BASE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build
# requirements-otlp.lock adds the packages that push metrics by OTLP.
ARG LOCK=requirements.lock
WORKDIR /src
# The optional secrets are for users with a package index or CA of their own; the image does not contain them.
COPY requirements.lock requirements-otlp.lock requirements-build.lock ./
RUN --mount=type=secret,id=pip,target=/etc/pip.conf --mount=type=secret,id=ca,target=/run/secrets/ca \
    python3 -m venv /build && python3 -m venv --without-pip /opt/watchslo \
    && /build/bin/pip install --no-cache-dir --require-hashes -r requirements-build.lock \
    && /build/bin/pip --python /opt/watchslo/bin/python \
       install --no-cache-dir --no-compile --only-binary :all: --require-hashes -r ${LOCK}
COPY pyproject.toml README.md LICENSE ./
COPY watchslo watchslo
RUN /build/bin/pip wheel --no-cache-dir --no-index --no-deps --no-build-isolation --wheel-dir /wheel . \
    && /build/bin/pip --python /opt/watchslo/bin/python install --no-compile --no-index --no-deps /wheel/*.whl
COPY tools/image/rootfs.py ./
RUN /opt/watchslo/bin/python rootfs.py /rootfs

FROM scratch
COPY --from=build /rootfs /
ARG REVISION=unknown
ENV PATH=/opt/watchslo/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    WATCHSLO_REVISION=${REVISION}
LABEL org.opencontainers.image.title="watchslo" \
      org.opencontainers.image.description="How late are Kubernetes watch events?" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/watchslo/watchslo" \
      org.opencontainers.image.revision="${REVISION}"
USER 65534:65534
EXPOSE 9477
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s CMD ["watchslo", "healthy"]
ENTRYPOINT ["watchslo"]
CMD ["run"]
