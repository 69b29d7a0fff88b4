# Two images. --target airflow: the Airflow of docker-compose.yaml, which mounts the Dags and the code.
# The last stage, lagbench, has the wheels instead and needs no checkout. Both hold
# what `make install` installs (requirements.txt), PostgreSQL's drivers, and the jars. Not based on Airflow's own image: its packages would be other versions.
FROM python:3.11.14-slim-bookworm AS build
COPY requirements.txt k8s/images/postgres.txt /tmp/
RUN python -m venv --without-pip /opt/venv \
 && pip --python /opt/venv/bin/python install --no-cache-dir \
      --require-hashes -r /tmp/requirements.txt -r /tmp/postgres.txt
WORKDIR /opt/lagbench
COPY pyproject.toml README.md LICENSE ./
COPY include include
# Jars and a JAVA_HOME for Spark: the containers cannot write them.
RUN pip --python /opt/venv/bin/python install --no-cache-dir --no-deps --no-build-isolation -e . \
 && XDG_CACHE_HOME=/opt/cache /opt/venv/bin/python -m lagbench.embedded.jars \
 && XDG_CACHE_HOME=/opt/cache /opt/venv/bin/python -c "\
from lagbench.embedded.spark_packages import submit_environment; submit_environment()"

# Wheels of lagbench and lagbench-airflow, with catalog, policies, Dags and jobs.
FROM build AS wheels
COPY setup.py requirements.txt ./
COPY dags dags
COPY k8s k8s
COPY plugins plugins
COPY spark_jobs spark_jobs
RUN pip --python /opt/venv/bin/python wheel --no-deps --no-build-isolation --wheel-dir /wheels . ./plugins

FROM python:3.11.14-slim-bookworm AS airflow
# Java comes as a wheel with the lock; ps is what Spark's scripts look for.
RUN apt-get update \
 && apt-get install -y --no-install-recommends procps \
 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/venv /opt/venv
COPY --from=build --chown=50000:0 /opt/cache /opt/cache
# Spark asks for the user's name; named volumes take their owner from the folders.
RUN useradd --uid 50000 --gid 0 --no-create-home --shell /usr/sbin/nologin airflow \
 && install -d -o 50000 -g 0 /opt/airflow /opt/lagbench /opt/lagbench/.lagbench /opt/lagbench/runs
ENV PATH=/opt/venv/bin:$PATH \
    XDG_CACHE_HOME=/opt/cache \
    AIRFLOW_HOME=/opt/airflow \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 50000:0
WORKDIR /opt/lagbench
CMD ["airflow", "version"]

FROM airflow AS lagbench
USER 0:0
COPY --from=wheels /wheels /wheels
RUN pip --python /opt/venv/bin/python install --no-cache-dir --no-deps --no-index --force-reinstall /wheels/*.whl
USER 50000:0
CMD ["lagbench", "--help"]
