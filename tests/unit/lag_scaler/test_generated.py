"""The committed gRPC modules are what the .proto gives."""

from pathlib import Path

from grpc_tools import protoc

from lag_scaler.wire import externalscaler_pb2 as wire

_INCLUDE = Path(wire.__file__).parents[2]


def test_committed_modules_are_generated_from_the_proto(tmp_path: Path) -> None:
    """`make proto` would change nothing."""
    source = Path(wire.__file__).with_name("externalscaler.proto")
    places = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]

    code = protoc.main(["protoc", f"-I{_INCLUDE}", *places, str(source)])

    assert code == 0
    fresh = sorted((tmp_path / "lag_scaler" / "wire").iterdir())
    assert len(fresh) == 3
    for file in fresh:
        assert source.with_name(file.name).read_text() == file.read_text(), "run `make proto`"


def test_numbers_and_types_on_the_wire_are_those_of_keda() -> None:
    """A message that KEDA's own client writes is read field by field."""
    fields = {
        (message, field.name): (field.number, field.type)
        for message, descriptor in wire.DESCRIPTOR.message_types_by_name.items()
        for field in descriptor.fields
    }

    string, boolean, integer, double, message = 9, 8, 3, 1, 11
    assert wire.DESCRIPTOR.package == "externalscaler"
    assert fields == {
        ("ScaledObjectRef", "name"): (1, string),
        ("ScaledObjectRef", "namespace"): (2, string),
        ("ScaledObjectRef", "scalerMetadata"): (3, message),
        ("IsActiveResponse", "result"): (1, boolean),
        ("GetMetricSpecResponse", "metricSpecs"): (1, message),
        ("MetricSpec", "metricName"): (1, string),
        ("MetricSpec", "targetSize"): (2, integer),
        ("MetricSpec", "targetSizeFloat"): (3, double),
        ("GetMetricsRequest", "scaledObjectRef"): (1, message),
        ("GetMetricsRequest", "metricName"): (2, string),
        ("GetMetricsResponse", "metricValues"): (1, message),
        ("MetricValue", "metricName"): (1, string),
        ("MetricValue", "metricValue"): (2, integer),
        ("MetricValue", "metricValueFloat"): (3, double),
    }
