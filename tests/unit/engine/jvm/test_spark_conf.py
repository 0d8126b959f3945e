import pytest

from fulmen.engine.jvm.spark_conf import LOG4J, at_launch, complete, java_size
from fulmen.errors import FulmenError
from fulmen.topology.validation.reserved_settings import NEEDED


@pytest.fixture
def conf(tmp_path):
    return lambda given=(), workers=2, slots=1: complete(
        dict(given), workers, slots, tmp_path, tmp_path / "logs"
    )


def test_what_correctness_rests_on_is_set(conf):
    assert conf().items() >= {**NEEDED, "spark.cores.max": "2"}.items()


def test_pods_have_a_core_for_each_slot(conf):
    made = conf({"spark.master": "k8s://x"}, workers=5, slots=2)
    assert made["spark.executor.cores"] == "2"
    assert made["spark.executor.instances"] == "3"
    assert made["spark.cores.max"] == "6"


def test_on_this_machine_each_worker_has_a_slot_in_the_drivers_jvm(conf):
    assert conf(workers=4, slots=4)["spark.master"] == "local[4]"


def test_the_user_may_repeat_it_but_not_contradict(conf):
    conf({"spark.task.maxFailures": "1"})
    with pytest.raises(FulmenError) as refused:
        conf({"spark.task.maxFailures": "4"})
    assert str(refused.value) == (
        "spark.conf: 'spark.task.maxFailures' is '4', but Fulmen's batches need '1'. Leave it out."
    )


def test_the_user_changes_defaults_and_adds_settings(conf):
    made = conf({"spark.executor.memory": "2g", "spark.hadoop.x": "y"})
    assert made["spark.executor.memory"] == "2g"
    assert made["spark.hadoop.x"] == "y"
    assert "-Xms2g" in made["spark.executor.extraJavaOptions"]
    assert "-Xms1g" in made["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize(
    ("heap", "young"), [("400m", 200), ("600m", 300), ("1g", 300), ("20g", 300)]
)
def test_the_young_generation_is_half_of_a_small_heap(conf, heap, young):
    made = conf({"spark.executor.memory": heap})
    assert f"-Xmn{young << 10}k" in made["spark.executor.extraJavaOptions"]


def test_the_users_java_options_come_after_ours(conf):
    options = conf({"spark.driver.extraJavaOptions": "-Dx=1"})["spark.driver.extraJavaOptions"]
    assert options.startswith("-XX:+UseSerialGC")
    assert options.endswith(" -Dx=1")


@pytest.mark.parametrize(
    ("master", "workers", "slots", "quick"),
    [("k8s://x", 8, 2, True), ("k8s://x", 9, 2, False), (None, 2, 1, False)],
)
def test_a_driver_beside_few_jvms_compiles_quickly(conf, master, workers, slots, quick):
    made = conf({"spark.master": master} if master else {}, workers=workers, slots=slots)
    assert ("-XX:TieredStopAtLevel=1" in made["spark.driver.extraJavaOptions"]) is quick
    assert "-XX:TieredStopAtLevel" not in made["spark.executor.extraJavaOptions"]


def test_folders_are_set_on_this_machine_only(conf, tmp_path):
    assert conf()["spark.local.dir"] == str(tmp_path)
    elsewhere = conf({"spark.master": "k8s://x"})
    assert not [value for value in elsewhere.values() if value == str(tmp_path)]


@pytest.mark.parametrize(
    ("given", "size"), [("600m", "600m"), ("1gb", "1g"), ("2G", "2g"), ("512", "512m")]
)
def test_sizes_are_spelled_as_java_does(given, size):
    assert java_size(given) == size


def test_a_size_that_is_none_is_refused():
    with pytest.raises(FulmenError, match="'much' is not an amount of memory"):
        java_size("much")


def test_secrets_are_not_for_the_command_line(conf):
    made = conf({"spark.authenticate.secret": "s", "spark.hadoop.fs.s3a.secret.key": "k"})
    launch = at_launch(made)
    assert not [name for name in launch if "secret" in name]
    assert "spark.driver.memory" in launch


def test_the_logging_settings_are_installed():
    assert LOG4J.is_file()
