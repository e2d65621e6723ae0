"""Every setting of librdkafka 2.16.0, as the library itself lists them (``rd_kafka_conf_properties_show``). Facts only.

A line is a name, its clients (C consumer, P producer, * every client), and the allowed values: numbers from..to, or a
list of words; or ``=`` and the name of which it is an alias. What must not live here: which of them a caller may set
(``rules``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

LIBRDKAFKA = "2.16.0"


class Property(NamedTuple):
    """A setting of librdkafka. ``name`` is the name that its aliases stand for; ``allowed`` is empty for any text."""

    name: str
    clients: str
    allowed: str


_TABLE = """\
builtin.features *
client.id *
metadata.broker.list *
bootstrap.servers * = metadata.broker.list
message.max.bytes * 1000..1000000000
message.copy.max.bytes * 0..1000000000
receive.message.max.bytes * 1000..2147483647
max.in.flight.requests.per.connection * 1..1000000
max.in.flight * = max.in.flight.requests.per.connection
metadata.recovery.strategy * none,rebootstrap
metadata.recovery.rebootstrap.trigger.ms * 0..2147483647
topic.metadata.refresh.interval.ms * -1..3600000
metadata.max.age.ms * 1..86400000
topic.metadata.refresh.fast.interval.ms * 1..60000
topic.metadata.refresh.fast.cnt * 0..1000
topic.metadata.refresh.sparse * true,false
topic.metadata.propagation.max.ms * 0..3600000
topic.blacklist *
debug * generic,broker,topic,metadata,feature,queue,msg,protocol,cgrp,security,fetch,interceptor,plugin,consumer,admin,\
eos,mock,assignor,conf,telemetry,all
socket.timeout.ms * 10..300000
socket.blocking.max.ms * 1..60000
socket.send.buffer.bytes * 0..100000000
socket.receive.buffer.bytes * 0..100000000
socket.keepalive.enable * true,false
socket.nagle.disable * true,false
socket.max.fails * 0..1000000
broker.address.ttl * 0..86400000
broker.address.family * any,v4,v6
socket.connection.setup.timeout.ms * 1000..2147483647
connections.max.idle.ms * 0..2147483647
reconnect.backoff.jitter.ms * 0..3600000
reconnect.backoff.ms * 0..3600000
reconnect.backoff.max.ms * 0..3600000
statistics.interval.ms * 0..86400000
enabled_events * 0..2147483647
error_cb *
throttle_cb *
stats_cb *
log_cb *
log_level * 0..7
log.queue * true,false
log.thread.name * true,false
enable.random.seed * true,false
log.connection.close * true,false
background_event_cb *
socket_cb *
connect_cb *
closesocket_cb *
open_cb *
resolve_cb *
opaque *
default_topic_conf *
internal.termination.signal * 0..128
api.version.request * true,false
api.version.request.timeout.ms * 1..300000
api.version.fallback.ms * 0..604800000
broker.version.fallback *
allow.auto.create.topics * true,false
security.protocol * plaintext,ssl,sasl_plaintext,sasl_ssl
ssl.cipher.suites *
ssl.curves.list *
ssl.sigalgs.list *
ssl.key.location *
ssl.key.password *
ssl.key.pem *
ssl_key *
ssl.certificate.location *
ssl.certificate.pem *
ssl_certificate *
ssl.ca.location *
https.ca.location *
https.ca.pem *
ssl.ca.pem *
ssl_ca *
ssl.ca.certificate.stores *
ssl.crl.location *
ssl.keystore.location *
ssl.keystore.password *
ssl.providers *
ssl.engine.location *
ssl.engine.id *
ssl_engine_callback_data *
enable.ssl.certificate.verification * true,false
ssl.endpoint.identification.algorithm * none,https
ssl.certificate.verify_cb *
sasl.mechanisms *
sasl.mechanism * = sasl.mechanisms
sasl.kerberos.service.name *
sasl.kerberos.principal *
sasl.kerberos.kinit.cmd *
sasl.kerberos.keytab *
sasl.kerberos.min.time.before.relogin * 0..86400000
sasl.username *
sasl.password *
sasl.oauthbearer.config *
enable.sasl.oauthbearer.unsecure.jwt * true,false
oauthbearer_token_refresh_cb *
sasl.oauthbearer.method * default,oidc
sasl.oauthbearer.client.id *
sasl.oauthbearer.client.credentials.client.id * = sasl.oauthbearer.client.id
sasl.oauthbearer.client.credentials.client.secret * = sasl.oauthbearer.client.secret
sasl.oauthbearer.client.secret *
sasl.oauthbearer.scope *
sasl.oauthbearer.extensions *
sasl.oauthbearer.token.endpoint.url *
sasl.oauthbearer.sub.claim.name *
sasl.oauthbearer.grant.type * client_credentials,urn:ietf:params:oauth:grant-type:jwt-bearer
sasl.oauthbearer.assertion.algorithm * RS256,ES256
sasl.oauthbearer.assertion.private.key.file *
sasl.oauthbearer.assertion.private.key.passphrase *
sasl.oauthbearer.assertion.private.key.pem *
sasl.oauthbearer.assertion.file *
sasl.oauthbearer.assertion.claim.aud *
sasl.oauthbearer.assertion.claim.exp.seconds * 1..2147483647
sasl.oauthbearer.assertion.claim.iss *
sasl.oauthbearer.assertion.claim.jti.include * true,false
sasl.oauthbearer.assertion.claim.nbf.seconds * 0..2147483647
sasl.oauthbearer.assertion.claim.sub *
sasl.oauthbearer.assertion.jwt.template.file *
sasl.oauthbearer.metadata.authentication.type * none,azure_imds,aws_iam
plugin.library.paths *
interceptors *
group.id C
group.instance.id C
partition.assignment.strategy C
session.timeout.ms C 1..3600000
heartbeat.interval.ms C 1..3600000
group.protocol.type C
group.protocol C classic,consumer
group.remote.assignor C
coordinator.query.interval.ms C 1..3600000
max.poll.interval.ms C 1..86400000
enable.auto.commit C true,false
auto.commit.interval.ms C 0..86400000
enable.auto.offset.store C true,false
queued.min.messages C 1..10000000
queued.max.messages.kbytes C 1..2097151
fetch.wait.max.ms C 0..300000
fetch.queue.backoff.ms C 0..300000
fetch.message.max.bytes C 1..1000000000
max.partition.fetch.bytes C = fetch.message.max.bytes
fetch.max.bytes C 0..2147483135
fetch.min.bytes C 0..2147483647
fetch.error.backoff.ms C 0..300000
offset.store.method C none,file,broker
isolation.level C read_uncommitted,read_committed
consume_cb C
rebalance_cb C
offset_commit_cb C
enable.partition.eof C true,false
check.crcs C true,false
client.rack *
max.poll.records C 1..2147483647
share.acknowledgement.mode C
transactional.id P
transaction.timeout.ms P 1000..2147483647
enable.idempotence P true,false
enable.gapless.guarantee P true,false
queue.buffering.max.messages P 0..2147483647
queue.buffering.max.kbytes P 1..2147483647
queue.buffering.max.ms P 0..900000
linger.ms P = queue.buffering.max.ms
message.send.max.retries P 0..2147483647
retries P = message.send.max.retries
retry.backoff.ms * 1..300000
retry.backoff.max.ms * 1..300000
queue.buffering.backpressure.threshold P 1..1000000
compression.codec P none,gzip,snappy,lz4,zstd
compression.type P = compression.codec
batch.num.messages P 1..1000000
batch.size P 1..2147483647
delivery.report.only.error P true,false
dr_cb P
dr_msg_cb P
sticky.partitioning.linger.ms P 0..900000
client.dns.lookup * use_all_dns_ips,resolve_canonical_bootstrap_servers_only
enable.metrics.push * true,false
request.required.acks P -1..1000
acks P = request.required.acks
request.timeout.ms P 1..900000
message.timeout.ms P 0..2147483647
delivery.timeout.ms P = message.timeout.ms
queuing.strategy P fifo,lifo
produce.offset.report P true,false
partitioner P
partitioner_cb P
msg_order_cmp P
compression.level P -1..12
auto.commit.enable C true,false
auto.offset.reset C smallest,earliest,beginning,largest,latest,end,error
offset.store.path C
offset.store.sync.interval.ms C -1..86400000
consume.callback.max.messages C 0..1000000
"""


def _read(table: str) -> Mapping[str, Property]:
    rows = [line.split(" ", 2) for line in table.splitlines()]
    own = {
        name: Property(name, clients, "".join(rest)) for name, clients, *rest in rows if not rest or rest[0][0] != "="
    }
    return {name: own[rest[0][2:] if rest and rest[0][0] == "=" else name] for name, _, *rest in rows}


PROPERTIES: Mapping[str, Property] = _read(_TABLE)
"""By name, aliases too."""
