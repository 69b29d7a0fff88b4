#!/bin/sh
# What Spark's Kubernetes backend calls with `driver ...` or `executor`; for a standalone cluster
# `master` and `worker spark://HOST:7077`. Anything else is run as it is.
set -eu
role=${1:-}
case "$role" in
  master | worker)
    # Who may submit runs code here: without a secret that would be everybody who reaches the port.
    [ -n "${_SPARK_AUTH_SECRET:-}" ] || {
      echo "_SPARK_AUTH_SECRET is not set: the same secret for master, workers and driver (docs/spark.md)" >&2
      exit 2
    }
    SPARK_DAEMON_JAVA_OPTS="-Dspark.authenticate=true -Dspark.network.crypto.enabled=true \
      -Dspark.network.crypto.cipher=AES/GCM/NoPadding -Dspark.master.rest.enabled=false \
      ${SPARK_DAEMON_JAVA_OPTS:-}"
    export SPARK_DAEMON_JAVA_OPTS
    ;;
esac
case "$role" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
      --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
  executor)
    # JVM options come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... and may hold blanks.
    set --
    number=0
    while eval "[ -n \"\${SPARK_JAVA_OPT_$number+given}\" ]"; do
      eval "set -- \"\$@\" \"\${SPARK_JAVA_OPT_$number}\""
      number=$((number + 1))
    done
    exec "$JAVA_HOME/bin/java" "$@" \
      "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
      -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*:${SPARK_CLASSPATH:-}" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" \
      --executor-id "$SPARK_EXECUTOR_ID" \
      --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" \
      --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
      --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  master)
    shift
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master "$@"
    ;;
  worker)
    shift
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker \
      --work-dir "${SPARK_WORKER_DIR:-/tmp/spark-work}" "$@"
    ;;
  *)
    exec "$@"
    ;;
esac
