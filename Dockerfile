# Fulmen's two images, of a wheel each; the operator's builds on the light part of the other:
#
#   docker build --target operator -t fulmen-operator:dev .
#   docker build --target runtime -t fulmen:dev .         # driver, workers and preflights
#
# Authors who need more than files of Python build their own, FROM the runtime:
#
#   FROM fulmen:dev
#   USER root
#   RUN pip install --no-cache-dir duckdb
#   USER 185

# A release names it by its digest: --build-arg BASE=python:3.11-slim-bookworm@sha256:…
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS base
ENV LANG=C.UTF-8 PYTHONUNBUFFERED=1
# Group 0, as some clusters give containers a user of their own with that group. No program may give
# its caller the rights of another user or group: nothing here needs that.
RUN useradd --uid 185 --gid 0 --no-create-home --home-dir /var/fulmen --shell /usr/sbin/nologin fulmen \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +

FROM base AS wheels
WORKDIR /build
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY runtime runtime
COPY operator operator
RUN pip wheel --quiet --no-cache-dir --no-deps --wheel-dir /wheels . ./operator

# The operator: no Spark, no Java, and nothing that only the engine needs.
FROM base AS operator
COPY requirements/operator.txt /build/
COPY --from=wheels /wheels /wheels
RUN pip install --quiet --no-cache-dir --root-user-action ignore \
        --require-hashes --requirement /build/operator.txt \
 && pip install --quiet --no-cache-dir --root-user-action ignore --no-index --no-deps /wheels/*.whl \
 && pip check \
 && test -z "$(find / -xdev -type f -perm /6000)"
USER 185
ENTRYPOINT ["python3", "-P", "-m", "fulmen_operator"]

# Drivers, workers and preflights: Spark from the pinned pyspark, Java 17, clients of stores.
FROM base AS runtime
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless procps tini >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} +
# What changes rarely is a layer of its own. Spark comes as source: its wheel is not compressed. Topologies
# run on Spark's core and its pods. What nothing of these refers to is left out: SQL and its formats,
# machine learning, Hive, the shells, stores on disk of web UIs, other systems' libraries.
COPY requirements/runtime.txt requirements/wheels.cfg /build/
RUN DIST_EXTRA_CONFIG=/build/wheels.cfg pip install --quiet --no-cache-dir --root-user-action ignore \
        --require-hashes --requirement /build/runtime.txt \
 && ln -s "$(python3 -P -c 'import pyspark; print(pyspark.__path__[0])')" /opt/spark \
 && cd /opt/spark/jars \
 && rm -r connect-repl spark-connect_* spark-pipelines_* spark-repl_* scala-compiler-* spark-yarn_* \
        spark-sql_* spark-sql-api_* spark-catalyst_* spark-streaming_* janino-* icu4j-* jts-core-* \
        parquet-* orc-* arrow-* rocksdbjni-* \
        spark-hive* hive-* datanucleus-* derby* \
        spark-mllib* spark-graphx_* breeze* spire* algebra_* cats-kernel_* arpack* lapack-* \
        JTransforms-* JLargeArrays-* \
        *-osx-* *-windows-*
ENV SPARK_HOME=/opt/spark
COPY --chmod=755 runtime/fulmen/kube/entrypoint /opt/fulmen/entrypoint
COPY --from=wheels /wheels /wheels
RUN pip install --quiet --no-cache-dir --root-user-action ignore --no-index --no-deps \
        /wheels/fulmen-[0-9]*.whl \
 && pip check \
 && mkdir -m 755 /opt/fulmen/code /checkpoint && mkdir -m 1777 /var/fulmen
# Spark's classes, kept ready: its JVMs start in half the time. SPARK_CONF_DIR is the first on their
# class path, which has to stay as it is here.
ENV FULMEN_CLASSES=/opt/fulmen/classes SPARK_CONF_DIR=/opt/fulmen/classes/conf
RUN python3 -P -m fulmen.engine.spark.class_training \
 && test -z "$(find / -xdev -type f -perm /6000)"
# The only folders that a container can write to are /tmp and this one.
ENV HOME=/var/fulmen
WORKDIR /var/fulmen
USER 185
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/fulmen/entrypoint"]

# The runtime for the tests on a cluster, whose pods live for a minute or two. Compiling with C1 alone
# spares them a third of the CPU time that a JVM takes, most of which goes into starting.
FROM runtime AS tested
ENV JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1

# What comes without a --target.
FROM runtime
