#!/bin/sh
exec /opt/kafka/bin/kafka-class.sh kafka.tools.StorageTool "$@"
