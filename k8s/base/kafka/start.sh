#!/bin/sh
# Format the volume once, then become the broker. The addresses come from the pod's environment.
set -eu
settings=/etc/lagbench-kafka/server.properties
/opt/kafka/bin/kafka-storage.sh format --ignore-formatted --cluster-id "$CLUSTER_ID" \
  --config "$settings"
exec /opt/kafka/bin/kafka-server-start.sh "$settings" \
  --override listeners="$LISTENERS" --override advertised.listeners="$ADVERTISED_LISTENERS"
