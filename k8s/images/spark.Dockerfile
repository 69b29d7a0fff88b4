# lagbench/spark: the accounting's Spark, for a standalone cluster and for k8s:// masters, and the pods
# of a consumer on Spark. Built from the project's root by `make images`. PySpark's wheel is all of
# Spark, so the version is the lock's.
FROM python:3.11.14-slim-bookworm AS java
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/*
ENV JAVA_HOME=/usr/lib/jvm/default-java
RUN ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" "$JAVA_HOME"

FROM java AS build
COPY k8s/images/spark.txt /tmp/spark.txt
RUN python -m venv --without-pip /opt/lagbench \
 && pip --python /opt/lagbench/bin/python install --no-cache-dir \
      --require-hashes -r /tmp/spark.txt
COPY include/lagbench /opt/lagbench/lib/python3.11/site-packages/lagbench
COPY include/lag_scaler /opt/lagbench/lib/python3.11/site-packages/lag_scaler
COPY include/pod_program /opt/lagbench/lib/python3.11/site-packages/pod_program
COPY include/localkube /opt/lagbench/lib/python3.11/site-packages/localkube
COPY spark_jobs /opt/lagbench/spark_jobs
# The Kafka connector, checked against spark-jars.lock, beside Spark's own jars.
RUN XDG_CACHE_HOME=/tmp/cache /opt/lagbench/bin/python -c "\
from pathlib import Path; from shutil import copy; import pyspark; \
from lagbench.embedded.jars import SPARK, jar_paths; \
[copy(jar, Path(pyspark.__file__).parent / 'jars') for jar in jar_paths(SPARK)]"
COPY k8s/images/spark-entrypoint.sh /opt/lagbench/bin/spark-entrypoint
# A pod's root file system is read-only: what is not compiled here is compiled at each start.
RUN /opt/lagbench/bin/python -m compileall -q /opt/lagbench/lib /opt/lagbench/spark_jobs

FROM java
# Hadoop's code asks for the name of the user and ends when there is none.
RUN useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin lagbench
COPY --from=build /opt/lagbench /opt/lagbench
ENV SPARK_HOME=/opt/lagbench/lib/python3.11/site-packages/pyspark \
    PATH=/opt/lagbench/bin:$PATH \
    PYTHONPATH=/opt/lagbench/spark_jobs \
    PYTHONDONTWRITEBYTECODE=1 \
    PYSPARK_PYTHON=/opt/lagbench/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/lagbench/bin/python
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["tini", "-s", "--", "sh", "/opt/lagbench/bin/spark-entrypoint"]
