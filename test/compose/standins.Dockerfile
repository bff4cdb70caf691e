# Stand-ins for the published images of docker-compose.yml, for an engine that reaches no
# registry. BASE is Debian with the programs; test/compose/images builds each target.
ARG BASE
FROM $BASE AS nats
COPY --from=programs nats-server /usr/local/bin/nats-server
ENTRYPOINT ["nats-server"]

FROM $BASE AS postgres
COPY postgres-entrypoint /usr/local/bin/docker-entrypoint.sh
RUN mkdir -p /var/run/postgresql && chown postgres /var/run/postgresql && ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["docker-entrypoint.sh"]

FROM $BASE AS haproxy
STOPSIGNAL SIGUSR1
USER 99:99
ENTRYPOINT ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]

FROM $BASE AS prometheus
RUN mkdir -p /prometheus && chown 65534:65534 /prometheus
USER 65534:65534
VOLUME /prometheus
ENTRYPOINT ["prometheus"]

# What Debian does not have is there and does nothing.
FROM $BASE AS idle
STOPSIGNAL SIGKILL
ENTRYPOINT ["sh", "-c", "exec sleep infinity"]

FROM $BASE AS golang
# As in the published image: modules land in the cache that deploy/Dockerfile mounts, not in each image.
ENV GOPATH=/go PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOTOOLCHAIN=local GOPROXY=file:///modules GOSUMDB=off
COPY --from=go . /usr/local/go
COPY --from=modules . /modules
