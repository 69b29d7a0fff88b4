#!/bin/sh
# Run a class of Kafka as its own scripts do: the log folder exists, the heap is the caller's.
set -eu
logs=${LOG_DIR:-/opt/kafka/logs}
mkdir -p "$logs"
# shellcheck disable=SC2086  # options are words
exec java ${KAFKA_HEAP_OPTS:--Xmx256m} "-Xlog:gc*:file=$logs/gc.log:time,tags:filecount=2,filesize=8M" \
  -Djava.awt.headless=true "-Dkafka.logs.dir=$logs" \
  -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.properties -cp '/opt/kafka/libs/*' "$@"
