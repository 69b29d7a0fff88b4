# lagbench/programs: what runs in the bench's pods. Built from the project's root by `make images`.
# Tags are pinned by version; pin the digest that your registry shows when you build for others.
FROM python:3.11.14-slim-bookworm AS build
COPY k8s/images/programs.txt /tmp/programs.txt
RUN python -m venv --without-pip /opt/lagbench \
 && pip --python /opt/lagbench/bin/python install --no-cache-dir --no-compile \
      --require-hashes --only-binary :all: -r /tmp/programs.txt
# Only what the programs import; a test follows their imports through these folders.
WORKDIR /opt/lagbench/lib/python3.11/site-packages
COPY include/lag_scaler lag_scaler
COPY include/pod_program pod_program
COPY include/localkube/__init__.py include/localkube/processes.py include/localkube/process_launcher.py localkube/
COPY include/lagbench/__init__.py include/lagbench/errors.py include/lagbench/project.py lagbench/
COPY include/lagbench/core lagbench/core
COPY include/lagbench/shared_with_spark lagbench/shared_with_spark
COPY include/lagbench/adapters lagbench/adapters
COPY include/lagbench/programs lagbench/programs
# The root file system is read-only in a pod: what is not compiled here is compiled at each start.
RUN /opt/lagbench/bin/python -m compileall -q /opt/lagbench/lib

FROM python:3.11.14-slim-bookworm
COPY --from=build /opt/lagbench /opt/lagbench
ENV PATH=/opt/lagbench/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /opt/lagbench
# No entry point: each manifest names its program, as it does for the embedded bench.
CMD ["python", "-c", "print('python -m lagbench.programs.PROGRAM')"]
